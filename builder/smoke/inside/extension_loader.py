"""Evaluates the expression that a recipe declares as a loader, and finds what it compiled and loaded."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

from builder.smoke.inside.evidence import Wrong


def probe(loader: str, writable: list[str]) -> dict[str, Any]:
    """Return the libraries that are loaded after `loader` (`module:expression`) and were compiled for it."""
    name, _, expression = loader.partition(":")
    begun = time.monotonic()
    module = importlib.import_module(name)
    imported = time.monotonic()
    # The recipe's own words, in the image that they are about.
    value = eval(expression, vars(module))  # noqa: S307
    loaded = [path for path in _mapped() if _within(path, writable)]
    if not loaded:
        raise Wrong(f"{expression} of {name} gave {_shown(value)}, and no extension was compiled and loaded")
    return {
        "loaded": loaded,
        "import_seconds": round(imported - begun, 3),
        "load_seconds": round(time.monotonic() - imported, 3),
    }


def _mapped() -> list[str]:
    """Return the files whose code this process has mapped (proc(5))."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    mapped = (line.split(maxsplit=5) for line in lines)
    return sorted({words[5] for words in mapped if len(words) == 6 and "x" in words[1] and words[5][0] == "/"})


def _within(path: str, directories: list[str]) -> bool:
    real = Path(path.removesuffix(" (deleted)")).resolve()
    return any(real.is_relative_to(Path(top).resolve()) for top in directories)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
