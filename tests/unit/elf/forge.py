"""Writes ELF files that hold nothing but what the dynamic loader is told, one field at a time."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_BASE = 0x1000  # where the whole file is loaded


def library(
    *,
    soname: str | None = None,
    needed: Sequence[str] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    requires: Mapping[str, Sequence[str]] | None = None,
    weak: Sequence[str] = (),
    defines: Sequence[str] = (),
    exports: Sequence[str] = (),
    interpreter: str | None = None,
    textrel: bool = False,
    flags: int = 0,
    flags_1: int = 0,
    machine: int = 62,
    kind: int = 3,
) -> bytes:
    """Return a 64-bit little-endian file with a dynamic section, names, and version tables."""
    names = _Names()
    tags: list[tuple[int, int]] = [(1, names.at(name)) for name in needed]
    for tag, text in ((14, soname), (15, rpath), (29, runpath)):
        if text is not None:
            tags.append((tag, names.at(text)))
    for name in exports:
        names.at(name)
    wanted = _wanted(requires or {}, weak, names)
    own = _own(defines, names)
    if textrel:
        tags.append((22, 0))
    tags += [(tag, value) for tag, value in ((30, flags), (0x6FFFFFFB, flags_1)) if value]
    segments = 2 + (interpreter is not None)
    at = 64 + 56 * segments
    tables = {}
    for name, data in (("names", names.data), ("wanted", wanted), ("own", own)):
        tables[name] = at
        at += len(data)
    path = (interpreter or "").encode() + b"\0"
    path_at = at
    at += len(path)
    tags += [(5, _BASE + tables["names"]), (10, len(names.data))]
    if requires:
        tags += [(0x6FFFFFFE, _BASE + tables["wanted"]), (0x6FFFFFFF, len(requires))]
    if defines:
        tags += [(0x6FFFFFFC, _BASE + tables["own"]), (0x6FFFFFFD, len(defines))]
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in (*tags, (0, 0)))
    size = at + len(dynamic)
    headers = [(1, 0, _BASE, size), (2, at, _BASE + at, len(dynamic))]
    if interpreter is not None:
        headers.append((3, path_at, _BASE + path_at, len(path)))
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 64, 0, 0, 64, 56, segments, 64, 0, 0)
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind_, 5, offset, address, address, length, length, 8)
        for kind_, offset, address, length in headers
    )
    return header + table + names.data + wanted + own + path + dynamic


class _Names:
    def __init__(self) -> None:
        self.data = b"\0"

    def at(self, text: str) -> int:
        place = len(self.data)
        self.data += text.encode() + b"\0"
        return place


def _wanted(requires: Mapping[str, Sequence[str]], weak: Sequence[str], names: _Names) -> bytes:
    data = b""
    for number, (file, versions) in enumerate(requires.items()):
        aux = b""
        for count, version in enumerate(versions):
            following = 16 if count + 1 < len(versions) else 0
            aux += struct.pack("<IHHII", 0, 2 if version in weak else 0, 2, names.at(version), following)
        following = 16 + len(aux) if number + 1 < len(requires) else 0
        data += struct.pack("<HHIII", 1, len(versions), names.at(file), 16, following) + aux
    return data


def _own(versions: Sequence[str], names: _Names) -> bytes:
    data = b""
    for number, version in enumerate(versions):
        following = 28 if number + 1 < len(versions) else 0
        data += struct.pack("<HHHHIII", 1, 0, number + 1, 1, 0, 20, following) + struct.pack(
            "<II", names.at(version), 0
        )
    return data
