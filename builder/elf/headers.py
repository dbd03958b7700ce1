"""Reads the headers of 64-bit little-endian ELF files: what a file is, and which parts of it are loaded where.

Every offset and count is checked against the bytes that are there. Standard library only, and no other module of
this package: it runs in images as well. Source: System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC = b"\x7fELF"
HEADER_SIZE = 64
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4


class Unreadable(ValueError):
    """Bytes that do not hold what their own headers promise. The message is a fact, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What an ELF header says."""

    kind: int
    machine: int
    os_abi: int
    abi_version: int
    flags: int
    segments_at: int
    sections_at: int
    segments: int
    sections: int
    names_in: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A program header."""

    kind: int
    offset: int
    address: int
    size: int


def header(data: memoryview | bytes) -> Header | None:
    """Return the header, None for anything but 64-bit little-endian ELF. Raises `Unreadable` for half of one."""
    if bytes(data[:4]) != MAGIC or bytes(data[4:6]) not in (b"\x02\x01", b""):
        return None
    if len(data) < HEADER_SIZE:
        raise Unreadable(f"the ELF header is cut off after {len(data)} bytes")
    kind, machine, _, _, segments_at, sections_at, flags, _, _, segments, _, sections, names_in = (
        struct.unpack_from("<HHIQQQIHHHHHH", data, 16)
    )
    return Header(
        kind=kind, machine=machine, os_abi=data[7], abi_version=data[8], flags=flags, segments_at=segments_at,
        sections_at=sections_at, segments=segments, sections=sections, names_in=names_in,
    )  # fmt: skip


def segments(data: memoryview, of: Header) -> tuple[Segment, ...]:
    """Return the program headers. Raises `Unreadable` when they are not there."""
    if of.segments_at + of.segments * 56 > len(data):
        raise Unreadable(f"the table of {of.segments} segments lies outside of the file")
    found = []
    for number in range(of.segments):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, of.segments_at + number * 56)
        found.append(Segment(kind=kind, offset=offset, address=address, size=size))
    return tuple(found)


def offset_of(address: int, among: tuple[Segment, ...]) -> int | None:
    """Return where in the file the byte lies that is loaded to an address."""
    for segment in among:
        if segment.kind == PT_LOAD and segment.address <= address < segment.address + segment.size:
            return segment.offset + address - segment.address
    return None
