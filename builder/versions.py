"""Opens what a recipe pins, or another version of it, as a tree to be read; nothing is unpacked that need not be.

Which versions there are is asked of indexes and repositories. What the trees are judged for is not known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from builder.errors import LockError
from builder.lockfile import LockedSource
from builder.mirrors import Mirrors
from builder.patches.tree import Tree
from builder.recipe import Component, Index, Source
from builder.sources.archive import extract
from builder.sources.archivetree import read_sdist, read_wheel
from builder.sources.git import current_commit, fetch_commit
from builder.sources.index import Kind, LockedFile, fetch_wheels, list_files
from builder.sources.repository import Remote
from builder.sources.store import Store
from builder.sources.worktree import FolderTree
from builder.story import Story
from builder.workspace import Workspace, write_atomic

Wanted = Callable[[str], bool]
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetching:
    """Where things are fetched to, from where, and who hears of it."""

    workspace: Workspace
    mirrors: Mirrors
    story: Story

    def file(self, file: LockedFile) -> Path:
        """Return a file of an index, from the store or fetched into it."""
        store = Store(self.workspace.store)
        return fetch_wheels(
            [file], store=store, mirrors=self.mirrors, story=self.story, allow_yanked=[file.project]
        )[file.sha256]  # fmt: skip


def open_path(path: Path, *, into: Path, wanted: Wanted) -> Tree:
    """Open a folder, a wheel or an archive of this machine. Archives are unpacked to the folder `into`."""
    if path.is_dir():
        return FolderTree(path)
    if not path.is_file():
        raise LockError(f"{path}: there is no such folder, wheel or archive")
    if path.suffix == ".whl":
        return read_wheel(path, wanted=wanted)
    return FolderTree(extract(path, into, name=path.name))


def open_sdist(file: LockedFile, fetching: Fetching, *, wanted: Wanted) -> Tree:
    """Open an sdist in one pass."""
    return read_sdist(fetching.file(file), name=file.filename, wanted=wanted)


def locked_sdist(source: Source, locked: LockedSource | None) -> LockedFile | None:
    """Return the sdist that a lock has for a source, None where the lock is for another version."""
    if locked is None or locked.file is None or locked.sha256 is None:
        return None
    if (found := _sdist_version(source.sdist or "", locked.file)) is None or str(found) != str(
        Version(source.version or "0")
    ):
        return None
    return LockedFile(
        project=source.sdist or "", filename=locked.file, sha256=locked.sha256, size=locked.size,
        index=locked.index, kind=locked.index_kind,
    )  # fmt: skip


def sdist_of(source: Source, version: str, fetching: Fetching) -> LockedFile:
    """Return the sdist of a version; what an index once said of it is remembered. Raises `LockError`."""
    memory = fetching.workspace.state / "sdists" / f"{canonicalize_name(source.sdist or '')}.json"
    url, kind = _index(source.index)
    key = f"{url or ''} {version}"
    known = _remembered(memory)
    if key not in known:
        listed = sdists(source, fetching)
        found = next((file for of, file in listed.items() if str(of) == _normal(version)), None)
        if found is None:
            there = ", ".join(str(of) for of in listed) or "none"
            raise LockError(f"there is no sdist of {source.sdist} {version}", details=(f"there is: {there}",))
        known[key] = [found.filename, found.sha256]
        write_atomic(memory, json.dumps(known, indent=1, sort_keys=True))
    name, sha256 = known[key]
    return LockedFile(project=source.sdist or "", filename=name, sha256=sha256, index=url, kind=kind)


def sdists(source: Source, fetching: Fetching) -> dict[Version, LockedFile]:
    """Return the sdists of a source's project, newest first, without yanked ones and those without a hash."""
    url, kind = _index(source.index)
    project = source.sdist or ""
    found: dict[Version, LockedFile] = {}
    listed = list_files(project, index=url, kind=kind, mirrors=fetching.mirrors)
    for name in sorted(listed, key=lambda name: (name.endswith(".tar.gz"), name)):
        version, located = _sdist_version(project, name), listed[name]
        if version is not None and located.sha256 is not None and located.yanked is None:
            found[version] = LockedFile(
                project=project, filename=name, sha256=located.sha256, index=url, kind=kind
            )
    return dict(sorted(found.items(), reverse=True))


def open_wheel(component: Component, version: str, python: str, fetching: Fetching, *, wanted: Wanted) -> Tree:
    """Open the wheel of a version: one for the recipe's Python where there are several. Raises `LockError`."""
    url, kind = _index(component.index)
    project = component.wheel or ""
    listed = list_files(project, index=url, kind=kind, mirrors=fetching.mirrors)
    fitting = [name for name in listed if _is_wheel_of(name, project, version)]
    hashed = [(name, sha256) for name in fitting if (sha256 := listed[name].sha256) is not None]
    if not hashed:
        raise LockError(f"there is no wheel of {project} {version} that the index gives a sha256 of")
    tag = f"-cp{python.replace('.', '')}-"
    name, sha256 = min(hashed, key=lambda each: (tag not in each[0], "x86_64" not in each[0], each[0]))
    file = LockedFile(project=project, filename=name, sha256=sha256, index=url, kind=kind)
    return read_wheel(fetching.file(file), wanted=wanted)


def open_commit(source: Source, name: str, fetching: Fetching) -> Path:
    """Return the tree of a tag or of a whole commit of a git source."""
    url, cache = source.git or "", fetching.workspace.state / "git"
    tag = None if _COMMIT.fullmatch(name) else name
    commit = name if tag is None else current_commit(url, tag=tag, mirrors=fetching.mirrors, cache=cache)
    return fetch_commit(
        url, commit, tag=tag, submodules=source.submodules, mirrors=fetching.mirrors, cache=cache,
        story=fetching.story,
    ).path  # fmt: skip


def tags(source: Source, fetching: Fetching) -> dict[Version, str]:
    """Return the tags of a git source that are versions, newest first."""
    cache = fetching.workspace.state / "git"
    remote = Remote(source.git or "", mirrors=fetching.mirrors, cache=cache, patience=None)
    listed = remote.network("ls-remote", "--quiet", "--tags", "--refs", remote.address)
    names = [line.rpartition("refs/tags/")[2] for line in listed.stdout.splitlines() if "refs/tags/" in line]
    found = {}
    for name in names:
        try:
            found[Version(name)] = name
        except InvalidVersion:
            continue
    return dict(sorted(found.items(), reverse=True))


def final(versions: Iterable[Version]) -> list[Version]:
    """Return the versions that are releases."""
    return [version for version in versions if not version.is_prerelease]


def _normal(version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def _index(index: Index | None) -> tuple[str | None, Kind]:
    return (index.url, index.kind) if index is not None else (None, "simple")


def _sdist_version(project: str, file: str) -> Version | None:
    try:
        name, version = parse_sdist_filename(file)
    except (InvalidSdistFilename, InvalidVersion):
        return None
    return version if name == canonicalize_name(project) else None


def _is_wheel_of(file: str, project: str, version: str) -> bool:
    try:
        name, of, _, _ = parse_wheel_filename(file)
    except (InvalidWheelFilename, InvalidVersion):
        return False
    return name == canonicalize_name(project) and str(of) == _normal(version)


def _remembered(memory: Path) -> dict[str, list[str]]:
    try:
        found = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    fine = isinstance(found, dict) and all(
        isinstance(entry, list) and len(entry) == 2 and all(isinstance(word, str) for word in entry)
        for entry in found.values()
    )
    return found if fine else {}
