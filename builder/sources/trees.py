"""Reads the source files of a wheel, an sdist or a folder into a value, without unpacking anything to disk.

It keeps the names of all files and the contents of source files; what they mean is not known here.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from builder.errors import LockError
from builder.sources.archive import BROKEN, Entry
from builder.sourcetree import SourceTree, is_source

# A source file that is larger than this is generated data; reading it would tell nothing about imports.
_LARGEST = 8 * 2**20


def read_tree(path: Path, *, under: str = "", packages: Collection[str] = ()) -> SourceTree:
    """Read a wheel (`.whl`, `.zip`), an sdist (`.tar.gz`) or a folder.

    Paths are as below `site-packages`: an sdist's own top folder and a wheel's `*.data/purelib` are left away,
    and with `under` only that subfolder is read, named from there (`under="python"` for the SGLang repository).
    With `packages` only these top-level packages are kept, as an installation of a source would.
    Raises `LockError` when the file is damaged or no such archive.
    """
    names: set[str] = set()
    texts: dict[str, bytes] = {}
    prefix = f"{under.strip('/')}/" if under.strip("/.") else ""
    try:
        for name, data in _members(path):
            if not name.startswith(prefix):
                continue
            short = name.removeprefix(prefix)
            if packages and short.partition("/")[0] not in packages:
                continue
            names.add(short)
            if data is not None:
                texts[short] = data
    except (OSError, *BROKEN) as error:
        reason = str(error).partition("\n")[0]
        raise LockError(f"{path.name}: cannot be read as a wheel, an sdist or a folder: {reason}") from error
    if not names:
        looked_for = f"{prefix}{{{','.join(packages)}}}" if packages else prefix
        raise LockError(
            f"{path.name}: there are no files in it" + (f" below {looked_for!r}" if looked_for else "")
        )
    return SourceTree(names=frozenset(names), texts=texts)


def _members(path: Path) -> Iterator[tuple[str, bytes | None]]:
    """Yield each file's name and, for source files, its contents."""
    if path.is_dir():
        return _folder(path)
    return _wheel(path) if zipfile.is_zipfile(path) else _sdist(path)


def _folder(path: Path) -> Iterator[tuple[str, bytes | None]]:
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name not in {".git", "__pycache__"}]
        for name in files:
            file = Path(folder, name)
            wanted = is_source(name) and _is_of(path, file) and file.stat().st_size <= _LARGEST
            yield file.relative_to(path).as_posix(), file.read_bytes() if wanted else None


def _is_of(folder: Path, file: Path) -> bool:
    """Whether this is a file of the folder, and no link to one of this machine."""
    if not file.is_symlink():
        return file.is_file()
    try:
        return file.is_file() and file.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        return False


def _wheel(path: Path) -> Iterator[tuple[str, bytes | None]]:
    with zipfile.ZipFile(path) as wheel:
        for member in wheel.infolist():
            if member.filename and not member.is_dir():
                wanted = is_source(member.filename) and member.file_size <= _LARGEST
                yield _installed(member.filename), wheel.read(member) if wanted else None


def _sdist(path: Path) -> Iterator[tuple[str, bytes | None]]:
    with tarfile.open(path, "r:*", tarinfo=Entry) as sdist:
        for member in sdist:
            parts = PurePosixPath(member.name).parts
            if not member.isfile() or len(parts) < 2:
                continue
            wanted = is_source(member.name) and member.size <= _LARGEST
            stream = sdist.extractfile(member) if wanted else None
            yield "/".join(parts[1:]), stream.read() if stream is not None else None


def _installed(name: str) -> str:
    """Return where a wheel's file is installed below `site-packages`."""
    first, _, rest = name.partition("/")
    scheme, _, inner = rest.partition("/")
    return inner if first.endswith(".data") and scheme in {"purelib", "platlib"} else name
