"""Asks the HIP runtime which GPUs it sees, and the kernel's driver what they are."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from pathlib import Path
from typing import Any

from builder.smoke.inside.evidence import Wrong

_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")
_LONGEST_NAME = 256


def probe() -> dict[str, Any]:
    """Return the names of the GPUs as HIP tells them, and their targets as the driver does."""
    hip = _runtime()
    count = ctypes.c_int(0)
    _require(hip, hip.hipGetDeviceCount(ctypes.byref(count)), "counts the GPUs")
    names = []
    for number in range(count.value):
        name = ctypes.create_string_buffer(_LONGEST_NAME)
        _require(hip, hip.hipDeviceGetName(name, _LONGEST_NAME, number), f"names GPU {number}")
        names.append(name.value.decode("utf-8", "replace"))
    if not names:
        raise Wrong("the HIP runtime sees no GPU")
    return {"names": names, "targets": targets(_TOPOLOGY)}


def targets(topology: Path) -> list[str]:
    """Return the target of every GPU that the driver lists: 110000 is gfx1100, 90010 is gfx90a."""
    found = []
    for properties in sorted(topology.glob("*/properties"), key=lambda path: path.parent.name.zfill(4)):
        lines = [line.split() for line in properties.read_text(encoding="utf-8").splitlines()]
        told = {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}
        version = told.get("gfx_target_version", 0)
        if version:
            found.append(f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}")
    return found


def _runtime() -> ctypes.CDLL:
    """Return the HIP runtime: the one that torch brings, so that there is one, else the system's."""
    spec = importlib.util.find_spec("torch")
    folders = [Path(place, "lib") for place in (spec.submodule_search_locations or [])] if spec else []
    brought = [str(path) for folder in folders for path in sorted(folder.glob("libamdhip64.so*"))]
    name = next(iter(brought), None) or ctypes.util.find_library("amdhip64")
    if name is None:
        raise Wrong("the HIP runtime, libamdhip64, is not in the image")
    return ctypes.CDLL(name)


def _require(hip: ctypes.CDLL, status: int, what: str) -> None:
    if status == 0:
        return
    hip.hipGetErrorString.restype = ctypes.c_char_p
    words = hip.hipGetErrorString(status)
    raise Wrong(f"the HIP runtime {what}: {words.decode() if words else f'error {status}'}")
