"""git's binary hunks: base85 lines, zlib, whole contents and deltas against the old ones.

It turns bytes into bytes and proves every length. Which file they belong to is not known here.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import Literal

_HEADER = re.compile(rb"(literal|delta) (\d+)")
_LARGEST = 1 << 30
_MOST_DIGITS = 15
_MOST_SHIFT = 56  # of a number of a delta: more would be larger than any file


class Broken(ValueError):
    """A binary hunk that is not what it says it is, or does not fit the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BinaryHunk:
    """New contents, or how they are made from the old ones; `old` and `new` are git's names of both."""

    method: Literal["literal", "delta"]
    data: bytes
    old: str
    new: str

    def applied(self, contents: bytes) -> bytes:
        """Return the new contents. Raises `Broken` unless old and new are exactly those of the patch."""
        if not matches(contents, self.old):
            raise Broken("its contents are not those the binary patch was made for")
        made = self.data if self.method == "literal" else _delta(contents, self.data)
        if not matches(made, self.new):
            raise Broken("the binary patch does not give the contents it names")
        return made


def blob_id(data: bytes) -> str:
    """Return git's name of a file's contents."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def matches(data: bytes, name: str) -> bool:
    """Return whether contents have this name; the name of nothing is all zeros."""
    return (not data and not name.strip("0")) or blob_id(data) == name


def read_binary(lines: list[bytes], at: int) -> tuple[Literal["literal", "delta"], bytes, int]:
    """Return method, inflated data and the number of the line after one block of a binary patch.

    Raises `Broken`.
    """
    header = _HEADER.fullmatch(lines[at].rstrip(b"\r")) if at < len(lines) else None
    if header is None:
        raise Broken("expected 'literal SIZE' or 'delta SIZE'")
    size = int(header[2]) if len(header[2]) <= _MOST_DIGITS else _LARGEST + 1
    if size > _LARGEST:
        raise Broken(f"more than {_LARGEST} bytes")
    packed = bytearray()
    at += 1
    while at < len(lines) and lines[at]:
        packed += _line(lines[at])
        at += 1
    if at >= len(lines):
        raise Broken("it is cut off")
    unzip = zlib.decompressobj()
    try:
        data = unzip.decompress(bytes(packed), size + 1)
    except zlib.error as error:
        raise Broken(f"its data cannot be inflated: {error}") from error
    if len(data) != size or not unzip.eof or unzip.unused_data:
        raise Broken(f"its data is not {size} bytes long")
    return ("literal" if header[1] == b"literal" else "delta"), data, at + 1


def _line(line: bytes) -> bytes:
    first = line[:1]
    if b"A" <= first <= b"Z":
        length = first[0] - ord("A") + 1
    elif b"a" <= first <= b"z":
        length = first[0] - ord("a") + 27
    else:
        raise Broken("a line that is no base85")
    try:
        data = base64.b85decode(line[1:])
    except ValueError as error:
        raise Broken("a line that is no base85") from error
    if len(data) != (length + 3) // 4 * 4:
        raise Broken("a line that is shorter or longer than it says")
    return data[:length]


def _delta(base: bytes, delta: bytes) -> bytes:
    """Return what a delta makes of a file (gitformat-pack, "Deltified representation")."""
    try:
        expected, at = _number(delta, 0)
        size, at = _number(delta, at)
        if expected != len(base):
            raise Broken(f"it is made for a file of {expected} bytes, this one has {len(base)}")
        if size > _LARGEST:
            raise Broken(f"more than {_LARGEST} bytes")
        made = bytearray()
        while at < len(delta):
            code = delta[at]
            at += 1
            if code & 0x80:
                offset, at = _parts(delta, at, code & 0x0F)
                length, at = _parts(delta, at, code >> 4 & 0x07)
                length = length or 0x10000
                if offset + length > len(base):
                    raise Broken("it copies from behind the end of the file")
                made += base[offset : offset + length]
            elif code:
                if at + code > len(delta):
                    raise Broken("it is cut off")
                made += delta[at : at + code]
                at += code
            else:
                raise Broken("it has an instruction that git does not know")
            if len(made) > size:
                raise Broken(f"it makes more than {size} bytes")
    except IndexError as error:
        raise Broken("it is cut off") from error
    if len(made) != size:
        raise Broken(f"it makes {len(made)} bytes instead of {size}")
    return bytes(made)


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MOST_SHIFT:
            raise Broken("it has a number that is larger than any file")
        if not byte & 0x80:
            return value, at


def _parts(data: bytes, at: int, present: int) -> tuple[int, int]:
    value = 0
    for number in range(4):
        if present >> number & 1:
            value |= data[at] << 8 * number
            at += 1
    return value, at
