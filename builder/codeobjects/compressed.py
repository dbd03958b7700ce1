"""Reads the envelope of compressed offload bundles, versions 1 to 3, and decompresses piece by piece.

Source: Clang, "Clang Offload Bundler", section Compression and Decompression, and the layouts of the three headers
in Clang's OffloadBundler.cpp. The envelope says where a bundle ends, not what the decompressor makes of the bytes
behind it: sections hold one bundle after the other.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import zstandard

from builder.codeobjects.limits import Budget, Unreadable

MAGIC = b"CCOB"
_BLOCK_COST = 1 << 13  # bounds how many blocks are looked at; most are sixteen times as large
_METHODS: dict[int, Literal["zlib", "zstd"]] = {0: "zlib", 1: "zstd"}
# After magic, version and method: [size of all,] size uncompressed, hash.
_LAYOUTS = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A compressed bundle: how it is compressed, how large it is with its header and without compression."""

    version: int
    method: Literal["zlib", "zstd"]
    stored: int
    uncompressed: int
    hash: int
    payload: memoryview

    def chunks(self, budget: Budget, size: int) -> Iterator[memoryview]:
        """Yield the content in pieces of at most `size` bytes. Raises `Unreadable` when it is not what it says."""
        produced = 0
        zlib_or_zstd = (
            _unzlib(self.payload, size) if self.method == "zlib" else _unzstd(self.payload, size, budget)
        )
        for piece in zlib_or_zstd:
            budget.take(len(piece))
            produced += len(piece)
            if produced > self.uncompressed:
                raise Unreadable(f"it decompresses to more than the {self.uncompressed} bytes that it says it has")
            yield memoryview(piece)
        if produced != self.uncompressed:
            raise Unreadable(f"it decompresses to {produced} bytes and says it has {self.uncompressed}")


def is_compressed(data: memoryview | bytes) -> bool:
    """Tell whether a compressed bundle starts here."""
    return bytes(data[:4]) == MAGIC


def read_envelope(data: memoryview, budget: Budget) -> Envelope:
    """Read the header of a compressed bundle. Raises `Unreadable` when its extent cannot be told."""
    if len(data) < 8:
        raise Unreadable(f"the compressed bundle is cut off after {len(data)} bytes")
    version, method = struct.unpack_from("<HH", data, 4)
    layout = _LAYOUTS.get(version)
    if layout is None:
        raise Unreadable(f"a compressed bundle of version {version}; 1, 2 and 3 are known")
    if method not in _METHODS:
        raise Unreadable(f"a compressed bundle by method {method}; 0 (zlib) and 1 (zstd) are known")
    size = 8 + struct.calcsize(layout)
    if len(data) < size:
        raise Unreadable(f"the compressed bundle is cut off after {len(data)} bytes")
    fields = struct.unpack_from(layout, data, 8)
    if version == 1:  # does not tell its size: that of the stream in it is
        stored = size + (_zlib_extent if method == 0 else _zstd_extent)(data[size:], budget)
    else:
        stored = fields[0]
    if not size <= stored <= len(data):
        raise Unreadable(f"the compressed bundle says it has {stored} bytes, {len(data)} are there")
    return Envelope(
        version=version, method=_METHODS[method], stored=stored, uncompressed=fields[-2], hash=fields[-1],
        payload=data[size:stored],
    )  # fmt: skip


def _unzlib(payload: memoryview, size: int) -> Iterator[bytes]:
    unzip = zlib.decompressobj()
    try:
        for at in range(0, len(payload), size):
            rest: bytes | memoryview = payload[at : at + size]
            while rest and not unzip.eof:
                if piece := unzip.decompress(rest, size):
                    yield piece
                rest = unzip.unconsumed_tail
        while not unzip.eof and (piece := unzip.decompress(b"", size)):
            yield piece
    except zlib.error as error:
        raise Unreadable(f"cannot be decompressed: {error}") from error
    if not unzip.eof:
        raise Unreadable("the compressed data is cut off")


def _unzstd(payload: memoryview, size: int, budget: Budget) -> Iterator[bytes]:
    try:
        decompressor = zstandard.ZstdDecompressor(max_window_size=budget.limits.window)
        with decompressor.stream_reader(payload, read_size=size) as stream:
            while piece := stream.read(size):
                yield piece
    except (zstandard.ZstdError, MemoryError) as error:
        raise Unreadable(f"cannot be decompressed: {error}") from error


def _zlib_extent(data: memoryview, budget: Budget) -> int:
    """Return how long a zlib stream is, which only decompressing it tells."""
    unzip, piece = zlib.decompressobj(), 1 << 16
    taken = 0
    try:
        while not unzip.eof:
            rest: bytes | memoryview = data[taken : taken + piece]
            if not rest:
                raise Unreadable("the compressed data is cut off")
            taken += len(rest)
            while rest and not unzip.eof:
                budget.take(len(unzip.decompress(rest, 1 << 20)))
                rest = unzip.unconsumed_tail
    except zlib.error as error:
        raise Unreadable(f"cannot be decompressed: {error}") from error
    return taken - len(unzip.unused_data)


def _zstd_extent(data: memoryview, budget: Budget) -> int:
    """Return how long a zstd frame is, from the sizes of its blocks (RFC 8878, section 3.1.1)."""
    try:
        frame = zstandard.get_frame_parameters(data[:18])
        at = zstandard.frame_header_size(data[:18])
    except zstandard.ZstdError as error:
        raise Unreadable(f"cannot be decompressed: {error}") from error
    last = False
    while not last:
        budget.take(_BLOCK_COST)
        if at + 3 > len(data):
            raise Unreadable("the compressed data is cut off")
        block = int.from_bytes(data[at : at + 3], "little")
        last, kind = bool(block & 1), block >> 1 & 3
        at += 3 + (1 if kind == 1 else block >> 3)  # of a repeated byte there is one
    end = at + (4 if frame.has_checksum else 0)
    if end > len(data):
        raise Unreadable("the compressed data is cut off")
    return end
