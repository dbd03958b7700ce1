"""Reads offload bundles, plain and compressed, without ever holding one in memory.

A bundle is what a HIP program carries per translation unit: one code object for each target. Sources: Clang,
"Clang Offload Bundler", sections Bundled Binary File Layout, Bundle Entry ID, Compression and Decompression.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from builder.codeobjects import elf, processors
from builder.codeobjects.compressed import is_compressed, read_envelope
from builder.codeobjects.limits import Budget, Limits, Unreadable

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_CHUNK = 1 << 20
_BITCODE, _SPIRV = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b"), b"\x03\x02\x23\x07"
# kind, triple, target: hipv4-amdgcn-amd-amdhsa--gfx942:xnack-, host-x86_64-unknown-linux-gnu-
_DEVICE = re.compile(r"(?:hip|hipv4|openmp)-(?:amdgcn|spirv64)-[a-z0-9_.-]*?-(gfx[0-9a-z:+-]+|amdgcnspirv)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeObject:
    """Code for one target: `target` is a target ID or `amdgcnspirv`, `size` its bytes when it is loaded."""

    target: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The code objects of one bundle, or a single one that stands alone.

    `stored` are its bytes in the file. `compression` is how those are compressed, with the format's version as in
    "zstd, version 3", None where they are not. `problem` says why it cannot be used, or not all of it.
    """

    objects: tuple[CodeObject, ...]
    stored: int
    compression: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    offset: int
    size: int
    name: str


def is_bundle(data: memoryview | bytes) -> bool:
    """Tell whether a bundle, plain or compressed, starts here."""
    return bytes(data[: len(MAGIC)]) == MAGIC or is_compressed(data)


def read_bundle(data: memoryview, budget: Budget) -> Bundle:
    """Read the bundle that starts here.

    Raises `Unreadable` when its extent cannot be told; what concerns its content is its `problem`.
    """
    if not is_compressed(data):
        objects, problem, end = _read(iter([data]), budget.limits, length=len(data))
        return Bundle(objects=objects, stored=end, problem=problem)
    envelope = read_envelope(data, budget)
    told = f"{envelope.method}, version {envelope.version}"
    digest = hashlib.md5(usedforsecurity=False)
    try:
        chunks = _hashed(envelope.chunks(budget, _CHUNK), digest)
        objects, problem, _ = _read(chunks, budget.limits, length=envelope.uncompressed)
        # The bundler keeps the low half of MD5's little-endian number.
        if problem is None and envelope.hash != int.from_bytes(digest.digest()[:8], "little"):
            problem = "its content does not have the hash that its header tells"
    except Unreadable as error:
        return Bundle(objects=(), stored=envelope.stored, compression=told, problem=str(error))
    return Bundle(objects=objects, stored=envelope.stored, compression=told, problem=problem)


def bare(data: memoryview) -> Bundle:
    """Return a code object that stands alone, as in an `.hsaco` or `.co` file. Raises `Unreadable`."""
    head = elf.header(data)
    if head is None or head.machine != elf.EM_AMDGPU:
        raise Unreadable("not an ELF object for an AMD GPU")
    found = CodeObject(target=elf.target(data, head), size=len(data))
    try:
        elf.segments(data, head)
        elf.sections(data, head)
    except Unreadable as error:
        return Bundle(objects=(), stored=len(data), problem=str(error))
    return Bundle(objects=(found,), stored=len(data))


def _hashed(chunks: Iterator[memoryview], digest: hashlib._Hash) -> Iterator[memoryview]:
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


def _read(
    pieces: Iterator[memoryview], limits: Limits, *, length: int
) -> tuple[tuple[CodeObject, ...], str | None, int]:
    """Read a plain bundle of at most `length` bytes from a stream of pieces: its objects, problem and end."""
    head, (entries, end) = _table(pieces, limits)
    samples = _samples(head, pieces, entries, length)
    objects: list[CodeObject] = []
    problems: list[str] = []
    for entry in entries:
        named = _DEVICE.fullmatch(entry.name)
        if named is None or entry.size == 0:
            continue
        target = _canonical(named[1])
        if (problem := _mismatch(samples[entry.offset], target, entry.size)) is None:
            objects.append(CodeObject(target=target, size=entry.size))
        else:
            problems.append(f"{entry.name}: {problem}")
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return tuple(objects), f"{problems[0]}{more}" if problems else None, end


def _table(pieces: Iterator[memoryview], limits: Limits) -> tuple[memoryview, tuple[tuple[_Entry, ...], int]]:
    """Return the bytes that were taken from the stream, and the entries that the head of the bundle lists."""
    most = len(MAGIC) + 8 + limits.entries * (24 + limits.entry_id)
    head = next(pieces, memoryview(b""))
    while True:
        try:
            return head, _entries(head, limits)
        except _CutOff as error:
            piece = next(pieces, None) if len(head) < most else None
            if piece is None:
                raise Unreadable(str(error)) from error
            head = memoryview(bytes(head) + bytes(piece))


class _CutOff(Exception):
    """More bytes are needed to go on."""


def _entries(data: memoryview, limits: Limits) -> tuple[tuple[_Entry, ...], int]:
    """Return the entries of a bundle, and where the last of them ends."""
    at = len(MAGIC)
    if len(data) < at + 8:
        raise _CutOff(f"the bundle is cut off after {len(data)} bytes")
    if bytes(data[:at]) != MAGIC:
        raise Unreadable("what is compressed is no offload bundle")
    (count,) = struct.unpack_from("<Q", data, at)
    if count > limits.entries:
        raise Unreadable(f"the bundle says it has {count} entries, at most {limits.entries} are read")
    at += 8
    found: list[_Entry] = []
    for number in range(1, count + 1):
        if len(data) < at + 24:
            raise _CutOff(f"the bundle is cut off in entry {number} of {count}")
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        at += 24
        if length > limits.entry_id:
            raise Unreadable(f"entry {number} of {count} says its name has {length} bytes")
        if len(data) < at + length:
            raise _CutOff(f"the bundle is cut off in entry {number} of {count}")
        name = _printable(bytes(data[at : at + length]))
        at += length
        found.append(_Entry(offset=offset, size=size, name=name))
    return tuple(found), max([at, *(entry.offset + entry.size for entry in found if entry.size)])


def _samples(
    head: memoryview, pieces: Iterator[memoryview], entries: tuple[_Entry, ...], length: int
) -> dict[int, bytes]:
    """Return the first bytes of every entry. Raises `Unreadable` when one does not lie within the bundle."""
    for entry in entries:
        if entry.size and entry.offset + entry.size > length:
            raise Unreadable(f"{entry.name}: its {entry.size} bytes reach past the end of the bundle")
    pending = sorted({entry.offset for entry in entries if entry.size}, reverse=True)
    samples = dict.fromkeys(pending, b"")
    begins, piece = 0, head
    while True:
        while pending and pending[-1] < begins + len(piece):
            offset = pending[-1]
            start = offset + len(samples[offset]) - begins
            samples[offset] += bytes(piece[start : offset + elf.HEADER_SIZE - begins])
            if len(samples[offset]) < elf.HEADER_SIZE:
                break  # goes on in the next piece, as does whatever starts behind it
            pending.pop()
        begins += len(piece)
        following = next(pieces, None)
        if following is None:
            break
        piece = following
    if begins < max((entry.offset + entry.size for entry in entries if entry.size), default=0):
        raise Unreadable(f"the bundle ends after {begins} bytes, before its last entry does")
    return samples


def _printable(name: bytes) -> str:
    return "".join(char if char.isprintable() else "?" for char in name.decode("ascii", "replace"))


def _canonical(target: str) -> str:
    """Return a target ID with its features in the one order that target IDs have."""
    processor, *features = target.split(":")
    return ":".join([processor, *sorted(features)])


def _mismatch(start: bytes, target: str, size: int) -> str | None:
    """Say why an entry is not the code that its name promises; None when it is."""
    if start[:4] in _BITCODE or start[:4] == _SPIRV or target == processors.SPIRV:
        return None  # for a later link step, or the runtime's compiler: nothing in it names a processor
    if not processors.is_target(target):
        return "its name is no target ID"
    if is_bundle(start):
        return "a bundle in a bundle, which no runtime opens"
    try:
        head = elf.header(start[:size])
        if head is None or head.machine != elf.EM_AMDGPU:
            return "not an ELF object for an AMD GPU"
        if head.os_abi == elf.HSA and head.abi_version == elf.V2:
            return None  # its processor is in a note
        found = elf.target(start, head)
    except Unreadable as error:
        return str(error)
    if head.abi_version == elf.V3:  # there "off" is what a name without the feature means
        found, target = found.partition(":")[0], target.partition(":")[0]
    return None if found == target else f"its ELF header says {found}"
