"""Reads some files of an archive that was fetched by hash, in one pass, without unpacking it to a disk.

It judges names as unpacking does. Which files are wanted is decided elsewhere.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from builder.errors import LockError
from builder.patches.tree import FILE, LINK, PROGRAM, Entry, Held, why_outside
from builder.sources.archive import read_entries, whole

_LARGEST = 1 << 28


def read_sdist(path: Path, *, name: str, wanted: Callable[[str], bool]) -> Held:
    """Return the links and the wanted files of an sdist, named from its single top folder.

    `name` is for messages. Raises `LockError` for a broken archive.
    """
    found, linked = _members(path, name, wanted)
    if missing := {origin for origin in linked.values() if origin not in found}:
        found |= _members(path, name, lambda place: place in missing)[0]  # a link to a link, tar has not
    return Held(found | {place: found[origin] for place, origin in linked.items() if origin in found})


def _members(path: Path, name: str, wanted: Callable[[str], bool]) -> tuple[dict[str, Entry], dict[str, str]]:
    """Return the links and the wanted files, and of what those that are links to files are links."""
    found: dict[str, Entry] = {}
    linked: dict[str, str] = {}
    with whole(name, "archive"), read_entries(path, name) as listing:
        for member in listing:
            place = _inner(member.name)
            if member.kind == "folder" or why_outside(place) is not None:
                continue
            found.pop(place, None)
            linked.pop(place, None)
            if member.kind == "symlink":
                found[place] = Entry(mode=LINK, data=member.target.encode("utf-8", "surrogateescape"))
            elif member.kind == "hardlink" and wanted(place):
                linked[place] = _inner(member.target)
            elif member.data is not None and wanted(place):
                mode = PROGRAM if member.executable else FILE
                found[place] = Entry(mode=mode, data=_read(member.data, name, place))
    return found, linked


def _read(source: IO[bytes], name: str, place: str) -> bytes:
    data = source.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise LockError(f"{name}: {place!r} is larger than {_LARGEST} bytes")
    return data


def read_wheel(path: Path, *, wanted: Callable[[str], bool]) -> Held:
    """Return the wanted files of a wheel, named as they are installed below `site-packages`."""
    found: dict[str, Entry] = {}
    with whole(path.name, "wheel"), zipfile.ZipFile(path) as wheel:
        for member in wheel.infolist():
            place = _installed(member.filename)
            if member.filename and not member.is_dir() and why_outside(place) is None and wanted(place):
                mode = PROGRAM if member.external_attr >> 16 & 0o100 else FILE
                with wheel.open(member) as source:
                    found[place] = Entry(mode=mode, data=_read(source, path.name, place))
    return Held(found)


def _inner(name: str) -> str:
    return "/".join([part for part in name.split("/") if part not in ("", ".")][1:])


def _installed(name: str) -> str:
    first, _, rest = name.partition("/")
    scheme, _, inner = rest.partition("/")
    return inner if first.endswith(".data") and scheme in {"purelib", "platlib"} else name
