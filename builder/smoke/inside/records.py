"""Reads RECORD, the list that a wheel carries of its files, so that a wheel and what it became can be compared.

Source: Binary distribution format, "The .dist-info directory"; Recording installed projects, "The RECORD file".
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator

# What installers write beside what the wheel brought.
_WRITTEN_BY_INSTALLERS = (
    "RECORD",
    "RECORD.jws",
    "RECORD.p7s",
    "INSTALLER",
    "REQUESTED",
    "direct_url.json",
    "uv_cache.json",
)


def rows(text: str) -> Iterator[tuple[str, str]]:
    """Yield path and hash (`sha256=…`, empty where there is none) of every file that a RECORD names."""
    for row in csv.reader(text.splitlines()):
        if row and row[0]:
            yield row[0], row[1] if len(row) > 1 else ""


def identity(text: str) -> str:
    """Return what is equal for the RECORD of a wheel and the one that its installation left.

    Scripts, headers and data move and change on the way, and installers and compilers add files: only what lies
    beside the wheel's modules, with the hash its author gave it, counts.
    """
    kept = []
    for path, digest in rows(text):
        parts = path.replace("\\", "/").split("/")
        if parts[0].endswith(".data"):
            if len(parts) < 3 or parts[1] not in ("purelib", "platlib"):
                continue
            parts = parts[2:]
        if not digest or parts[0] in ("", "..") or parts[-1].endswith(".pyc"):
            continue
        if parts[0].endswith(".dist-info") and parts[-1] in _WRITTEN_BY_INSTALLERS:
            continue
        kept.append(f"{'/'.join(parts)} {digest}\n")
    return hashlib.sha256("".join(sorted(kept)).encode()).hexdigest()
