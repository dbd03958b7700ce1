"""Which installed distribution a file belongs to, and its RECORD, in which every file has its hash.

Standard library only; it lies beside the program of a build step. It changes no file, it returns what changes.
"""

from __future__ import annotations

import csv
import hashlib
import io
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path


def records(site: Path) -> dict[str, dict[str, str]]:
    """Return the RECORD files of the distributions in a site directory: the line of every file by its path.

    Paths of both are relative to the site directory, as a RECORD has them.
    """
    found: dict[str, dict[str, str]] = {}
    for path in sorted(site.glob("*.dist-info/RECORD")):
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        lines = {next(csv.reader([line]))[0]: line for line in text.splitlines() if line.strip()}
        found[path.relative_to(site).as_posix()] = lines
    return found


def rewritten(
    found: Mapping[str, Mapping[str, str]], changed: Mapping[str, bytes], bytecode: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the RECORD files that change with files of their distributions.

    A new file gets a line where it has the most company of one distribution; where it has none, no RECORD names
    it. Bytecode is listed where it was, and keeps a line without a hash.
    """
    lines: dict[str, dict[str, str]] = {}
    for file, data in changed.items():
        owner = _owner(found, file)
        if owner is not None:
            lines.setdefault(owner, dict(found[owner]))[file] = line_of(file, data)
    for file, data in bytecode.items():
        for owner, known in found.items():
            if file in known and next(csv.reader([known[file]]))[1:2] not in ([], [""]):
                lines.setdefault(owner, dict(known))[file] = line_of(file, data)
    return {
        owner: "".join(f"{line}\n" for line in entries.values()).encode("utf-8", "surrogateescape")
        for owner, entries in lines.items()
    }


def line_of(file: str, data: bytes) -> str:
    """Return the line of a file, as PEP 376 has it: path, hash, and size in bytes."""
    digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    sink = io.StringIO()
    csv.writer(sink, lineterminator="").writerow([file, f"sha256={digest}", len(data)])
    return sink.getvalue()


def _owner(found: Mapping[str, Mapping[str, str]], file: str) -> str | None:
    """Return the RECORD that names a file, or most of the files beside it, or above it."""
    for record, lines in found.items():
        if file in lines:
            return record
    folder = file
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        company = {record: sum(path.startswith(f"{folder}/") for path in lines) for record, lines in found.items()}
        most = max(company.values(), default=0)
        if most:
            return next(record for record, count in company.items() if count == most)
    return None
