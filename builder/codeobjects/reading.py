"""Reads one file: whether it has code for AMD GPUs, in a form that ROCm's loaders know, and for which."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from builder.codeobjects import bundle, compressed, elf
from builder.codeobjects.bundle import Bundle, bare, is_bundle, read_bundle
from builder.codeobjects.limits import Budget, Limits, Unreadable

FIRST_BYTES = len(bundle.MAGIC)
_FATBIN, _WRAPPERS = ".hip_fatbin", ".hipFatBinSegment"
_WRAPPER = struct.Struct("<IIQQ")
_WRAPPER_MAGIC = 0x48495046  # HIPF
_PAGE = 4096
_WINDOW = 1 << 20
_MOST_PROBLEMS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCode:
    """The GPU code of a file.

    `kind` is "program" for a host program or library with code inside, "bundle" for a bundle as a file of its own,
    "code object" for a bare one. `problems` are facts about what could not be read.
    """

    kind: Literal["program", "bundle", "code object"]
    bundles: tuple[Bundle, ...]
    problems: tuple[str, ...] = ()

    @property
    def stored(self) -> int:
        """Bytes in the file."""
        return sum(each.stored for each in self.bundles)


def may_have_code(start: bytes) -> bool:
    """Tell from a file's first `FIRST_BYTES` whether it is worth reading."""
    return start.startswith(elf.MAGIC) or is_bundle(start)


def read_file(data: memoryview, limits: Limits | None = None) -> FileCode | None:
    """Return the GPU code of a file, None when it has none. Never raises for what the bytes are."""
    budget = Budget(limits)
    if is_bundle(data):
        found, problems = _bundles(data, budget)
        return FileCode(kind="bundle", bundles=found, problems=problems)
    try:
        head = elf.header(data)
    except Unreadable:
        return None  # so little that no loader takes it for a program
    if head is None:
        return None
    if head.machine == elf.EM_AMDGPU:
        try:
            return FileCode(kind="code object", bundles=(bare(data),))
        except Unreadable as error:
            broken = Bundle(objects=(), stored=len(data), problem=str(error))
            return FileCode(kind="code object", bundles=(broken,))
    return _program(data, head, budget)


def _program(data: memoryview, head: elf.Header, budget: Budget) -> FileCode | None:
    """Look where a HIP program has its code: in one section, which others point to."""
    try:
        sections = elf.sections(data, head)
    except Unreadable as error:
        # Half a program, or none: worth a word only where there was GPU code in it.
        found = tuple(_by_pages(data, budget))
        return FileCode(kind="program", bundles=found, problems=(str(error),)) if found else None
    bundles: list[Bundle] = []
    problems: list[str] = []
    if not sections and not (head.sections_at and 0 < head.names_in < head.sections):
        bundles += _by_pages(data, budget)  # stripped of its sections
    for section in sections:
        if section.name == _FATBIN:
            found, told = _bundles(data[section.offset : section.offset + section.size], budget)
            bundles += found
            problems += told
    for section in sections:
        if section.name == _WRAPPERS:
            registered = list(_pointers(data[section.offset : section.offset + section.size], budget.limits))
            bundles += [_one(data[at:], budget) for at in _elsewhere(data, head, set(registered), sections)]
            if len(registered) > len(bundles):
                problems.append(f"the program registers {len(registered)} bundles, {len(bundles)} are there")
    if not bundles and not problems:
        return None
    return FileCode(kind="program", bundles=tuple(bundles), problems=tuple(problems[:_MOST_PROBLEMS]))


def _bundles(data: memoryview, budget: Budget) -> tuple[tuple[Bundle, ...], tuple[str, ...]]:
    """Read bundles that lie one after the other, with zeros between them."""
    found: list[Bundle] = []
    problems: list[str] = []
    at = 0
    while (start := _next(data, at)) is not None:
        if _says_something(data[at:start]):
            problems.append(f"{start - at} bytes before offset {start} are no offload bundle")
        if len(found) == budget.limits.bundles:
            problems.append(f"more than {len(found)} bundles; the rest is not read")
            break
        found.append(_one(data[start:], budget))
        at = start + (found[-1].stored or 1)
    else:
        if _says_something(data[at:]):
            problems.append(f"{len(data) - at} bytes from offset {at} on are no offload bundle")
    return tuple(found), tuple(problems[:_MOST_PROBLEMS])


def _one(data: memoryview, budget: Budget) -> Bundle:
    try:
        return read_bundle(data, budget)
    except Unreadable as error:
        return Bundle(objects=(), stored=0, problem=str(error))


def _next(data: memoryview, at: int) -> int | None:
    """Return where the next bundle starts, searching window by window."""
    overlap, size = len(bundle.MAGIC) - 1, _PAGE  # mostly it is near
    while at < len(data):
        window = bytes(data[at : at + size + overlap])
        places = [place for magic in (bundle.MAGIC, compressed.MAGIC) if (place := window.find(magic)) >= 0]
        if places:
            return at + min(places)
        at, size = at + size, _WINDOW
    return None


def _says_something(data: memoryview) -> bool:
    """Tell whether there are bytes other than padding."""
    return any(bytes(data[at : at + _WINDOW]).strip(b"\0") for at in range(0, len(data), _WINDOW))


def _by_pages(data: memoryview, budget: Budget) -> Iterator[Bundle]:
    """Read the bundles of a program without a table of sections: compilers put them at the start of a page."""
    at = 0
    while at < len(data):
        if is_bundle(data[at : at + FIRST_BYTES]):
            yield _one(data[at:], budget)
        at += _PAGE


def _pointers(data: memoryview, limits: Limits) -> Iterator[int]:
    """Yield the addresses of the bundles that a program registers; 0 for one that the loader fills in."""
    for at in range(0, min(len(data), limits.bundles * _WRAPPER.size) - _WRAPPER.size + 1, _WRAPPER.size):
        magic, _, address, _ = _WRAPPER.unpack_from(data, at)
        if magic == _WRAPPER_MAGIC:
            yield address


def _elsewhere(
    data: memoryview, head: elf.Header, addresses: set[int], sections: tuple[elf.Section, ...]
) -> Iterator[int]:
    """Yield the offsets of registered bundles that do not lie in the section for bundles."""
    inside = [(each.address, each.address + each.size) for each in sections if each.name == _FATBIN]
    outside = sorted(
        address for address in addresses if address and not any(first <= address < last for first, last in inside)
    )
    try:
        loaded = elf.loaded(elf.segments(data, head)) if outside else ()
    except Unreadable:
        return
    for address in outside:
        offset = elf.offset_of(address, loaded)
        if offset is not None and is_bundle(data[offset : offset + FIRST_BYTES]):
            yield offset
