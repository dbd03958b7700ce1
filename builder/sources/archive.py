"""Unpacks archives and sdists that were fetched by hash, without letting them reach out of their folder.

It trusts nothing an archive says of itself: not its names, links, kinds or sizes. It downloads nothing.
tarfile's own filter for this is not in every Python 3.11 (Debian 12 has none) and knows no zip, so every entry of
either kind is judged and written here, the same way everywhere.
"""

from __future__ import annotations

import bz2
import calendar
import errno
import gzip
import lzma
import math
import os
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Literal, assert_never, cast

import zstandard

from builder.errors import LockError

_CHUNK = 1 << 20
BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zstandard.ZstdError,
    lzma.LZMAError,
    zlib.error,
    gzip.BadGzipFile,
    EOFError,
    NotImplementedError,
    RecursionError,  # headers in headers
    ValueError,  # numbers and names that are none
    OverflowError,
    struct.error,
)
_LAST_SECOND = 253402300799  # of the year 9999
_DEEPEST = 200  # folders in folders; more is no source, and a walk through it runs out of stack
_LONGEST_HEADER = 1 << 20  # a name or the like, which is read into memory


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much an archive may unpack to: entries, and bytes in all."""

    entries: int = 500_000
    size: int = 40_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One entry as the archive tells it. `target` is a link's, `data` a file's contents."""

    name: str
    kind: Literal["file", "folder", "symlink", "hardlink"]
    executable: bool = False
    date: int = 0
    target: str = ""
    data: IO[bytes] | None = None


def extract(archive: Path, into: Path, *, name: str, strip: bool = True, limits: Limits | None = None) -> Path:
    """Unpack an archive to the folder `into`, which is replaced, and return it. `name` is for messages.

    tar, plain or compressed by gzip, bzip2, xz or zstd, and zip; told by content. With `strip`, a single top
    folder is left out. Modes become 0644 and 0755, times are the archive's. Raises `LockError`, and leaves no
    file, for an archive that is broken, too large, or wants to write anywhere else.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}.") as place:
        root = Path(place) / "content"
        root.mkdir()
        with whole(name, "archive"), read_entries(archive, name) as entries:
            _Unpacking(root, name, limits or Limits()).run(entries)
        top = list(root.iterdir())
        if strip and len(top) == 1 and top[0].is_dir() and not top[0].is_symlink():
            root = top[0]
        _require_links_inside(root, name)
        if into.is_dir() and not into.is_symlink():
            shutil.rmtree(into)
        root.chmod(0o755)
        root.replace(into)
    return into


class _Unpacking:
    """Writes entries below a folder, one after the other."""

    def __init__(self, root: Path, name: str, limits: Limits) -> None:
        self._root = root
        self._name = name
        self._limits = limits
        self._size = 0
        self._folders: list[tuple[Path, int]] = []

    def run(self, entries: Iterator[Member]) -> None:
        for number, entry in enumerate(entries, start=1):
            if number > self._limits.entries:
                raise LockError(f"{self._name}: has more than {self._limits.entries} entries")
            self._write(entry)
        for folder, date in reversed(self._folders):  # writing into a folder changes its time
            os.utime(folder, (date, date))

    def _write(self, entry: Member) -> None:
        path = self._place(entry.name)
        if path == self._root:
            return
        if entry.kind == "folder":
            self._folder(path, entry.date)
            return
        self._folder(path.parent, entry.date)
        if path.is_dir() and not path.is_symlink():
            raise LockError(f"{self._name}: {entry.name!r} is a folder and something else")
        path.unlink(missing_ok=True)  # a later entry replaces an earlier one; it never writes through a link
        match entry.kind:
            case "file":
                with path.open("xb") as sink:
                    self._copy(cast(IO[bytes], entry.data), sink)
            case "hardlink":
                origin = self._place(entry.target)
                if origin.is_symlink() or not origin.is_file():
                    raise LockError(
                        f"{self._name}: {entry.name!r} links to {entry.target!r}, which is no file of it"
                    )
                self._require_real(origin.parent, entry.target)
                with origin.open("rb") as source, path.open("xb") as sink:
                    self._copy(source, sink)
                entry = Member(
                    name=entry.name,
                    kind="file",
                    date=entry.date,
                    executable=bool(origin.stat().st_mode & stat.S_IXUSR),
                )
            case "symlink":
                self._symlink(path, entry)
                return
            case _:
                assert_never(entry.kind)
        path.chmod(0o755 if entry.executable else 0o644)
        os.utime(path, (entry.date, entry.date))

    def _place(self, name: str) -> Path:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
            raise LockError(f"{self._name}: {name!r} is not a path inside the archive")
        if len(parts) > _DEEPEST:
            raise LockError(f"{self._name}: {name[:80]!r}… lies more than {_DEEPEST} folders deep")
        return self._root.joinpath(*parts)

    def _folder(self, path: Path, date: int) -> None:
        self._require_real(path, str(path.relative_to(self._root)))
        missing = [part for part in (path, *path.parents) if part.is_relative_to(self._root) and not part.exists()]
        for part in reversed(missing):
            part.mkdir()
            part.chmod(0o755)
            self._folders.append((part, date))

    def _require_real(self, folder: Path, shown: str) -> None:
        for part in (folder, *folder.parents):
            if part == self._root:
                return
            if part.is_symlink() or (part.exists() and not part.is_dir()):
                raise LockError(f"{self._name}: {shown!r} goes through a link or a file")

    def _symlink(self, path: Path, entry: Member) -> None:
        target = entry.target
        inside = os.path.normpath(path.parent.relative_to(self._root) / target)
        if not target or target.startswith("/") or "\0" in target or inside.split("/")[0] == "..":
            raise LockError(f"{self._name}: {entry.name!r} links out of the archive, to {target!r}")
        path.symlink_to(target)
        os.utime(path, (entry.date, entry.date), follow_symlinks=False)

    def _copy(self, source: IO[bytes], sink: BinaryIO) -> None:
        while data := source.read(_CHUNK):
            self._size += len(data)
            if self._size > self._limits.size:
                raise LockError(f"{self._name}: unpacks to more than {self._limits.size} bytes")
            sink.write(data)


def _require_links_inside(root: Path, name: str) -> None:
    """Refuse links that leave the folder by way of other links, or with the top folder that was left out."""
    real = root.resolve()
    for folder, folders, files in os.walk(root):
        for entry in (*folders, *files):
            path = Path(folder, entry)
            if not path.is_symlink():
                continue
            try:
                inside = path.resolve().is_relative_to(real)
            except (OSError, RuntimeError):  # links in a circle lead nowhere
                inside = True
            if not inside:
                raise LockError(f"{name}: {str(path.relative_to(root))!r} links out of the archive")


@contextmanager
def whole(name: str, kind: str) -> Iterator[None]:
    """Turn what reading a broken archive raises into a `LockError`; `kind` is what it should be."""
    try:
        yield
    except BROKEN as error:
        raise LockError(f"{name}: is no complete {kind}: {error}") from error
    except OSError as error:
        if error.errno in (
            None,
            errno.EINVAL,
        ):  # of bz2; of a place before the start
            raise LockError(f"{name}: is no complete {kind}: {error}") from error
        if error.errno == errno.ENAMETOOLONG:
            raise LockError(f"{name}: has a name that is too long for this disk") from error
        raise


@contextmanager
def read_entries(archive: Path, name: str) -> Iterator[Iterator[Member]]:
    """Open an archive and yield its entries, as it tells them: none of their names is judged yet."""
    with archive.open("rb") as source:
        magic = source.read(512)
        source.seek(0)
        if magic.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            with zipfile.ZipFile(source) as opened:
                yield _zip_entries(opened, name)
            return
        with (
            _decompressed(source, magic, name) as stream,
            tarfile.open(fileobj=stream, mode="r|", tarinfo=Entry) as tar,
        ):
            yield _tar_entries(tar, name)
            while stream.read(_CHUNK):  # to the end, where a cut or damaged compression shows
                continue


@contextmanager
def _decompressed(source: BinaryIO, magic: bytes, name: str) -> Iterator[IO[bytes]]:
    if magic.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=source) as unzipped:
            yield cast("IO[bytes]", unzipped)
    elif magic.startswith(b"BZh"):
        with bz2.open(source) as stream:
            yield stream
    elif magic.startswith(b"\xfd7zXZ\x00"):
        with lzma.open(source) as stream:
            yield stream
    elif magic.startswith(b"\x28\xb5\x2f\xfd"):
        with zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True) as stream:
            yield stream
    elif magic[257:262] == b"ustar":
        yield source
    else:
        raise LockError(
            f"{name}: is neither tar nor zip", hint="check that its address leads to a file, not a page"
        )


class Entry(tarfile.TarInfo):
    """An entry whose headers are of a size that names have; tarfile reads them into memory as long as they say."""

    _HEADERS = (
        tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
    )  # fmt: skip

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        """Judge an entry before it is read: tarfile's own place for that."""
        if self.type in self._HEADERS and self.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        entry: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return entry


def _tar_entries(tar: tarfile.TarFile, name: str) -> Iterator[Member]:
    for member in tar:
        date, executable = _date(member.mtime), bool(member.mode & stat.S_IXUSR)
        if member.isdir():
            yield Member(name=member.name, kind="folder", date=date)
        elif member.issym():
            yield Member(name=member.name, kind="symlink", date=date, target=member.linkname)
        elif member.islnk():
            yield Member(name=member.name, kind="hardlink", date=date, target=member.linkname)
        elif member.isreg():
            yield Member(
                name=member.name, kind="file", date=date, executable=executable, data=tar.extractfile(member)
            )
        else:
            raise LockError(f"{name}: {member.name!r} is neither file, folder nor link")


def _date(seconds: float) -> int:
    """Return a date that a disk can hold; an archive may tell any number, or none."""
    return int(min(max(seconds, 0), _LAST_SECOND)) if math.isfinite(seconds) else 0


def _zip_entries(opened: zipfile.ZipFile, name: str) -> Iterator[Member]:
    for member in opened.infolist():
        mode = member.external_attr >> 16
        date = _zip_date(member)
        kind = stat.S_IFMT(mode)
        if not member.filename:
            raise LockError(f"{name}: has an entry without a name")
        if member.flag_bits & 1:
            raise LockError(f"{name}: {member.filename!r} is encrypted")
        if member.is_dir():
            yield Member(name=member.filename, kind="folder", date=date)
        elif kind == stat.S_IFLNK:
            target = os.fsdecode(opened.read(member)) if member.file_size < 4096 else ""
            yield Member(name=member.filename, kind="symlink", date=date, target=target)
        elif kind in (0, stat.S_IFREG):
            with opened.open(member) as data:
                yield Member(
                    name=member.filename, kind="file", date=date, executable=bool(mode & stat.S_IXUSR), data=data
                )
        else:
            raise LockError(f"{name}: {member.filename!r} is neither file, folder nor link")


def _zip_date(member: zipfile.ZipInfo) -> int:
    try:
        return max(0, calendar.timegm((*member.date_time, 0, 0, 0)))
    except ValueError:  # a month or day of 0, as tools without a clock write
        return 0
