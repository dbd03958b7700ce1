"""Reads the loader's cache, /etc/ld.so.cache, in the form that glibc writes since 2.2.

Standard library only: it runs in images as well. Source: glibc, dl-cache.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_MAGIC = b"glibc-ld.so.cache1.1"
_OLD = b"ld.so-1.7.0\0"
_X86_64, _ELF_LIBC6, _AARCH64 = 0x0300, 0x0003, 0x0A00
_MOST_ENTRIES = 1 << 20


def entries(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and path of every 64-bit library in the cache; nothing for bytes that are no cache."""
    start = data.find(_MAGIC) if data.startswith((_MAGIC, _OLD)) else -1
    if start < 0 or start + 48 > len(data):
        return
    (count,) = struct.unpack_from("<I", data, start + 20)
    for number in range(min(count, _MOST_ENTRIES)):
        at = start + 48 + number * 24
        if at + 24 > len(data):
            return
        flags, name, path = struct.unpack_from("<iII", data, at)
        if flags & 0xFF == _ELF_LIBC6 and flags & 0xFF00 in (_X86_64, _AARCH64):
            yield _text(data, start + name), _text(data, start + path)


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    return data[at : end if end >= 0 else len(data)].decode("utf-8", "surrogateescape")
