"""Judges all patches of a recipe on what it pins or on other versions, and finds the newest that takes them all.

It fetches and reads; nothing of the project is changed. What a state means is decided in `builder.patchstates`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.utils import canonicalize_name
from pydantic import JsonValue

from builder.checks.trees import Fetch, locked_tree
from builder.errors import Failure, LockError, RecipeError
from builder.lockfile import Lock, LockedSource, parse_lock
from builder.mirrors import Mirrors
from builder.patches.diff import PatchFile, parse_patch
from builder.patches.edits import change
from builder.patches.judge import Patch as Change
from builder.patches.tree import Tree
from builder.patchfiles import File, own_files, series_files
from builder.patchset import target_of
from builder.patchstates import Report, judge_patches
from builder.patchtables import Patch
from builder.pinned import fetch_source
from builder.problems import nearest
from builder.recipe import Component, Recipe, Source
from builder.sources.archivetree import read_wheel
from builder.sources.index import LockedFile
from builder.sources.worktree import FolderTree
from builder.story import Story
from builder.versions import (
    Fetching,
    final,
    locked_sdist,
    open_commit,
    open_path,
    open_sdist,
    open_wheel,
    sdist_of,
    sdists,
    tags,
)  # fmt: skip
from builder.workspace import Workspace

MOST_TRIED = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A version that was tried: the patches that fail on it, or why it was not judged."""

    version: str
    failing: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The patches of one tree. `at` is its version, tag or path, `pinned` the recipe's."""

    name: str
    at: str
    pinned: str
    reports: tuple[Report, ...]
    newest: str | None = None
    tried: tuple[Tried, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether a patch cannot stay as it is."""
        return any(report.fails for report in self.reports)

    def plain(self) -> dict[str, JsonValue]:
        """Return it as JSON values."""
        table: dict[str, JsonValue] = {
            "name": self.name, "at": self.at, "pinned": self.pinned, "fails": self.fails,
            "patches": [report.plain() for report in self.reports],
        }  # fmt: skip
        if self.tried:
            table["newest-that-takes-all"] = self.newest
            table["tried"] = [
                {"version": each.version, "failing": list(each.failing), "reason": each.reason}
                for each in self.tried
            ]
        return table


def judge_image(
    recipe: Recipe,
    *,
    workspace: Workspace,
    mirrors: Mirrors,
    story: Story,
    at: Mapping[str, str],
    suggest: bool,
) -> tuple[Judgement, ...]:
    """Judge the patches of a recipe, one judgement for each tree that they are for.

    `at` names other versions, tags, commits or paths of sources and components. With `suggest`, releases are
    tried where a patch fails, newest first. Raises `RecipeError` for a name that is none, `PatchError` for a patch
    file that cannot be read, `LockError` and `EngineError` for what cannot be fetched.
    """
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory(prefix="rocm-images-patches.")))
        fetching = Fetching(workspace=workspace, mirrors=mirrors, story=story)
        work = _Work(recipe=recipe, fetching=fetching, place=place, lock=_lock(workspace, recipe), at=at)
        work.require_names()
        return tuple(work.judgement(name, suggest=suggest) for name in work.trees())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """One run of the command."""

    recipe: Recipe
    fetching: Fetching
    place: Path
    lock: Lock | None
    at: Mapping[str, str]

    def require_names(self) -> None:
        """Refuse `at` for what no patch is about."""
        known = {*self.trees(), *self._series_sources()}
        for name in self.at:
            if name not in known:
                raise RecipeError(
                    f"--at {name}: no patch of {self.recipe.name} is about {name!r}{nearest(name, known)}",
                    hint=f"there is: {', '.join(sorted(known)) or 'no patch'}",
                )

    def trees(self) -> tuple[str, ...]:
        """Return what has a tree that patches are for: sources, and components that have none."""
        return tuple(dict.fromkeys(_tree_of(self.recipe, patch) for patch in self.recipe.patch))

    def judgement(self, name: str, *, suggest: bool) -> Judgement:
        patches = tuple(patch for patch in self.recipe.patch if _tree_of(self.recipe, patch) == name)
        parts = {patch.name: self._parts(patch) for patch in patches if patch.hook is None}
        touched = {path for each in parts.values() for part in each for path in _paths(part)}

        def wanted(path: str) -> bool:
            return path.endswith(".py") or path in touched

        roots = self._roots(name)
        pinned = self._pinned(name)
        at = self.at.get(name, pinned)
        tree = self._tree(name, self.at.get(name), wanted)
        if tree is None:
            note = f"what {name!r} has is read in its build; name a folder with --at {name}=PATH to judge it here"
            reports = tuple(Report(patch=patch, state=None, notes=(note,)) for patch in patches)
            return Judgement(name=name, at=at, pinned=pinned, reports=reports)
        with self.fetching.story.step(f"judging the patches of {name} on {at}"):
            reports = judge_patches(patches, parts, tree, roots=roots)
        found = Judgement(name=name, at=at, pinned=pinned, reports=self._noted(name, at, reports))
        if not (suggest and found.fails):
            return found

        def failing(version: str) -> tuple[str, ...]:
            other = self._tree(name, version, wanted)
            judged = judge_patches(patches, parts, other, roots=roots) if other is not None else ()
            return tuple(report.patch.name for report in judged if report.fails)

        newest, tried = self._search(name, at, failing)
        return Judgement(name=name, at=at, pinned=pinned, reports=found.reports, newest=newest, tried=tried)

    def _search(
        self, name: str, at: str, failing: Callable[[str], tuple[str, ...]]
    ) -> tuple[str | None, tuple[Tried, ...]]:
        """Return the newest release on which no patch fails, and what was tried."""
        source = self.recipe.source.get(name)
        try:
            known = self._releases(source) if source is not None else []
        except Failure as error:
            return None, (Tried(version="releases", reason=error.message),)
        tried: list[Tried] = []
        for version in [each for each in known if each != at][:MOST_TRIED]:
            with self.fetching.story.step(f"trying {name} {version}"):
                try:
                    tried.append(Tried(version=version, failing=failing(version)))
                except Failure as error:
                    tried.append(Tried(version=version, reason=error.message))
                    continue
            if not tried[-1].failing:
                return version, tuple(tried)
        return None, tuple(tried)

    def _releases(self, source: Source) -> list[str]:
        if source.sdist is not None:
            return [str(version) for version in final(sdists(source, self.fetching))]
        if source.git is not None:
            named = tags(source, self.fetching)
            return [named[version] for version in final(named)]
        return []

    # Trees

    def _tree(self, name: str, at: str | None, wanted: Callable[[str], bool]) -> Tree | None:
        if at is not None and _is_path(at):
            path = Path(at).absolute()
            self._require_there(path, name)
            return open_path(path, into=self.place / f"at-{name}", wanted=wanted)
        source = self.recipe.source.get(name)
        if source is None:
            return self._installed(self._component(name), at, wanted)
        if source.sdist is not None:
            file = self._sdist(source, name) if at is None else None
            return open_sdist(file or sdist_of(source, at or str(source.version), self.fetching), self.fetching,
                              wanted=wanted)  # fmt: skip
        return FolderTree(self._folder(name, at))

    def _require_there(self, path: Path, name: str) -> None:
        if not path.exists():
            raise RecipeError(f"--at {name}={path}: there is no such folder, wheel or archive")

    def _folder(self, name: str, at: str | None) -> Path:
        """Return a source on disk, at another tag, commit or path where one is named."""
        source = self.recipe.source[name]
        if at is not None and _is_path(at):
            self._require_there(Path(at), name)
            return Path(at).absolute()
        if at is not None and source.git is not None:
            return open_commit(source, at, self.fetching)
        if at is not None and source.sdist is None:
            raise RecipeError(
                f"--at {name}={at}: source.{name} has no versions to choose from",
                hint=f"name a folder or an archive: --at {name}=./PATH",
            )
        locked = self._locked(name) if at is None and self._sdist(source, name) is not None else None
        wanted = source.model_copy(update={"version": at}) if at is not None else source
        recipe = self.recipe.model_copy(update={"source": {**self.recipe.source, name: wanted}})
        return fetch_source(
            recipe, name, locked=locked, into=self.place / f"source-{name}", workspace=self.fetching.workspace,
            mirrors=self.fetching.mirrors, story=self.fetching.story,
        ).path  # fmt: skip

    def _installed(self, component: Component, at: str | None, wanted: Callable[[str], bool]) -> Tree | None:
        if component.wheel is None:
            return None
        if at is not None:
            return open_wheel(component, at, self.recipe.python, self.fetching, wanted=wanted)
        lock, workspace = self.lock, self.fetching.workspace
        there = locked_tree(workspace, self.recipe, lock, component.name) if lock is not None else None
        if there is None or lock is None or not _is_locked(lock, component):
            return open_wheel(component, component.version, self.recipe.python, self.fetching, wanted=wanted)
        path = there.place(Fetch(mirrors=self.fetching.mirrors, story=self.fetching.story))
        if path is None:
            raise LockError(f"component {component.name}: its wheel is not here")
        return read_wheel(path, wanted=wanted)

    # What patches consist of

    def _parts(self, patch: Patch) -> list[PatchFile | Change]:
        files = self._files(patch)
        if patch.series is None:
            return [change(patch, files[0].data if files else None)]
        return [parse_patch(file.data, name=file.name) for file in files]

    def _files(self, patch: Patch) -> Sequence[File]:
        series = patch.series
        if series is None or series.source is None:
            return own_files(self.fetching.workspace, self.recipe, patch)
        where = f"images/{self.recipe.name}/recipe.toml: patch.{patch.name}.series"
        return series_files(self._folder(series.source, self.at.get(series.source)), series, where=where)

    def _series_sources(self) -> set[str]:
        return {p.series.source for p in self.recipe.patch if p.series is not None and p.series.source is not None}

    # What is pinned

    def _pinned(self, name: str) -> str:
        source = self.recipe.source.get(name)
        if source is None:
            return self._component(name).version
        return source.tag or source.commit or source.version or source.sha256 or source.path or name

    def _component(self, name: str) -> Component:
        return next(component for component in self.recipe.component if component.name == name)

    def _sdist(self, source: Source, name: str) -> LockedFile | None:
        return locked_sdist(source, self._locked(name)) if source.sdist is not None else None

    def _locked(self, name: str) -> LockedSource | None:
        return self.lock.source.get(name) if self.lock is not None else None

    def _roots(self, name: str) -> tuple[str, ...]:
        """Return the folders that imports start from."""
        built = [component for component in self.recipe.component if component.source == name]
        below = [component.subdirectory or "" for component in built]
        return tuple(dict.fromkeys(root for sub in below for root in (sub, f"{sub}/src".lstrip("/")))) or ("",)

    def _noted(self, name: str, at: str, reports: tuple[Report, ...]) -> tuple[Report, ...]:
        """Return reports that say of a series whether it was made for another pin."""
        source = self.recipe.source.get(name)
        pins = {at} if source is None or name in self.at else {source.commit, source.version, source.sha256, at}
        return tuple(
            report.noted(f"it was made for {report.patch.series.made_for}")
            if report.patch.series is not None and report.patch.series.made_for not in pins
            else report
            for report in reports
        )


def _tree_of(recipe: Recipe, patch: Patch) -> str:
    component = target_of(recipe, patch)
    return component.source or component.name


def _is_path(at: str) -> bool:
    return "/" in at or at in (".", "..")


def _paths(part: PatchFile | Change) -> tuple[str, ...]:
    if isinstance(part, PatchFile):
        return part.paths
    file = getattr(getattr(part, "patch", None), "file", None)
    return (file,) if isinstance(file, str) else ()


def _is_locked(lock: Lock, component: Component) -> bool:
    """Whether the lock's wheel is of the version that the recipe names."""
    project = canonicalize_name(component.wheel or "")
    return any(
        file.project == project and file.version == component.version for file in lock.wheels(component.name)
    )


def _lock(workspace: Workspace, recipe: Recipe) -> Lock | None:
    """Return the lock where there is one that can be read; it need not fit: what fits is taken from it."""
    path = workspace.lock(recipe.name)
    try:
        return parse_lock(path.read_text(encoding="utf-8"), file=workspace.shown(path))
    except (OSError, LockError):
        return None
