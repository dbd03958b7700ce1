"""Writes a tar archive of the files that may have GPU code, and of the lists that say who owns them, to stdout.

Runs in the image, on its own: first bytes and names of sections leave out almost all files.
What stays is read and judged where the tests run.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import struct
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

LIMIT_SECONDS = 240
_TELLING = re.compile(
    r"usr/share/rocm-images/(manifest|components)\.json|var/lib/dpkg/info/[^/]+\.list|(.*/)?[^/]+\.dist-info/RECORD"
)
_BUNDLES = (b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")
_AMDGPU = 224
_LONGEST_NAMES = 1 << 24


def may_have_code(file: BinaryIO, size: int) -> bool:
    """Tell whether a file is a bundle, a code object, or a program with a section for GPU code."""
    head = file.read(64)
    if head.startswith(_BUNDLES):
        return True
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return False
    machine, sections_at, count, names_in = struct.unpack_from("<H20xQ12xHH", head, 18)
    if machine == _AMDGPU:
        return True
    if not sections_at or not 0 < names_in < count or sections_at + count * 64 > size:
        return True  # an unusual program is looked at more closely than here
    file.seek(sections_at + names_in * 64 + 24)
    names_at, length = struct.unpack("<QQ", file.read(16))
    if names_at + length > size:
        return True
    file.seek(names_at)
    return b".hip" in file.read(min(length, _LONGEST_NAMES))


def files(root: str) -> Iterator[tuple[str, int]]:
    """Yield the regular files below a folder, and of nothing that is mounted there."""
    device = _device(root)
    for top, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if _device(f"{top}/{name}") == device)
        for name in sorted(names):
            path = f"{top.rstrip('/')}/{name}"
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield path, found.st_size


def _device(path: str) -> int | None:
    try:
        return os.lstat(path).st_dev
    except OSError:
        return None


def main(root: str = "/") -> None:
    """Write the archive, with paths from `root`."""
    signal.alarm(LIMIT_SECONDS)
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path, size in files(root):
            try:
                with Path(path).open("rb") as file:
                    name = os.path.relpath(path, root)
                    if _TELLING.fullmatch(name) or may_have_code(file, size):
                        file.seek(0)
                        archive.addfile(archive.gettarinfo(arcname=name, fileobj=file), file)
            except PermissionError:
                continue  # nor can the server load it


if __name__ == "__main__":
    main(*sys.argv[1:])
