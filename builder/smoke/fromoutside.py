"""Looks through the files of an image that cannot do it itself, because it has no Python. Starts nothing of it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

from builder.engine import contents
from builder.smoke.inside.shipped_files import HEAD_BYTES, Head, judge


def looked_through(image: str, *, declared: list[str], caches: dict[str, str], ships: list[str]) -> dict[str, Any]:
    """Return what the probe `shipped_files` would."""
    stream = contents.export(image)
    with tarfile.open(fileobj=io.BufferedReader(_Stream(stream), 1 << 20), mode="r|") as archive:
        return judge(_files(archive), declared, caches, ships)


def _files(archive: tarfile.TarFile) -> Iterator[tuple[str, int, Head]]:
    for member in archive:
        if member.isreg():
            yield f"/{member.name}", member.size, _head_of(archive, member)


def _head_of(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Head:
    def head() -> bytes:
        opened = archive.extractfile(member)
        return opened.read(HEAD_BYTES) if opened is not None else b""

    return head


class _Stream(io.RawIOBase):
    """Reads from pieces of bytes as from a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:  # noqa: ANN401 -- a writable buffer
        if not self._rest:
            self._rest = next(self._pieces, b"")
        count = min(len(into), len(self._rest))
        into[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
