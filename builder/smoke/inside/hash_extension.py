"""Compiles SGLang's HiCache hash extension from a cold cache and compares its digest with hashlib's."""

from __future__ import annotations

import hashlib
import importlib
import os
import struct
import time
from pathlib import Path
from typing import Any

from builder.smoke.inside.evidence import Wrong

MODULE = "sglang.srt.mem_cache.cpp_utils.native_hash"
TOKENS = [1, 2, 3, 4]


def probe() -> dict[str, Any]:
    """Return digest, seconds to import and seconds to compile."""
    cache = os.environ.get("TORCH_EXTENSIONS_DIR") or str(Path("~/.cache/torch_extensions").expanduser())
    left = _built(cache)
    if left:
        raise Wrong(f"the extension cache is not cold, the image carries {left[0]}", left)
    begun = time.monotonic()
    native = importlib.import_module(MODULE)
    imported = time.monotonic()
    digest = native.get_native_hash(TOKENS, None)
    compiled = time.monotonic()
    # Recomputed from what the engine documents as the key: the tokens as little-endian 32-bit words.
    expected = hashlib.sha256(struct.pack("<4I", *TOKENS)).hexdigest()
    if digest != expected:
        raise Wrong(f"the digest of tokens {TOKENS} is {digest}, hashlib says {expected}")
    return {
        "digest": digest,
        "import_seconds": round(imported - begun, 3),
        "compile_seconds": round(compiled - imported, 3),
        "cache": cache,
        "built": _built(cache),
    }


def _built(cache: str) -> list[str]:
    return sorted(str(path) for path in Path(cache).rglob("*.so") if "hash" in path.name)
