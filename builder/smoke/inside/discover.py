"""Looks what an image that comes without a recipe has: Python, distributions, compilers, and targets it names."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

from builder.smoke.inside.evidence import find_hipcc

_HASH = "srt/mem_cache/cpp_utils/native_hash.py"  # below sglang


def probe(modules: list[str]) -> dict[str, Any]:
    """Return what is there. `modules` are looked for by name, and none of them is imported."""
    places = {module: _place(module) for module in modules}
    return {
        "python": list(sys.version_info[:3]),
        "distributions": _distributions(),
        "modules": sorted(module for module, place in places.items() if place is not None),
        "hipcc": _hipcc(),
        "hash_extension": (place := places.get("sglang")) is not None and Path(place, _HASH).is_file(),
        "hip": _hip_of_torch(places.get("torch")),
        "targets": _targets(),
    }


def _place(module: str) -> str | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return places[0] if places and spec is not None and spec.origin is not None else None


def _distributions() -> dict[str, str]:
    found: dict[str, str] = {}
    for each in importlib.metadata.distributions():
        name = each.metadata["Name"]
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), each.version)
    return dict(sorted(found.items()))


def _hipcc() -> str | None:
    try:
        return find_hipcc()
    except FileNotFoundError:
        return None


def _hip_of_torch(place: str | None) -> str | None:
    """Return the HIP version that torch says it is built for; importing it would take seconds."""
    if place is None or not Path(place, "version.py").is_file():
        return None
    said = Path(place, "version.py").read_text(encoding="utf-8")
    found = re.search(r"^hip[^=]*= *['\"]([^'\"]+)", said, re.MULTILINE)
    return found[1] if found else None


def _targets() -> list[str]:
    """Return the GPU targets that the environment names, as builds and run-time compiles read them."""
    named = (os.environ.get(name, "") for name in ("PYTORCH_ROCM_ARCH", "GPU_ARCHS", "HCC_AMDGPU_TARGET"))
    return sorted({word for text in named for word in re.split(r"[;, ]+", text) if word.startswith("gfx")})
