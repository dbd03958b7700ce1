"""Brings a source to this machine with its patches applied: strictly, in order, to a tree that nobody used before.

What a lock says of files and trees is proven each time. What a patch may do is `patches`' to decide.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import LockError, PatchError, RecipeError
from builder.ignored import ignoring
from builder.lockfile import Lock, LockedSource
from builder.locktables import LockedPatch, LockedPatchFile, State
from builder.mirrors import Mirrors
from builder.patches.diff import PatchFile, parse_patch
from builder.patches.edits import change
from builder.patches.judge import Patch as Change
from builder.patches.judge import Verdict, told
from builder.patchfiles import File, own_files, require_locked, series_files
from builder.patchset import patched_source, pins_of, require_made_for, series_sources, source_patches
from builder.patchtables import Patch
from builder.pinned import PinnedTree, fetch_source
from builder.recipe import Recipe
from builder.scope import Scope
from builder.sources.githash import tree_id
from builder.sources.worktree import patched_tree
from builder.story import Story
from builder.workspace import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """A patched tree on disk, git's id of it, and what the lock says of each of its patches."""

    path: Path
    tree: str
    patches: tuple[LockedPatch, ...]
    verdicts: Mapping[str, tuple[Verdict, ...]]


def apply_patches(
    recipe: Recipe,
    name: str,
    tree: Path,
    into: Path,
    *,
    workspace: Workspace,
    others: Mapping[str, Path],
    epoch: int,
    locked: Sequence[LockedPatch] | None = None,
) -> Applied:
    """Write the tree of a source with its patches to the new folder `into`. `tree` itself is left alone.

    `others` are the trees of the sources that series are taken from. With `locked`, the patches of a lock, their
    files have to be those. Raises `PatchError` naming every patch that does not apply.
    """
    where = f"images/{recipe.name}/recipe.toml"
    held = {patch.name: patch.file for patch in locked or ()}
    files: dict[str, tuple[File, ...]] = {}
    steps: list[PatchFile | Change] = []
    owners: list[str] = []
    for patch in source_patches(recipe, name):
        files[patch.name] = _files(recipe, patch, workspace, others, where=f"{where}: patch.{patch.name}")
        if locked is not None:
            require_locked(recipe, patch, files[patch.name], held.get(patch.name, ()))
        own = _changes(patch, files[patch.name])
        steps += own
        owners += [patch.name] * len(own)
    try:
        done = patched_tree(tree, steps, into, epoch=epoch, where=f"{where}: source.{name}")
    except PatchError as error:
        raise _with_pins(error, recipe, name) from error
    verdicts: dict[str, tuple[Verdict, ...]] = dict.fromkeys(files, ())
    for owner, verdict in zip(owners, done.judged.verdicts, strict=True):
        verdicts[owner] += (verdict,)
    entries = tuple(
        _locked(patch, files[patch.name], verdicts[patch.name]) for patch in source_patches(recipe, name)
    )
    return Applied(path=done.path, tree=done.tree, patches=entries, verdicts=verdicts)


def fetch_patched(
    recipe: Recipe, name: str, *, lock: Lock, into: Path, workspace: Workspace, mirrors: Mirrors, story: Story
) -> PinnedTree:
    """Return the tree of a locked source with its patches, proven to be the locked one; see `fetch_source`.

    A tree with patches is made in the folder `into` each time, out of what was fetched and compared.
    """
    entry = lock.source[name]

    def fetched(source: str, folder: Path) -> PinnedTree:
        return fetch_source(
            recipe, source, locked=lock.source[source], into=folder, workspace=workspace, mirrors=mirrors,
            story=story,
        )  # fmt: skip

    if entry.patched is None:
        return fetched(name, into)
    with tempfile.TemporaryDirectory(prefix="rocm-images-trees.") as place:
        tree = fetched(name, Path(place) / "tree")
        others = {
            other: fetched(other, Path(place) / f"series-{other}").path for other in series_sources(recipe, [name])
        }
        into.parent.mkdir(parents=True, exist_ok=True)
        done = apply_patches(
            recipe, name, tree.path, into, workspace=workspace, others=others, epoch=lock.epoch, locked=lock.patch
        )
    if done.tree != entry.patched:
        raise _another_tree(recipe, name, entry.patched, done.tree)
    return PinnedTree(path=done.path, locked=entry)


def _with_pins(error: PatchError, recipe: Recipe, name: str) -> PatchError:
    """Return an error that names both pins, where a series comes from another source than the one it is for."""
    series = {
        p.series.source: p.series.made_for for p in source_patches(recipe, name) if p.series and p.series.source
    }
    if not series:
        return error
    pins = pins_of(recipe, {})
    said = [f"the series of {other} {pins[other]}, made for {made}" for other, made in sorted(series.items())]
    return PatchError(
        f"{error.message}: {name} is at {pins[name] or recipe.source[name].path}, {' and '.join(said)}",
        details=error.details,
        hint=f"rocm-images patches {recipe.name}; a series and what it is for are pinned together",
    )


def with_built(recipe: Recipe, trees: Mapping[str, PinnedTree]) -> dict[str, PinnedTree]:
    """Return trees with what is built of them in their entries, where the recipe leaves something out."""
    return {
        name: PinnedTree(
            path=tree.path, locked=tree.locked.model_copy(update={"built": _built(recipe, name, tree.path)})
        )
        for name, tree in trees.items()
    }


def leave_out(recipe: Recipe, name: str, folder: Path, locked: LockedSource) -> None:
    """Remove from a copy of a source's tree what the recipe ignores, and prove that the rest is as locked."""
    if not recipe.source[name].ignore:
        return
    ignored = ignoring(recipe.source[name].ignore)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif ignored(path.relative_to(folder).as_posix()):
            path.unlink()
    found = _built(recipe, name, folder)
    if locked.built not in (None, found):
        raise _another_tree(recipe, name, locked.built, found)


def _built(recipe: Recipe, name: str, folder: Path) -> str | None:
    """Return git's id of what is built of a tree; None where nothing of it is ignored."""
    patterns = recipe.source[name].ignore
    if not patterns:
        return None
    ignored = ignoring(patterns)
    found = tree_id(folder, left_out=lambda path: path.rpartition("/")[2] == ".git" or ignored(path))
    if found is None:
        raise RecipeError(f"images/{recipe.name}/recipe.toml: source.{name}.ignore: leaves nothing of the tree")
    return found


def tell(recipe: Recipe, applied: Applied, story: Story, *, strict: bool) -> None:
    """Tell what of the patches is not quite as written: moved hunks, and what the tree has already.

    A patch of which nothing is left to do is a warning; with `strict` a `PatchError`, unless it is acknowledged.
    """
    redundant: list[str] = []
    for patch in recipe.patch:
        for verdict in applied.verdicts.get(patch.name, ()):
            if verdict.state != "redundant" and not verdict.offsets:
                continue
            first, *more = told(verdict)
            if verdict.state == "redundant" and patch.acknowledge_redundant is None:
                redundant += [f"patch {patch.name}: {first}", *more]
                story.warn(f"patch {patch.name}: {verdict.name} is redundant: the tree has its change already")
            elif verdict.offsets:
                story.note("; ".join([f"patch {patch.name}: {first}", *(line.strip() for line in more)]))
    if redundant and strict:
        raise PatchError(
            f"images/{recipe.name}/recipe.toml: patches are redundant: the tree has their change already",
            details=tuple(redundant),
            hint="drop them, or say with 'acknowledge-redundant' why they stay",
        )


def patch_trees(
    recipe: Recipe,
    trees: Mapping[str, PinnedTree],
    scope: Scope,
    *,
    place: Path,
    workspace: Workspace,
    epoch: int,
    story: Story,
    strict: bool,
) -> tuple[dict[str, PinnedTree], tuple[LockedPatch, ...]]:
    """Apply the patches of fetched trees for a new lock; return the trees to go on with, and the lock's patches.

    Patches that `scope` does not make anew have to give what the old lock has. Raises `PatchError`, `LockError`.
    """
    require_made_for(
        recipe, pins_of(recipe, {name: tree.locked.tree for name, tree in trees.items()}),
        file=f"images/{recipe.name}/recipe.toml",
    )  # fmt: skip
    old = {patch.name: patch for patch in scope.old.patch} if scope.old is not None else {}
    entries = dict(old) | {entry.name: entry for entry in _own_entries(workspace, recipe, scope.patches)}
    made = dict(trees)
    others = {name: tree.path for name, tree in trees.items()}
    for name in trees:
        wanted = source_patches(recipe, name)
        if not wanted or (scope.keeps_python and name not in scope.sources):
            continue
        kept = scope.kept_source(name)
        with story.step(f"applying the patches of {name}"):
            applied = apply_patches(
                recipe, name, trees[name].path, place / f"patched-{name}", workspace=workspace, others=others,
                epoch=epoch, locked=tuple(old.values()) if kept is not None else None,
            )  # fmt: skip
            tell(recipe, applied, story, strict=strict)
        if kept is not None and kept.patched != applied.tree:
            raise _another_tree(recipe, name, kept.patched, applied.tree)
        entries |= {entry.name: entry for entry in applied.patches}
        entry = trees[name].locked.model_copy(update={"patched": applied.tree})
        made[name] = PinnedTree(path=applied.path, locked=entry)
    return made, tuple(entries[patch.name] for patch in recipe.patch if patch.name in entries)


def _another_tree(recipe: Recipe, name: str, locked: str | None, found: str | None) -> LockError:
    return LockError(
        f"images/{recipe.name}/recipe.lock: source.{name}: its patches give another tree than the locked one",
        details=(f"locked {locked}", f"found  {found}"),
        hint=f"rocm-images lock {recipe.name}",
    )


def _own_entries(workspace: Workspace, recipe: Recipe, names: Collection[str]) -> tuple[LockedPatch, ...]:
    """Return what the lock says of patches that change no source: the files they consist of."""
    return tuple(
        LockedPatch(
            name=patch.name,
            file=tuple(LockedPatchFile(file=f.name, sha256=f.sha256) for f in own_files(workspace, recipe, patch)),
        )
        for patch in recipe.patch
        if patch.name in names and patch.files and patched_source(recipe, patch) is None
    )


def _files(
    recipe: Recipe, patch: Patch, workspace: Workspace, others: Mapping[str, Path], *, where: str
) -> tuple[File, ...]:
    if patch.series is not None and patch.series.source is not None:
        return series_files(others[patch.series.source], patch.series, where=f"{where}.series")
    return own_files(workspace, recipe, patch)


def _changes(patch: Patch, files: Sequence[File]) -> list[PatchFile | Change]:
    if patch.series is not None:
        return [parse_patch(file.data, name=file.name) for file in files]
    return [change(patch, files[0].data if files else None)]


def _locked(patch: Patch, files: Sequence[File], verdicts: Sequence[Verdict]) -> LockedPatch:
    """Return the entry of a patch in the lock; it is redundant when all of it is."""
    states = [_state(verdict) for verdict in verdicts]
    whole: State = "redundant" if states and set(states) == {"redundant"} else "applies"
    if patch.series is None:
        named = tuple(LockedPatchFile(file=file.name, sha256=file.sha256) for file in files)
    else:
        named = tuple(
            LockedPatchFile(file=file.name, sha256=file.sha256, state=state, hunks=verdict.hunks)
            for file, state, verdict in zip(files, states, verdicts, strict=True)
        )
    return LockedPatch(name=patch.name, state=whole, file=named)


def _state(verdict: Verdict) -> State:
    return "redundant" if verdict.state == "redundant" else "applies"
