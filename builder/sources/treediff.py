"""Compares two folders file by file, by content, mode and target of links; dates and owners do not count."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_CHUNK = 1 << 20


def changed_files(old: Path, new: Path) -> tuple[str, ...]:
    """Return the paths, with `/`, of files that are in one folder alone or differ; empty folders do not count."""
    before, after = _listed(old), _listed(new)
    return tuple(
        sorted(
            path
            for path in before.keys() | after.keys()
            if path not in before
            or path not in after
            or before[path] != after[path]
            or not _same(old / path, new / path)
        )
    )


def _listed(folder: Path) -> dict[str, tuple[str, int]]:
    """Return every file by path, each with its kind and its size."""
    found: dict[str, tuple[str, int]] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in (*files, *links):
            path = Path(place, name)
            seen = path.lstat()
            link, program = stat.S_ISLNK(seen.st_mode), bool(seen.st_mode & stat.S_IXUSR)
            kind = "link" if link else "program" if program else "file"
            found[path.relative_to(folder).as_posix()] = kind, seen.st_size
    return found


def _same(old: Path, new: Path) -> bool:
    """Whether two files of the same kind and size have the same content."""
    if old.is_symlink():
        return old.readlink() == new.readlink()
    with old.open("rb") as one, new.open("rb") as other:
        while data := one.read(_CHUNK):
            if data != other.read(_CHUNK):
                return False
    return True
