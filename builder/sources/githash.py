"""Computes git's own name of a folder's content from the files alone, so that no cache has to be trusted.

It starts no program and reads no repository: what git says is compared with this, not derived from it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

DEEPEST = 200  # folders in folders; more is no source, and a walk through it runs out of stack
_FILE, _PROGRAM, _LINK, _FOLDER, _COMMIT = b"100644", b"100755", b"120000", b"40000", b"160000"


def tree_id(
    folder: Path,
    commits: Mapping[str, str] | None = None,
    *,
    left_out: Callable[[str], bool] = lambda _path: False,
) -> str | None:
    """Return the id of the git tree that a folder is a checkout of, 40 hex digits; None for an empty folder.

    `commits` maps paths of submodules to their commits; what lies below them does not count, and neither do files
    whose path is `left_out`.
    """
    return _tree_id(folder, "", commits or {}, left_out)


def _tree_id(folder: Path, at: str, below: Mapping[str, str], left_out: Callable[[str], bool]) -> str | None:
    entries: list[tuple[bytes, bytes]] = []
    with os.scandir(folder) as listing:
        for entry in listing:
            name = os.fsencode(entry.name)
            path = Path(entry.path)
            place = f"{at}{entry.name}"
            if left_out(place):
                continue
            if entry.name in below:
                entries.append(_entry(_COMMIT, name, below[entry.name]))
            elif entry.is_symlink():
                target = os.readlink(path)  # noqa: PTH115 - a Path would tidy the target up, git does not
                entries.append(_entry(_LINK, name, _object(b"blob", os.fsencode(target))))
            elif entry.is_dir(follow_symlinks=False):
                inner = _tree_id(path, f"{place}/", _inside(entry.name, below), left_out)
                if inner is not None:  # git knows no empty folders
                    entries.append(_entry(_FOLDER, name, inner))
            else:
                mode = _PROGRAM if entry.stat(follow_symlinks=False).st_mode & 0o100 else _FILE
                entries.append(_entry(mode, name, _object(b"blob", path.read_bytes())))
    if not entries:
        return None
    # git sorts a folder's name as if it ended with a slash
    return _object(b"tree", b"".join(line for _, line in sorted(entries)))


def _inside(name: str, commits: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{name}/"
    return {path.removeprefix(prefix): commit for path, commit in commits.items() if path.startswith(prefix)}


def _entry(mode: bytes, name: bytes, id_: str) -> tuple[bytes, bytes]:
    return (name + b"/" if mode == _FOLDER else name), mode + b" " + name + b"\0" + bytes.fromhex(id_)


def _object(kind: bytes, data: bytes) -> str:
    # git's format asks for SHA-1; what it names was compared with a full commit id already
    return hashlib.sha1(kind + b" %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
