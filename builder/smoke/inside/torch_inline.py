"""Lets torch compile a module that comes as text, into a temporary directory, and calls what was compiled."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from builder.smoke.inside.evidence import Wrong, scratch

_SOURCE = "#include <cmath>\nat::Tensor scaled(at::Tensor given) {{ return given * std::sqrt({salt}.0); }}\n"


def probe(writable: list[str]) -> dict[str, Any]:
    """Return the file that was loaded, and the seconds to import torch and to compile."""
    begun = time.monotonic()
    torch = importlib.import_module("torch")
    extension = importlib.import_module("torch.utils.cpp_extension")
    imported = time.monotonic()
    # As engines do that keep away from the shared cache; nothing may depend on TORCH_EXTENSIONS_DIR.
    os.environ.pop("TORCH_EXTENSIONS_DIR", None)
    module = extension.load_inline(
        name="smoke_inline", cpp_sources=_SOURCE.format(salt=4), functions=["scaled"],
        extra_cflags=["-O0"], build_directory=scratch(writable),
    )  # fmt: skip
    got = module.scaled(torch.ones(2)).tolist()
    if got != [2.0, 2.0]:
        raise Wrong(f"the compiled module gives {got}, expected [2.0, 2.0]")
    return {
        "loaded": module.__file__,
        "import_seconds": round(imported - begun, 3),
        "compile_seconds": round(time.monotonic() - imported, 3),
    }
