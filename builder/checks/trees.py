"""Finds the files of locked components where they are on this machine, or fetches them, to be read as trees.

What speaks to indexes and repositories is imported where something is fetched: `check` mostly fetches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from builder.errors import LockError
from builder.lockfile import Lock
from builder.mirrors import Mirrors
from builder.project import tree_hash
from builder.recipe import Component, Recipe
from builder.sources.store import Store
from builder.sources.trees import read_tree
from builder.sourcetree import SourceTree
from builder.story import Story
from builder.workspace import Workspace

# Folders of a source that are no part of what it installs, although they look like packages.
_BESIDE = frozenset({"tests", "test", "testing", "benchmarks", "benchmark", "examples", "docs", "tools"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetch:
    """Leave to fetch what is not on this machine yet, and who hears of it."""

    mirrors: Mirrors
    story: Story


@dataclass(frozen=True, kw_only=True, slots=True)
class LockedTree:
    """The files of one component by what the lock calls them: `identity` changes when one of them does."""

    component: Component
    identity: str
    workspace: Workspace
    recipe: Recipe
    lock: Lock

    def place(self, fetch: Fetch | None) -> Path | None:
        """Return the file or folder, verified; None when it is not here and must not be fetched.

        Raises `LockError` or `EngineError` when it cannot be fetched as it is locked.
        """
        store = Store(self.workspace.store)
        if self.component.wheel is not None:
            return _wheel(self.component, self.lock, store, fetch)
        return self._source(self.component.source or "", store, fetch)

    def read(self, fetch: Fetch | None) -> SourceTree | None:
        """Return what the component installs; None as `place`."""
        path = self.place(fetch)
        if path is None:
            return None
        try:
            tree = read_tree(path, under=self.component.subdirectory or "")
        except LockError as error:
            raise LockError(f"component {self.component.name}: {error.message}", hint=error.hint) from error
        return tree if self.component.wheel is not None else _installed(tree)

    def _source(self, name: str, store: Store, fetch: Fetch | None) -> Path | None:
        source, locked = self.recipe.source[name], self.lock.source[name]
        if source.path is not None:
            folder = self.workspace.images / self.recipe.folder / source.path
            return folder if folder.is_dir() and tree_hash(folder) == locked.tree else None
        if source.git is not None:
            return self._git(name, fetch)
        if locked.sha256 is None:
            return None
        there = store.get(locked.sha256)
        if there is not None or fetch is None:
            return there
        if source.sdist is not None:
            from builder.sources.index import LockedFile, fetch_wheels

            wanted = LockedFile(
                project=source.sdist, filename=locked.file or "", sha256=locked.sha256, size=locked.size,
                index=locked.index, kind=locked.index_kind,
            )  # fmt: skip
            files = fetch_wheels([wanted], store=store, mirrors=fetch.mirrors, story=fetch.story)
        else:
            from builder.sources.download import Wanted, fetch_all

            archive = Wanted(name=name, sha256=locked.sha256, size=locked.size, urls=(source.archive or "",))
            files = fetch_all([archive], store=store, mirrors=fetch.mirrors, story=fetch.story)
        return files[locked.sha256]

    def _git(self, name: str, fetch: Fetch | None) -> Path | None:
        source, cache = self.recipe.source[name], self.workspace.state / "git"
        url, commit = source.git or "", source.commit or ""
        if fetch is not None:
            from builder.sources.git import fetch_commit

            return fetch_commit(
                url, commit, tag=source.tag, branch=source.branch, submodules=source.submodules,
                mirrors=fetch.mirrors, cache=cache, story=fetch.story,
            ).path  # fmt: skip
        if not (cache / "trees" / (commit if source.submodules else f"{commit}-alone")).is_dir():
            return None
        from builder.sources.git import fetch_commit

        # Without tag and branch nobody is asked for what was fetched before; its files are compared all the same.
        return fetch_commit(url, commit, submodules=source.submodules, mirrors=Mirrors(), cache=cache).path


def locked_tree(workspace: Workspace, recipe: Recipe, lock: Lock, name: str) -> LockedTree | None:
    """Return the files of a component; None where the distribution or the base brings it, or nothing is locked."""
    component = next((c for c in recipe.component if c.name == name), None)
    if component is None:
        return None
    if component.wheel is not None:
        file = next((f for f in lock.wheels(name) if f.project == canonicalize_name(component.wheel or "")), None)
        identity = file.sha256 if file is not None else None
    elif component.source is not None and component.source in lock.source:
        locked = lock.source[component.source]
        identity = locked.sha256 or locked.tree or locked.commit
    else:
        identity = None
    if identity is None:
        return None
    return LockedTree(component=component, identity=identity, workspace=workspace, recipe=recipe, lock=lock)


def _wheel(component: Component, lock: Lock, store: Store, fetch: Fetch | None) -> Path | None:
    project = canonicalize_name(component.wheel or "")
    file = next(f for f in lock.wheels(component.name) if f.project == project)
    there = store.get(file.sha256)
    if there is not None or fetch is None:
        return there
    from builder.sources.index import LockedFile, fetch_wheels

    wanted = LockedFile(
        project=file.project, filename=file.file, sha256=file.sha256, size=file.size, index=file.index,
        kind=file.index_kind,
    )  # fmt: skip
    return fetch_wheels([wanted], store=store, mirrors=fetch.mirrors, story=fetch.story)[file.sha256]


def _installed(tree: SourceTree) -> SourceTree:
    """Return the packages of a source, as an installation would leave them; all of it where there are none."""
    packages = {
        name.partition("/")[0] for name in tree.names if name.count("/") == 1 and name.endswith("/__init__.py")
    } - _BESIDE
    if not packages:
        return tree
    return SourceTree(
        names=frozenset(name for name in tree.names if name.partition("/")[0] in packages),
        texts={name: data for name, data in tree.texts.items() if name.partition("/")[0] in packages},
    )
