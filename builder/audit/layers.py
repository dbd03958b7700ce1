"""Reads the layers of an image as streams, and says what is left of them where one lies on the other.

Source: OCI image format specification 1.1, sections Image Layer Filesystem Changeset and Whiteouts.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, cast

import zstandard

from builder.audit.contents import AUDIT, Contents, Seeking, code_in, is_telling, is_unread
from builder.codeobjects.reading import FileCode
from builder.sources.archive import Entry

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_WINDOW = 1 << 27
_CHUNK = 1 << 20
_BLOCK = 512
TAR_BUFFER = 1 << 16  # tarfile reads in as small pieces as it is told, and copies what it keeps of one

BROKEN = (
    tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError, RecursionError, OverflowError,
)  # fmt: skip
"""What reading a layer raises when its bytes are not what they should be."""


@dataclass(kw_only=True, slots=True)
class Layer:
    """What a layer holds and what it takes away. `files` are all but folders, `gone` is removed with all below."""

    code: dict[str, FileCode] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)


class Chunks(io.RawIOBase):
    """A stream of pieces, as networks deliver it, to read from."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Say that this can be read."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a buffer as far as the next piece goes."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        taken = min(len(buffer), len(self._rest))
        buffer[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken


def buffered(pieces: Iterable[bytes]) -> io.BufferedReader:
    """Return a stream of pieces that can be looked ahead in."""
    return io.BufferedReader(Chunks(pieces), _CHUNK)


def pieces_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield what a stream has, piece by piece."""
    while piece := stream.read(_CHUNK):
        yield piece


def is_layer(stream: io.BufferedReader) -> bool:
    """Tell whether a stream that is at its start is a layer: a tar archive, plain or compressed."""
    start = stream.peek(_BLOCK)[:_BLOCK]
    return (
        start.startswith((_GZIP, _ZSTD)) or start[257:262] == b"ustar" or (not start.strip(b"\0") and bool(start))
    )


def read_layer(stream: io.BufferedReader, seeking: Seeking = AUDIT) -> Layer:
    """Read a layer to its end. Raises one of `BROKEN` for a stream that is no archive, or not a whole one."""
    layer = Layer()
    with tarfile.open(fileobj=_decompressed(stream), mode="r|", bufsize=TAR_BUFFER, tarinfo=Entry) as archive:
        for member in archive:
            _take(layer, archive, member, seeking)
            archive.members.clear()  # type: ignore[attr-defined] # tarfile keeps every header otherwise
    return layer


def stacked(layers: Sequence[Layer], labels: Mapping[str, str]) -> Contents:
    """Lay layers on one another, bottom first: what is on top wins, and what it removes is not there."""
    code: dict[str, FileCode] = {}
    texts: dict[str, str] = {}
    unread: set[str] = set()
    layer_of: dict[str, int] = {}
    for number, layer in enumerate(layers):
        for kept in (code, texts):
            for path in [path for path in kept if _is_covered(path, layer)]:
                del kept[path]
                del layer_of[path]
        unread = {path for path in unread if not _is_covered(path, layer)} | layer.unread
        code.update(layer.code)
        texts.update(layer.texts)
        layer_of.update(dict.fromkeys([*layer.code, *layer.texts], number))
    return Contents(
        code=code, texts=texts, unread=tuple(sorted(unread)), labels=dict(labels), layer_of=layer_of,
        layers=len(layers),
    )  # fmt: skip


def _decompressed(stream: io.BufferedReader) -> IO[bytes]:
    start = stream.peek(4)
    if start.startswith(_GZIP):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    if start.startswith(_ZSTD):
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        return cast("IO[bytes]", decompressor.stream_reader(stream, read_across_frames=True, read_size=_CHUNK))
    return stream


def _take(layer: Layer, archive: tarfile.TarFile, member: tarfile.TarInfo, seeking: Seeking) -> None:
    path = clean(member.name)
    folder, name = posixpath.split(path)
    if name == _OPAQUE:
        layer.emptied.add(folder)
    elif name.startswith(_WHITEOUT):
        layer.gone.add(posixpath.join(folder, name.removeprefix(_WHITEOUT)))
    elif member.isdir():
        layer.folders.add(path)
    else:
        _forget(layer, path)  # a later entry replaces an earlier one
        layer.files.add(path)
        if member.isreg():
            _read(layer, archive, member, path, seeking)
        elif member.islnk() and (linked := clean(member.linkname)) in layer.code:
            layer.code[path] = layer.code[linked]


def _read(layer: Layer, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, seeking: Seeking) -> None:
    content = archive.extractfile(member)
    if content is None:
        return
    if is_telling(path, member.size, seeking):
        layer.texts[path] = content.read().decode("utf-8", "replace")
    elif not seeking.code:
        return
    elif is_unread(path):
        layer.unread.add(path)
    elif (found := code_in(content, member.size)) is not None:
        layer.code[path] = found


def _forget(layer: Layer, path: str) -> None:
    layer.code.pop(path, None)
    layer.texts.pop(path, None)
    layer.unread.discard(path)


def clean(name: str) -> str:
    """Return a member's name as a path from the root, which it cannot leave."""
    return posixpath.normpath(f"/{name}").lstrip("/")


def _is_covered(path: str, layer: Layer) -> bool:
    """Tell whether a layer above takes a file away, or puts something in its place."""
    if path in layer.files or path in layer.folders or path in layer.gone:
        return True
    while path:
        path = posixpath.dirname(path)
        if path in layer.emptied or path in layer.gone or path in layer.files:
            return True
    return False
