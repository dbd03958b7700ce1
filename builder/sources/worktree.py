"""Reads trees of sources file by file, and writes patched ones to folders of their own.

A source is only ever read. What is written depends on the files and the patches alone: not on dates, owners, the
locale or the order in which a disk lists things.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import RecipeError
from builder.patches.diff import PatchFile
from builder.patches.judge import Judged, Patch, judge, require
from builder.patches.tree import FILE, LINK, PROGRAM, Entry, Kind
from builder.sources.githash import tree_id

_CHUNK = 1 << 20


class FolderTree:
    """The files of a folder, read when they are asked for. No link is followed."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.fsencode(folder)
        self._folders: set[str] = set()

    def read(self, path: str) -> Entry | None:
        """See `Tree.read`. What lies behind a link is not there."""
        if not self._is_real(path.rpartition("/")[0]):
            return None
        place = self._place(path)
        try:
            seen = os.lstat(place)
            if stat.S_ISLNK(seen.st_mode):
                return Entry(mode=LINK, data=os.readlink(place))  # noqa: PTH115
            if not stat.S_ISREG(seen.st_mode):
                return None
            with open(place, "rb") as file:  # noqa: PTH123 - a name of bytes
                return Entry(mode=PROGRAM if seen.st_mode & stat.S_IXUSR else FILE, data=file.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def kind(self, path: str) -> Kind | None:
        """See `Tree.kind`."""
        if path in self._folders:
            return "folder"
        if not self._is_real(path.rpartition("/")[0]):
            return None
        try:
            mode = os.lstat(self._place(path)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(mode):
            self._folders.add(path)
            return "folder"
        return "link" if stat.S_ISLNK(mode) else "file"

    def _is_real(self, folder: str) -> bool:
        """Whether a folder and all above it are folders."""
        return not folder or folder in self._folders or self.kind(folder) == "folder"

    def _place(self, path: str) -> bytes:
        return self._folder + b"/" + _name(path)


def _name(path: str) -> bytes:
    """Return a path as it is on disk, whatever the locale: the names of git and of patches are bytes."""
    return path.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchedTree:
    """A tree with a series applied. `tree` is git's id of it, 40 hex digits."""

    path: Path
    tree: str
    judged: Judged


def patched_tree(
    source: Path, series: Sequence[PatchFile | Patch], into: Path, *, epoch: int, where: str
) -> PatchedTree:
    """Write a source with a series applied to the folder `into`, which is replaced, and return it.

    Every date becomes `epoch`, every mode one that git knows; `.git` and empty folders are left out. A redundant
    patch changes nothing. Raises `PatchError`, with all patches that do not apply, before anything is written;
    `where` starts its message.
    """
    judged = judge(series, FolderTree(source))
    require(judged, where=where)
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}.") as place:
        made = Path(place) / "tree"
        write_tree(source, judged.changes, made, epoch=epoch)
        tree = tree_id(made)
        if tree is None:
            raise RecipeError(f"{where}: the patched tree has no file")
        if into.is_dir() and not into.is_symlink():
            shutil.rmtree(into)
        made.replace(into)
    return PatchedTree(path=into, tree=tree, judged=judged)


def write_tree(source: Path, changes: Mapping[str, Entry | None], into: Path, *, epoch: int) -> None:
    """Write the files of a folder, some of them changed, to a new folder."""
    root = os.fsencode(into)
    _copy(os.fsencode(source), root, b"", {_name(path) for path in changes}, epoch)
    folders: set[bytes] = set()
    for path, entry in sorted(changes.items()):
        if entry is None:
            continue
        place = root + b"/" + _name(path)
        folder = place.rpartition(b"/")[0]
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - names of bytes, here and below
        if entry.is_link:
            os.symlink(entry.data, place)  # noqa: PTH211
            os.utime(place, (epoch, epoch), follow_symlinks=False)
        else:
            _write(place, [entry.data], entry.mode, epoch)
        while len(folder) >= len(root):
            folders.add(folder)
            folder = folder.rpartition(b"/")[0]
    for folder in folders:
        _finish(folder, epoch)


def _copy(source: bytes, into: bytes, below: bytes, without: set[bytes], epoch: int) -> bool:
    """Copy what does not change; return whether there was any. A folder without files is not made."""
    there = not below
    if there:
        os.mkdir(into)  # noqa: PTH102
    with os.scandir(source) as listing:
        entries = list(listing)
    for entry in entries:
        path = below + entry.name
        if entry.name == b".git" or path in without:
            continue
        if not there and not entry.is_dir(follow_symlinks=False):
            os.makedirs(into, exist_ok=True)  # noqa: PTH103
            there = True
        target = into + b"/" + entry.name
        if entry.is_dir(follow_symlinks=False):
            there = _copy(entry.path, target, path + b"/", without, epoch) or there
        else:
            _copy_file(entry, target, path, epoch)
    if there:
        _finish(into, epoch)
    return there


def _copy_file(entry: os.DirEntry[bytes], target: bytes, path: bytes, epoch: int) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)  # noqa: PTH115, PTH211 - a Path would tidy it up
        os.utime(target, (epoch, epoch), follow_symlinks=False)
    elif entry.is_file(follow_symlinks=False):
        source = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            mode = PROGRAM if os.fstat(source).st_mode & stat.S_IXUSR else FILE
            _write(target, iter(lambda: os.read(source, _CHUNK), b""), mode, epoch)
        finally:
            os.close(source)
    else:
        raise RecipeError(f"{path.decode(errors='replace')}: expected a file, a folder or a link in a source")


def _write(target: bytes, chunks: Iterable[bytes], mode: int, epoch: int) -> None:
    """Write a file that is not there yet. Few calls for each: there are thousands of files."""
    sink = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for data in chunks:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(sink, rest) :]
        os.fchmod(sink, mode & 0o777)
        os.utime(sink, (epoch, epoch))
    finally:
        os.close(sink)


def _finish(folder: bytes, epoch: int) -> None:
    os.chmod(folder, 0o755)  # noqa: PTH101, S103 - what git knows of a folder, whatever the umask
    os.utime(folder, (epoch, epoch))
