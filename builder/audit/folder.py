"""Looks for GPU code below a folder. Follows no link, changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from builder.audit.contents import Contents, is_telling, is_unread, mapped
from builder.codeobjects.reading import FIRST_BYTES, FileCode, may_have_code, read_file
from builder.errors import RecipeError


def read_folder(root: Path) -> Contents:
    """Return what the files below a folder hold; a file that cannot be opened is among the unread ones."""
    code: dict[str, FileCode] = {}
    texts: dict[str, str] = {}
    unread: list[str] = []
    for path, entry in _files(root, unread):
        try:
            with entry.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if is_telling(path, size):
                    texts[path] = file.read().decode("utf-8", "replace")
                elif is_unread(path):
                    unread.append(path)
                elif may_have_code(file.read(FIRST_BYTES)) and (found := read_file(mapped(file))) is not None:
                    code[path] = found
        except OSError:
            unread.append(path)
    return Contents(code=code, texts=texts, unread=tuple(sorted(unread)))


def read_single(file: Path) -> Contents:
    """Return what one file holds, under its name."""
    try:
        with file.open("rb") as opened:
            found = read_file(mapped(opened)) if file.stat().st_size else None
    except OSError as error:
        raise RecipeError(f"{file}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    return Contents(code={file.name: found} if found is not None else {}, texts={})


def _files(root: Path, unread: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield the regular files below a folder, in order, with their path from there."""

    def refused(error: OSError) -> None:
        unread.append(str(Path(error.filename).relative_to(root)))

    for top, folders, names in os.walk(root, onerror=refused):
        folders.sort()
        for name in sorted(names):
            entry = Path(top, name)
            try:
                regular = stat.S_ISREG(entry.lstat().st_mode)
            except OSError:
                continue  # went away meanwhile
            if regular:
                yield str(entry.relative_to(root)), entry
