"""Lists the Python distributions of an image with who brought each, and compares every file with its record."""

from __future__ import annotations

import base64
import hashlib
import importlib.machinery
import importlib.metadata
import os
import platform
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from builder.smoke.inside.records import identity, rows

_DPKG = Path("/var/lib/dpkg/info")
_NO_PROGRAMS = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/")  # which an image may leave out
_TOLD = 12


def probe(packages: list[str]) -> dict[str, Any]:
    """Return every distribution, in the order in which Python finds them, and the state of some Debian packages.

    Of each: what it is and asks for, which Debian package owns it, and which of its files are `changed` or `gone`.
    `claims` are files that several distributions say they brought; `remnants` are folders that import as empty
    modules and belong to nobody.
    """
    folders = sites()
    owners = _owners(folders)
    found = [_distribution(each, site, owners) for site in folders for each in _in(site)]
    files = [(number, path, digest) for number, each in enumerate(found) for path, digest in each.pop("files")]
    _compare(found, files)
    return {
        "environment": _marker_environment(),
        "sites": folders,
        "distributions": found,
        "claims": _claims(found, files),
        "remnants": _remnants(folders, found, owners),
        "packages": {name: _package(name) for name in packages},
    }


def sites() -> list[str]:
    """Return the folders with what is installed: all that Python imports from but its own library."""
    own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    own |= {os.path.join(path, "lib-dynload") for path in own}  # noqa: PTH118
    return [path for path in dict.fromkeys(sys.path) if path and path not in own and Path(path).is_dir()]


def _in(site: str) -> list[importlib.metadata.Distribution]:
    found = importlib.metadata.distributions(path=[site])
    return sorted(found, key=lambda each: str(getattr(each, "_path", "")))


def _distribution(each: importlib.metadata.Distribution, site: str, owners: dict[str, str]) -> dict[str, Any]:
    path = str(getattr(each, "_path", ""))
    metadata = each.metadata
    record = each.read_text("RECORD")
    listed = list(rows(record)) if record else []
    tops = [name.partition("/")[0] for name, _ in listed] or (each.read_text("top_level.txt") or "").split()
    return {
        "name": metadata["Name"] if metadata is not None else None,
        "version": metadata["Version"] if metadata is not None else None,
        "path": path,
        "site": site,
        "installer": (each.read_text("INSTALLER") or "").strip() or None,
        "requires": [str(line) for line in each.requires or ()],
        "tops": sorted(
            {top for top in tops if top not in ("", "..") and not top.endswith((".dist-info", ".data"))}
        ),
        "package": owners.get(path),
        "identity": identity(record) if record else None,
        "origin": each.read_text("direct_url.json"),
        "changed": [],
        "gone": [],
        "files": [(os.path.normpath(f"{site}/{name}"), digest) for name, digest in listed],
    }


def _owners(folders: list[str]) -> dict[str, str]:
    """Return which Debian package brought what lies at the top of a site folder."""
    prefixes = tuple(f"{site.rstrip('/')}/" for site in folders)
    owners = {}
    for listing in sorted(_DPKG.glob("*.list")):
        for line in listing.read_text("utf-8", "replace").splitlines():
            if line.startswith(prefixes):
                prefix = next(prefix for prefix in prefixes if line.startswith(prefix))
                owners[prefix + line[len(prefix) :].partition("/")[0]] = listing.stem.partition(":")[0]
    return owners


def _compare(found: list[dict[str, Any]], files: list[tuple[int, str, str]]) -> None:
    """Note which files differ from their record; hashing leaves the interpreter's lock, so threads help."""
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for (number, path, _), state in zip(files, pool.map(_state, files, chunksize=64), strict=False):
            if state is not None:
                found[number][state].append(path)


def _state(entry: tuple[int, str, str]) -> str | None:
    _, path, recorded = entry
    algorithm, _, digest = recorded.partition("=")
    if not digest or algorithm not in hashlib.algorithms_guaranteed or path.endswith(".pyc"):
        return None if os.path.lexists(path) or path.endswith(".pyc") else "gone"
    try:
        actual = _hash(path, algorithm)
    except OSError:
        return "gone"
    return None if base64.urlsafe_b64encode(actual).rstrip(b"=").decode() == digest.rstrip("=") else "changed"


def _hash(path: str, algorithm: str) -> bytes:
    found = hashlib.new(algorithm)
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.digest()


def _claims(found: list[dict[str, Any]], files: Iterable[tuple[int, str, str]]) -> list[dict[str, Any]]:
    by_file: dict[str, set[str]] = defaultdict(set)
    for number, path, _ in files:
        if not path.endswith(".pyc"):
            by_file[path].add(str(found[number]["name"]))
    return [{"path": path, "names": sorted(names)} for path, names in sorted(by_file.items()) if len(names) > 1]


def _remnants(folders: list[str], found: list[dict[str, Any]], owners: dict[str, str]) -> list[str]:
    owned = {f"{each['site']}/{top}" for each in found for top in each["tops"]} | set(owners)
    inits = tuple(f"__init__{suffix}" for suffix in importlib.machinery.all_suffixes())
    return [
        str(folder)
        for site in folders
        for folder in sorted(Path(site).iterdir())
        if folder.is_dir()
        and folder.name.isidentifier()
        and folder.name != "__pycache__"
        and str(folder) not in owned
        and not any((folder / name).exists() for name in inits)
    ]


def _package(name: str) -> dict[str, Any]:
    """Return which files of a Debian package are not what it brought."""
    listed = next(
        (path for path in (_DPKG / f"{name}.md5sums", *_DPKG.glob(f"{name}:*.md5sums")) if path.exists()), None
    )
    if listed is None:
        return {
            "installed": any(_DPKG.glob(f"{name}.list")) or any(_DPKG.glob(f"{name}:*.list")),
            "changed": [],
            "gone": [],
        }
    changed, gone = [], []
    for digest, path in _sums(listed):
        if path.startswith(_NO_PROGRAMS):
            continue
        try:
            if _hash(path, "md5").hex() != digest:
                changed.append(path)
        except OSError:
            gone.append(path)
    return {"installed": True, "changed": changed[:_TOLD], "gone": gone[:_TOLD]}


def _sums(listed: Path) -> Iterator[tuple[str, str]]:
    for line in listed.read_text("utf-8", "replace").splitlines():
        digest, _, path = line.partition("  ")
        yield digest, f"/{path}"


def _marker_environment() -> dict[str, str]:
    """Return what environment markers are about (Dependency specifiers, "Environment Markers")."""
    version = sys.implementation.version
    kind = "" if version.releaselevel == "final" else version.releaselevel[0] + str(version.serial)
    return {
        "implementation_name": sys.implementation.name,
        "implementation_version": f"{version.major}.{version.minor}.{version.micro}{kind}",
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "platform_python_implementation": platform.python_implementation(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    }
