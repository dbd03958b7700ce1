"""Reads ELF as far as GPU code needs it: sections, notes, e_flags; for headers see `builder.elf.headers`.

Every offset and count is checked against the bytes that are there. Sources: System V ABI, chapter 4; LLVM, "User
Guide for AMDGPU Backend", sections ELF Header and Note Records.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from builder.codeobjects import processors
from builder.elf.headers import (
    HEADER_SIZE,
    MAGIC,
    PT_LOAD,
    PT_NOTE,
    Header,
    Segment,
    Unreadable,
    header,
    offset_of,
    segments,
)

__all__ = [
    "HEADER_SIZE", "MAGIC", "Header", "Section", "Segment", "header", "loaded", "notes", "offset_of", "sections",
    "segments", "target",
]  # fmt: skip

EM_AMDGPU = 224
HSA = 64
V2, V3 = 0, 1  # e_ident[EI_ABIVERSION] of code object versions 2 and 3; later ones count on
_SHT_NOBITS = 8
_SHF_COMPRESSED = 0x800
_SHN_XINDEX = 0xFFFF
_ISA_NOTE = 3  # NT_AMD_HSA_ISA_VERSION
_MOST_HEADERS = 1 << 20
_LONGEST_NAME = 256
_MOST_LOADED = 64
_MOST_NOTES = 1024
_V4_SETTINGS = ("", "", "-", "+")  # unsupported, any, off, on


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section that has bytes in the file."""

    name: str
    address: int
    offset: int
    size: int


def sections(data: memoryview, of: Header) -> tuple[Section, ...]:
    """Return the named sections that have bytes. Raises `Unreadable` when one is not there."""
    if of.sections_at == 0:
        return ()
    first = _section(data, of.sections_at)
    count = of.sections or first[3]  # more than 65279: the size of section 0 has the number
    names_in = first[4] if of.names_in == _SHN_XINDEX else of.names_in
    if count > _MOST_HEADERS or of.sections_at + count * 64 > len(data):
        raise Unreadable(f"the table of {count} sections lies outside of the file")
    if not 0 < names_in < count:
        return ()
    _, _, names_at, names_size, *_ = _section(data, of.sections_at + names_in * 64)
    _within(data, names_at, names_size, "the names of the sections")
    found = []
    for number in range(1, count):
        name_at, kind, offset, size, _, address, flags = _section(data, of.sections_at + number * 64)
        if kind == _SHT_NOBITS or size == 0:
            continue
        name = _text(data[names_at + min(name_at, names_size) : names_at + names_size])
        if name.startswith(".hip"):
            _within(data, offset, size, f"section {name}")
            if flags & _SHF_COMPRESSED:
                raise Unreadable(f"section {name} is compressed, which no loader undoes")
        found.append(Section(name=name, address=address, offset=offset, size=size))
    return tuple(found)


def loaded(among: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Return the segments that are loaded; of more than any linker makes, the first."""
    return tuple(segment for segment in among if segment.kind == PT_LOAD)[:_MOST_LOADED]


def notes(data: memoryview, among: tuple[Segment, ...]) -> Iterator[tuple[str, int, memoryview]]:
    """Yield owner, type and content of every note. Raises `Unreadable` for one that is cut off."""
    for segment in among:
        if segment.kind != PT_NOTE:
            continue
        _within(data, segment.offset, segment.size, "a segment of notes")
        rest = data[segment.offset : segment.offset + segment.size]
        while len(rest) >= 12:
            name_size, size, kind = struct.unpack_from("<III", rest)
            content_at = 12 + -(-name_size // 4) * 4
            if content_at + size > len(rest):
                raise Unreadable("a note is cut off")
            yield _text(rest[12 : 12 + name_size]), kind, rest[content_at : content_at + size]
            rest = rest[content_at + -(-size // 4) * 4 :]


def target(data: memoryview | bytes, of: Header) -> str:
    """Return the target ID of an AMDGPU object. Raises `Unreadable` for a processor that is not known.

    Code object version 2 has its processor in a note, later ones have it in e_flags; up to version 3 a feature is
    on or off, from 4 on it can be "any".
    """
    if of.os_abi == HSA and of.abi_version == V2:
        return _target_of_version_2(memoryview(data), of)
    number = of.flags & 0xFF
    processor = processors.MACH.get(number)
    if processor is None:
        raise Unreadable(f"the processor 0x{number:02x} in its ELF header is not known")
    if of.os_abi != HSA:
        return processor
    if of.abi_version == V3:
        settings = {"xnack": "+" if of.flags & 0x100 else "-", "sramecc": "+" if of.flags & 0x200 else "-"}
    else:
        settings = {"xnack": _V4_SETTINGS[of.flags >> 8 & 3], "sramecc": _V4_SETTINGS[of.flags >> 10 & 3]}
    return processor + "".join(
        f":{name}{settings[name]}"
        for name in ("sramecc", "xnack")
        if settings[name] and processors.supports(processor, name)
    )


def _target_of_version_2(data: memoryview, of: Header) -> str:
    for owner, kind, content in itertools.islice(notes(data, segments(data, of)), _MOST_NOTES):
        if owner == "AMD" and kind == _ISA_NOTE and len(content) >= 16:
            major, minor, stepping = struct.unpack_from("<III", content, 4)
            if major < 100 and minor < 10 and stepping < 16:
                return f"gfx{major}{minor}{stepping:x}"
    raise Unreadable("a code object of version 2 without a note of its processor")


def _section(data: memoryview, at: int) -> tuple[int, int, int, int, int, int, int]:
    """Return name, type, offset, size, link, address and flags of the section header at an offset."""
    if at + 64 > len(data):
        raise Unreadable("the table of sections lies outside of the file")
    name, kind, flags, address, offset, size, link = struct.unpack_from("<IIQQQQI", data, at)
    return name, kind, offset, size, link, address, flags


def _within(data: memoryview, offset: int, size: int, what: str) -> None:
    if offset + size > len(data):
        raise Unreadable(
            f"{what}: bytes {offset} to {offset + size} lie outside of the file, which has {len(data)}"
        )


def _text(data: memoryview) -> str:
    text = bytes(data[:_LONGEST_NAME]).partition(b"\0")[0].decode("ascii", "replace")
    return "".join(char if char.isprintable() else "?" for char in text)
