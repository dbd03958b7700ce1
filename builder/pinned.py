"""Brings the tree of a source to this machine, whatever its kind, and says what a lock has to know of it.

What a tree has to be, recipe and lock have said already; a tree that is another one is an error with both values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from builder.errors import LockError
from builder.lockfile import LockedSource, LockedSubmodule
from builder.mirrors import Mirrors
from builder.project import tree_hash
from builder.recipe import Recipe, Source
from builder.sources.archive import extract
from builder.sources.download import LOCK_HINT, Wanted, fetch_all
from builder.sources.git import fetch_commit
from builder.sources.index import Kind, LockedFile, fetch_wheels, list_files
from builder.sources.store import Store
from builder.story import Story
from builder.workspace import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedTree:
    """A tree on disk that must not be changed, and its entry in the lock."""

    path: Path
    locked: LockedSource


def fetch_source(
    recipe: Recipe,
    name: str,
    *,
    locked: LockedSource | None,
    into: Path,
    workspace: Workspace,
    mirrors: Mirrors,
    story: Story,
) -> PinnedTree:
    """Return the tree of a source. Archives are unpacked to the folder `into`; others lie where they are kept.

    Without `locked`, what the recipe leaves open is asked for. Raises `LockError` for a pin that does not hold or
    that gives another tree than `locked`, `EngineError` when nobody can be asked. Patches and what is left out are
    not its business.
    """
    source = recipe.source[name]
    locked = locked.model_copy(update={"patched": None, "built": None}) if locked is not None else None
    if source.path is not None:
        return _path(recipe, source.path, locked, workspace)
    if source.git is not None:
        found = _git(source, workspace, mirrors, story)
        if locked is not None and found.locked != locked:
            raise _differs(recipe, name, str(locked.content), str(found.locked.content))
        return found
    store = Store(workspace.store)
    if source.sdist is not None:
        entry = locked or _choose_sdist(source, mirrors, where=f"images/{recipe.name}/recipe.toml: source.{name}")
        file = LockedFile(
            project=source.sdist, filename=entry.file or "", sha256=entry.sha256 or "", size=entry.size,
            index=entry.index, kind=entry.index_kind,
        )  # fmt: skip
        path = fetch_wheels([file], store=store, mirrors=mirrors, story=story)[file.sha256]
        title = file.filename
    else:
        url, sha256 = source.archive or "", source.sha256 or ""
        title = unquote(urlsplit(url).path.rpartition("/")[2]) or name
        entry = locked or LockedSource(sha256=sha256)
        wanted = Wanted(name=title, sha256=sha256, size=entry.size, urls=(url,))
        path = fetch_all([wanted], store=store, mirrors=mirrors, story=story)[sha256]
    tree = extract(path, into, name=title)
    return PinnedTree(path=tree, locked=entry.model_copy(update={"size": path.stat().st_size}))


def _path(recipe: Recipe, path: str, locked: LockedSource | None, workspace: Workspace) -> PinnedTree:
    folder = workspace.images / recipe.folder / path
    found = tree_hash(folder)
    if locked is not None and found != locked.tree:
        raise LockError(
            f"images/{recipe.name}/{path}: its files changed since the lock was made",
            details=(f"locked {locked.tree}", f"found  {found}"),
            hint=f"rocm-images lock {recipe.name}",
        )
    return PinnedTree(path=folder, locked=LockedSource(tree=found))


def _git(source: Source, workspace: Workspace, mirrors: Mirrors, story: Story) -> PinnedTree:
    tree = fetch_commit(
        source.git or "", source.commit or "", tag=source.tag, branch=source.branch,
        submodules=source.submodules, mirrors=mirrors, cache=workspace.state / "git", story=story,
    )  # fmt: skip
    modules = tuple(LockedSubmodule(path=m.path, url=m.url, commit=m.commit) for m in tree.submodules)
    return PinnedTree(path=tree.path, locked=LockedSource(tree=tree.tree, commit=tree.commit, submodule=modules))


def _choose_sdist(source: Source, mirrors: Mirrors, *, where: str) -> LockedSource:
    """Return the sdist of a version: a .tar.gz if there is one, as the standard asks for."""
    project, version = source.sdist or "", source.version or ""
    index = source.index.url if source.index is not None else None
    kind: Kind = source.index.kind if source.index is not None else "simple"
    files = list_files(project, index=index, kind=kind, mirrors=mirrors)
    versions: dict[str, Version] = {}
    for file in sorted(files):
        try:
            name, of = parse_sdist_filename(file)
        except InvalidSdistFilename:
            continue
        if name == canonicalize_name(project):
            versions[file] = of
    fitting = [file for file, of in versions.items() if _same(of, version)]
    if not fitting:
        known = ", ".join(str(of) for of in sorted(set(versions.values()))) or "none"
        raise LockError(f"{where}: there is no sdist of {project} {version}", details=(f"there is: {known}",))
    chosen = min(fitting, key=lambda file: (not file.endswith(".tar.gz"), file))
    sha256 = files[chosen].sha256
    if sha256 is None:
        raise LockError(
            f"{where}: the index gives no sha256 of {chosen}",
            hint="name it as 'archive' with its 'sha256' instead of 'sdist'",
        )
    return LockedSource(file=chosen, sha256=sha256, index=index, index_kind=kind)


def _same(found: Version, wanted: str) -> bool:
    try:
        return found == Version(wanted)
    except InvalidVersion:
        return False


def _differs(recipe: Recipe, name: str, locked: str, found: str) -> LockError:
    return LockError(
        f"images/{recipe.name}/recipe.lock: source.{name}: gives another tree than the locked one",
        details=(f"locked {locked}", f"found  {found}"),
        hint=LOCK_HINT,
    )
