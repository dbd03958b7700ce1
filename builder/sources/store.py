"""Keeps fetched objects by the sha256 of their bytes, and hands none out that it has not verified.

It knows nothing of where objects come from or what they are.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from builder.errors import LockError

_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LEFTOVER_SECONDS = 24 * 3600.0  # an incoming file this old has lost its writer to a crash

# (path, size, mtime in ns, inode) of files whose bytes this process has already compared with their name.
_verified: set[tuple[str, int, int, int]] = set()


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file as 64 hex digits."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


class Incoming:
    """An object on its way into the store: written, hashed while written, not yet visible to anyone."""

    def __init__(self, part: Path, sink: BinaryIO) -> None:
        self._part = part
        self._sink = sink
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._sink.write(data)
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        """Forget everything written so far."""
        self._sink.seek(0)
        self._sink.truncate()
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Hash of what was written so far, 64 hex digits."""
        return self._hash.hexdigest()

    def seal(self) -> Path:
        """Put the bytes on disk for good and return where they lie."""
        self._sink.flush()
        os.fchmod(self._sink.fileno(), 0o644)
        os.fsync(self._sink.fileno())
        return self._part


class Store:
    """A folder of objects named by content. Several processes may use one at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str) -> Path:
        """Return where an object lies, or would lie."""
        if not _SHA256.fullmatch(sha256):
            raise LockError(f"expected 64 lower-case hex digits of a sha256, got {sha256!r}")
        return self.root / "sha256" / sha256[:2] / sha256

    def get(self, sha256: str) -> Path | None:
        """Return the object's file after comparing its bytes with `sha256`, or None.

        A file whose bytes have changed is removed and counts as absent. A comparison is remembered for the
        life of the process, as long as size, modification time and inode stay.
        """
        path = self.path(sha256)
        try:
            seen = _identity(path)
            if seen in _verified:
                return path
            intact = sha256_of(path) == sha256
        except FileNotFoundError:
            return None
        if intact:
            _verified.add(seen)
            return path
        with self._exclusive():
            # Another process may have put a good file in place meanwhile; remove only what was read.
            try:
                if _identity(path) == seen:
                    path.unlink()
                    return None
            except FileNotFoundError:
                return None
        return self.get(sha256)

    def add(self, source: Path | BinaryIO, sha256: str) -> Path:
        """Copy a file or stream into the store and return its place.

        Raises `LockError` when the bytes are others than `sha256` says; nothing is stored then.
        """
        if (there := self.get(sha256)) is not None:
            return there
        with self.receive() as incoming:
            if isinstance(source, Path):
                with source.open("rb") as stream:
                    _copy(stream, incoming)
            else:
                _copy(source, incoming)
            if incoming.sha256 != sha256:
                name = source.name if isinstance(source, Path) else "the stream"
                raise LockError(f"{name}: expected sha256 {sha256}, got {incoming.sha256}")
            return self.keep(incoming)

    @contextmanager
    def receive(self) -> Iterator[Incoming]:
        """Open a place to write an object to. Unless `keep` was called on it, nothing of it remains."""
        folder = self.root / "incoming"
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        handle, name = tempfile.mkstemp(dir=folder)
        part = Path(name)
        try:
            with os.fdopen(handle, "w+b") as sink:
                yield Incoming(part, sink)
        finally:
            part.unlink(missing_ok=True)

    def keep(self, incoming: Incoming) -> Path:
        """Make a received object visible under its hash and return its place."""
        path = self.path(incoming.sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = incoming.seal()
        with self._exclusive():
            part.replace(path)
            _verified.add(_identity(path))
        return path

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with (self.root / ".lock").open("ab") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield


def _identity(path: Path) -> tuple[str, int, int, int]:
    seen = path.stat()
    return str(path), seen.st_size, seen.st_mtime_ns, seen.st_ino


def _copy(source: BinaryIO, into: Incoming) -> None:
    while data := source.read(_CHUNK):
        into.write(data)


def _sweep(folder: Path) -> None:
    limit = time.time() - _LEFTOVER_SECONDS
    for leftover in folder.iterdir():
        try:
            if leftover.stat().st_mtime < limit:
                leftover.unlink()
        except FileNotFoundError:
            continue
