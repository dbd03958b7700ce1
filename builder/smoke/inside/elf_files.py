"""Looks at every program and library of an image as its loader would, without starting one."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builder.elf import cache, dynamic
from builder.elf.closure import Loaded, Loader, Surroundings
from builder.elf.dynamic import Dynamic
from builder.elf.headers import MAGIC, Unreadable
from builder.smoke.inside.evidence import initial_environment, run

_USUAL_FOLDERS = (
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"
)  # fmt: skip
_NO_LIBRARIES = ("/proc", "/sys", "/dev", "/usr/lib/debug")
_ROOTS_TOLD = 3


class Files:
    """What the files of the image tell the loader; each is read once, whatever its paths."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], Dynamic | None] = {}
        self._at: dict[str, tuple[int, int] | None] = {}
        self.unreadable: dict[str, str] = {}

    def same(self, path: str) -> tuple[int, int] | None:
        """Return what is equal for all paths of one file; None where there is none."""
        if path not in self._at:
            try:
                seen = os.stat(path)  # noqa: PTH116 -- called for every name a loader tries
                self._at[path] = (seen.st_dev, seen.st_ino) if stat.S_ISREG(seen.st_mode) else None
            except OSError:
                self._at[path] = None
        return self._at[path]

    def read(self, path: str) -> Dynamic | None:
        """Return what the file at a path tells, None where there is nothing to load."""
        key = self.same(path)
        if key is None:
            return None
        if key not in self._told:
            self._told[key] = None
            try:
                self._told[key] = _read(path)
            except Unreadable as error:
                self.unreadable[path] = str(error)
            except OSError as error:
                self.unreadable[path] = error.strerror or type(error).__name__
        return self._told[key]


def probe() -> dict[str, Any]:
    """Return what the loader would not find or not accept, and what of it there is twice.

    `missing` are needed libraries with who asks for them and where else they lie, `unversioned` symbol versions
    that the library that is found has not, `twice` libraries of one SONAME and several contents of which at least
    one is beside Python's modules, with whether a Python process loads each; `paths` are search paths as written.
    """
    files = Files()
    environment = initial_environment()
    program = os.path.realpath("/proc/self/exe")
    here = files.read(program)
    if here is None:
        return {"files": 0, "reason": "this interpreter is not loaded dynamically"}
    around = surroundings(files, here, environment)
    loader = Loader(around)
    found = [path for path in _walk() if (told := files.read(path)) is not None and told.machine == here.machine]
    sites = _sites()
    python = loader.closure(program)
    process = python.loaded if python is not None else [Loaded(program, here)]
    starts = [(path, files.read(path), _within(path, sites)) for path in found]
    missing: dict[tuple[str, str], list[str]] = defaultdict(list)
    unversioned: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    seen: set[object] = set()
    in_python: set[object] = {files.same(each.path) for each in process}
    # What nobody needs comes last: only then it is known to be opened by name.
    for beside, last in ((False, False), (True, False), (False, True)):
        for path, told, is_beside in starts:
            if told is None or is_beside != beside or last == (beside or told.program) or (
                last and files.same(path) in seen
            ):  # fmt: skip
                continue
            result = loader.closure(path, () if told.program else process)
            if result is None:
                continue
            seen.update(files.same(each.path) for each in result.loaded)
            if beside:
                in_python.update(files.same(each.path) for each in result.loaded)
            for lack in result.missing:
                missing[lack.asks, lack.name].append(lack.root)
            for lack_of in result.unversioned:
                unversioned[lack_of.asks, lack_of.library, lack_of.version].append(lack_of.root)
    by_name = _by_name(found, files)
    return {
        "files": len(found),
        "sites": list(sites),
        "library_path": list(around.library_path),
        "missing": [
            {"asks": asks, "name": name, "roots": roots[:_ROOTS_TOLD], "elsewhere": by_name.get(name, [])[:8]}
            for (asks, name), roots in sorted(missing.items())
        ],
        "unversioned": [
            {"asks": asks, "library": library, "version": version, "roots": roots[:_ROOTS_TOLD]}
            for (asks, library, version), roots in sorted(unversioned.items())
        ],
        "interpreters": [
            {"path": path, "interpreter": told.interpreter}
            for path, told, _ in starts
            if told is not None and told.interpreter and files.read(told.interpreter) is None
        ],
        "text_relocations": [path for path, told, _ in starts if told is not None and told.text_relocations],
        "paths": _search_paths(starts),
        "twice": _twice(found, files, sites, in_python),
        "preload": [
            name
            for name in re.split(r"[:\s]+", environment.get("LD_PRELOAD", ""))
            if name and loader.find(name, process[0]) is None
        ],
        "unreadable": files.unreadable,
    }


def surroundings(files: Files, program: Dynamic, environment: dict[str, str]) -> Surroundings:
    """Return where the loader of this image looks, as it says itself where it can (glibc 2.33 and later)."""
    try:
        status, said = run([program.interpreter or "", "--list-diagnostics"])
    except OSError:
        status, said = 1, ""
    told = dict(re.findall(r'^([\w.\[\]]+)="(.*)"$', said, re.MULTILINE)) if status == 0 else {}
    default = tuple(value.rstrip("/") for name, value in told.items() if name.startswith("path.system_dirs["))
    cached: dict[str, tuple[str, ...]] = defaultdict(tuple)
    try:
        for name, path in cache.entries(Path("/etc/ld.so.cache").read_bytes()):
            cached[name] += (path,)
    except OSError:
        pass
    wanted = re.split("[:;]", environment.get("LD_LIBRARY_PATH", ""))
    return Surroundings(
        read=files.read, same=files.same, library_path=tuple(entry for entry in wanted if entry.startswith("/")),
        cache=cached, default=default or _USUAL_FOLDERS, lib=told.get("dl_dst_lib", "lib"),
        platform=told.get("dl_platform", "x86_64"),
    )  # fmt: skip


def _read(path: str) -> Dynamic | None:
    with Path(path).open("rb") as file:
        if file.read(4) != MAGIC:
            return None
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as data:
            return dynamic.read(data)


def _walk() -> Iterator[str]:
    """Yield every file that may be a program or library; what is mounted is not of the image."""
    mounted = {os.fsdecode(line.split()[1]) for line in Path("/proc/self/mounts").read_bytes().splitlines()}
    for folder, below, names in os.walk("/"):
        below[:] = sorted(
            name
            for name in below
            if (path := f"{folder.rstrip('/')}/{name}") not in mounted and path not in _NO_LIBRARIES
        )
        for name in sorted(names):
            path = f"{folder.rstrip('/')}/{name}"
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode) and (".so" in name or mode & 0o111):
                yield path


def _sites() -> tuple[str, ...]:
    """Return the folders that Python imports from; the current one is none of the image's choice."""
    return tuple(dict.fromkeys(entry for entry in sys.path if entry and _is_folder(entry)))


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:  # below a folder that this user may not enter
        return False


def _within(path: str, folders: tuple[str, ...]) -> bool:
    return path.startswith(tuple(folder.rstrip("/") + "/" for folder in folders))


def _by_name(found: list[str], files: Files) -> dict[str, list[str]]:
    named: dict[str, list[str]] = defaultdict(list)
    for path in found:
        told = files.read(path)
        for name in dict.fromkeys((path.rpartition("/")[2], (told.soname if told else None) or "")):
            named[name].append(path)
    return named


def _search_paths(starts: list[tuple[str, Dynamic | None, bool]]) -> list[dict[str, Any]]:
    """Return the search paths that a file has of its own and that are relative, or not there.

    What Debian's packages bring is left out: their tests and examples have some, and Debian answers for them.
    """
    told = [
        (path, entry)
        for path, each, _ in starts
        if each is not None
        for entry in (*each.rpath, *each.runpath)
        if not entry.startswith(("/", "$")) or (entry.startswith("/") and not _is_folder(entry))
    ]
    packaged = _packaged({path for path, _ in told})
    return [{"path": path, "entry": entry} for path, entry in told if path not in packaged]


def _packaged(paths: set[str]) -> set[str]:
    found: set[str] = set()
    for listing in Path("/var/lib/dpkg/info").glob("*.list") if paths else ():
        names = set(listing.read_text("utf-8", "replace").splitlines())
        # Packages name files as they were before /lib and /bin became links into /usr.
        found.update(path for path in paths if path in names or path.removeprefix("/usr") in names)
    return found


def _twice(found: list[str], files: Files, sites: tuple[str, ...], in_python: set[object]) -> list[dict[str, Any]]:
    by_soname: dict[str, dict[object, str]] = defaultdict(dict)
    for path in found:
        told = files.read(path)
        if told is not None and told.soname and not told.program and not told.initialises:
            by_soname[told.soname].setdefault(files.same(path), path)
    groups = []
    for soname, copies in sorted(by_soname.items()):
        if len(copies) > 1 and any(_within(path, sites) for path in copies.values()):
            told_of = [
                {"path": path, "sha256": _sha256(path), "python": key in in_python} for key, path in copies.items()
            ]
            if len({each["sha256"] for each in told_of}) > 1:
                groups.append({"soname": soname, "copies": told_of})
    return groups


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
