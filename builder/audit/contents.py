"""What a folder or an image holds that an audit wants: code for GPUs, and the few texts that tell who owns it."""

from __future__ import annotations

import mmap
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO

from builder.codeobjects.reading import FIRST_BYTES, FileCode, may_have_code, read_file

MANIFEST = "usr/share/rocm-images/manifest.json"
COMPONENTS = "usr/share/rocm-images/components.json"
# Code objects in formats of others: MIOpen's kernel databases, AOTriton's packs, compressed files.
_UNREAD = re.compile(r".*\.(kdb(\.bz2)?|aks2|(hsaco|co)\.(xz|zst|bz2|gz))")
_LONGEST_TEXT = 64 << 20
_IN_MEMORY = 32 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Seeking:
    """What is looked for: files whose whole path matches `texts`, to be read as text, and with `code` GPU code."""

    texts: re.Pattern[str]
    code: bool


AUDIT = Seeking(
    texts=re.compile(
        rf"{re.escape(MANIFEST)}|{re.escape(COMPONENTS)}|"
        r"var/lib/dpkg/info/[^/]+\.list|(.*/)?[^/]+\.dist-info/RECORD"
    ),
    code=True,
)
"""What tells for which GPUs an image holds code, and who owns it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """Files by path, without a leading slash, as they are in the end: what an upper layer removes is not there.

    `layer_of` has the layer, bottom first, of each path of `code` and `texts`; in a folder there are no layers.
    `unread` are paths of files that may hold GPU code and could not be looked into.
    """

    code: Mapping[str, FileCode]
    texts: Mapping[str, str]
    unread: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    layer_of: Mapping[str, int] = field(default_factory=dict)
    layers: int = 0


def is_telling(path: str, size: int, seeking: Seeking = AUDIT) -> bool:
    """Tell whether a file is one of the texts that are looked for."""
    return size <= _LONGEST_TEXT and seeking.texts.fullmatch(path) is not None


def is_unread(path: str) -> bool:
    """Tell by its name whether a file is an archive of GPU code that cannot be looked into."""
    return _UNREAD.fullmatch(path) is not None


def code_in(stream: IO[bytes], size: int) -> FileCode | None:
    """Return the GPU code in a file of `size` bytes that can be read only once, from its start."""
    start = stream.read(FIRST_BYTES)
    if not may_have_code(start):
        return None
    if size <= _IN_MEMORY:
        return read_file(memoryview(start + stream.read()))
    with tempfile.TemporaryFile() as spool:
        spool.write(start)
        while chunk := stream.read(_CHUNK):
            spool.write(chunk)
        spool.flush()
        return read_file(mapped(spool))


def mapped(file: IO[bytes]) -> memoryview:
    """Return the content of an open file that is not empty, read from disk as it is looked at."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
