"""Reads what an ELF file tells the dynamic loader: what it needs, where to look, which symbol versions.

Standard library only: it runs in images as well. Sources: System V ABI, chapter 5, Dynamic Section; Linux Standard
Base, Core, chapter 10.7, Symbol Versioning.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from builder.elf.headers import PT_DYNAMIC, PT_INTERP, Header, Segment, Unreadable, header, offset_of, segments

_NEEDED, _STRTAB, _STRSZ, _SONAME, _RPATH, _TEXTREL, _RUNPATH, _FLAGS = 1, 5, 10, 14, 15, 22, 29, 30
_FLAGS_1, _VERDEF, _VERDEFNUM, _VERNEED, _VERNEEDNUM = 0x6FFFFFFB, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_DF_TEXTREL = 4
_DF_1_NODEFLIB = 0x800
_DF_1_PIE = 0x08000000
_VER_FLG_WEAK = 2
_MOST_ENTRIES = 1 << 16
_LONGEST_NAME = 4096
_INIT = b"\0PyInit_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamic:
    """What the loader is told.

    `rpath` and `runpath` are as written, one entry each; `requires` maps a needed file to the symbol versions that
    have to be in it, `defines` are the versions that this file has itself. `initialises` are the Python modules
    that it is, by the last part of their names.
    """

    machine: int
    interpreter: str | None = None
    program: bool = False
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    no_default: bool = False
    text_relocations: bool = False
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defines: tuple[str, ...] = ()
    initialises: tuple[str, ...] = ()


def read(data: memoryview) -> Dynamic | None:
    """Return what the loader is told, None for anything but a program or library that is loaded dynamically.

    Raises `Unreadable` where the bytes are not what their headers promise.
    """
    head = header(data)
    if head is None or head.kind not in (2, 3):
        return None
    among = segments(data, head)
    table = next((each for each in among if each.kind == PT_DYNAMIC and each.size), None)
    if table is None:
        return None
    entries = list(_entries(data, table))
    strings = _strings(data, entries, among)
    first = dict(reversed(entries))
    interpreter = next((_words(data, each.offset, each.size) for each in among if each.kind == PT_INTERP), None)
    runpath = _path(strings, first.get(_RUNPATH))
    return Dynamic(
        machine=head.machine,
        interpreter=interpreter,
        program=_is_program(head, interpreter, first),
        soname=_name(strings, first[_SONAME]) if _SONAME in first else None,
        needed=tuple(_name(strings, value) for tag, value in entries if tag == _NEEDED),
        rpath=() if _RUNPATH in first else _path(strings, first.get(_RPATH)),
        runpath=runpath,
        no_default=bool(first.get(_FLAGS_1, 0) & _DF_1_NODEFLIB),
        text_relocations=_TEXTREL in first or bool(first.get(_FLAGS, 0) & _DF_TEXTREL),
        requires=dict(_required(data, strings, first, among)),
        defines=tuple(_defined(data, strings, first, among)),
        initialises=tuple(_modules(strings)),
    )


def _is_program(head: Header, interpreter: str | None, first: Mapping[int, int]) -> bool:
    """Whether it is started and not loaded. Libraries with an interpreter, such as libc, have a SONAME."""
    return head.kind == 2 or bool(first.get(_FLAGS_1, 0) & _DF_1_PIE) or (
        interpreter is not None and _SONAME not in first
    )  # fmt: skip


def _entries(data: memoryview, table: Segment) -> Iterator[tuple[int, int]]:
    if table.offset + table.size > len(data):
        raise Unreadable("the dynamic section lies outside of the file")
    for number in range(min(table.size // 16, _MOST_ENTRIES)):
        tag, value = struct.unpack_from("<qQ", data, table.offset + number * 16)
        if tag == 0:
            return
        yield tag, value


def _strings(data: memoryview, entries: list[tuple[int, int]], among: tuple[Segment, ...]) -> memoryview:
    told = dict(entries)
    at, size = _offset(told.get(_STRTAB, 0), among, "the names of the dynamic section"), told.get(_STRSZ, 0)
    if at + size > len(data):
        raise Unreadable("the names of the dynamic section lie outside of the file")
    return data[at : at + size]


def _offset(address: int, among: tuple[Segment, ...], what: str) -> int:
    found = offset_of(address, among)
    if found is None:
        raise Unreadable(f"{what} are in no segment that is loaded")
    return found


def _name(strings: memoryview, at: int) -> str:
    if at >= len(strings):
        raise Unreadable("a name of the dynamic section lies outside of its names")
    return _words(strings, at, len(strings) - at)


def _words(data: memoryview, at: int, size: int) -> str:
    return bytes(data[at : at + min(size, _LONGEST_NAME)]).partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _path(strings: memoryview, at: int | None) -> tuple[str, ...]:
    text = _name(strings, at) if at is not None else ""
    return tuple(text.split(":")) if text else ()  # an empty one is ignored, an empty entry is where one stands


def _required(
    data: memoryview, strings: memoryview, first: Mapping[int, int], among: tuple[Segment, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the needed files with the versions that must be in them; weak needs are none."""
    if _VERNEED not in first:
        return
    at = _offset(first[_VERNEED], among, "the needed versions")
    left = _MOST_ENTRIES
    for _ in range(min(first.get(_VERNEEDNUM, 0), _MOST_ENTRIES)):
        _, count, file, aux, following = _unpack("<HHIII", data, at)
        names, place = [], at + aux
        left -= count
        if left < 0:
            raise Unreadable(f"more than {_MOST_ENTRIES} versions are needed")
        for _ in range(count):
            _, flags, _, name, step = _unpack("<IHHII", data, place)
            if not flags & _VER_FLG_WEAK:
                names.append(_name(strings, name))
            if step == 0:
                break
            place += step
        yield _name(strings, file), tuple(names)
        if following == 0:
            return
        at += following


def _defined(
    data: memoryview, strings: memoryview, first: Mapping[int, int], among: tuple[Segment, ...]
) -> Iterator[str]:
    if _VERDEF not in first:
        return
    at = _offset(first[_VERDEF], among, "the defined versions")
    for _ in range(min(first.get(_VERDEFNUM, 0), _MOST_ENTRIES)):
        _, _, _, _, _, aux, following = _unpack("<HHHHIII", data, at)
        yield _name(strings, _unpack("<II", data, at + aux)[0])
        if following == 0:
            return
        at += following


def _unpack(form: str, data: memoryview, at: int) -> tuple[int, ...]:
    if at + struct.calcsize(form) > len(data):
        raise Unreadable("a symbol version lies outside of the file")
    return struct.unpack_from(form, data, at)


def _modules(strings: memoryview) -> Iterator[str]:
    """Yield the names behind `PyInit_`, which only the library of a Python module exports."""
    names = bytes(strings)
    at = names.find(_INIT)
    while at >= 0:
        start = at + len(_INIT)
        yield names[start : names.find(b"\0", start)].decode("utf-8", "replace")
        at = names.find(_INIT, start)
