"""Reads the files that patches consist of, where the project has them, and compares them with a lock.

Which files a series has is decided by names alone, so that it is the same on every disk.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import LockError, RecipeError
from builder.lockfile import Lock
from builder.locktables import LockedPatchFile
from builder.patchset import asked_of
from builder.patchtables import Patch, Series
from builder.recipe import Recipe
from builder.workspace import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file of a patch. `name` is its path in the project, beside the recipe, or in the source it comes from."""

    name: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Its hash."""
        return hashlib.sha256(self.data).hexdigest()


def own_files(workspace: Workspace, recipe: Recipe, patch: Patch) -> tuple[File, ...]:
    """Return the files of a patch that lie in the project, in order. Raises `RecipeError` when they are not there.

    Of a series from another source there are none.
    """
    where = f"{workspace.shown(workspace.recipe(recipe.name))}: patch.{patch.name}"
    if patch.series is not None:
        if patch.series.source is not None:
            return ()
        return series_files(workspace.root, patch.series, where=f"{where}.series")
    folder = workspace.images / recipe.folder
    return tuple(File(name=name, data=_read(folder, name, where=f"{where}.{patch.kind}")) for name in patch.files)


def series_files(tree: Path, series: Series, *, where: str) -> tuple[File, ...]:
    """Return the patch files of a series in a tree, in order. Raises `RecipeError` when there is none."""
    named = series.directory or ""
    folder = tree / named
    if not folder.is_dir() or not folder.resolve().is_relative_to(tree.resolve()):
        raise RecipeError(f"{where}.directory: there is no folder {named!r}")
    names = [path.name for path in folder.iterdir() if fnmatch.fnmatchcase(path.name, series.pattern)]
    if not names:
        raise RecipeError(f"{where}.pattern: no file in {named or 'its root'!r} matches {series.pattern!r}")
    prefix = f"{named}/" if named else ""
    return tuple(
        File(name=prefix + name, data=_read(tree, prefix + name, where=where))
        for name in in_order(names, series.order)
    )


def in_order(names: Sequence[str], order: str) -> tuple[str, ...]:
    """Return file names as they are applied: by their characters, or by the number they start with."""
    if order == "name":
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (int(re.sub("[^0-9].*", "", name, flags=re.DOTALL) or 0), name)))


def require_unchanged(workspace: Workspace, recipe: Recipe, lock: Lock) -> None:
    """Raise `LockError` when a patch file of the project is another one than the lock was made with."""
    changed = [line for lines in changed_files(workspace, recipe, lock).values() for line in lines]
    if changed:
        raise LockError(
            f"{workspace.shown(workspace.lock(recipe.name))}: patch files changed since the lock was made",
            details=tuple(changed), hint=f"rocm-images lock {recipe.name}",
        )  # fmt: skip


def changed_files(workspace: Workspace, recipe: Recipe, lock: Lock) -> dict[str, list[str]]:
    """Return, in words, by patch, which files of the project are others than the lock was made with."""
    held = {patch.name: patch.file for patch in lock.patch}
    found = {
        patch.name: _differences(patch.name, own_files(workspace, recipe, patch), held.get(patch.name, ()))
        for patch in recipe.patch
        if asked_of(recipe, patch) is not None and (patch.series is None or patch.series.source is None)
    }
    return {name: lines for name, lines in found.items() if lines}


def require_locked(recipe: Recipe, patch: Patch, files: Sequence[File], locked: Sequence[LockedPatchFile]) -> None:
    """Raise `LockError` unless these are the files of a patch that the lock was made with."""
    if changed := _differences(patch.name, files, locked):
        raise LockError(
            f"images/{recipe.name}/recipe.lock: patch.{patch.name}: its files are not the locked ones",
            details=tuple(changed), hint=f"rocm-images lock {recipe.name}",
        )  # fmt: skip


def _differences(name: str, files: Sequence[File], locked: Sequence[LockedPatchFile]) -> list[str]:
    now, then = {file.name: file.sha256 for file in files}, {file.file: file.sha256 for file in locked}
    found = [
        f"patch {name}: {file}: locked {then.get(file, 'no such file')}, found {now.get(file, 'no such file')}"
        for file in sorted(now.keys() | then.keys())
        if now.get(file) != then.get(file)
    ]
    if not found and list(now) != list(then):
        found.append(f"patch {name}: its files are applied in another order than they were locked")
    return found


def _read(tree: Path, name: str, *, where: str) -> bytes:
    path = tree / name
    if path.is_symlink() or not path.is_file() or not path.resolve().is_relative_to(tree.resolve()):
        raise RecipeError(f"{where}: there is no plain file {name!r}")
    return path.read_bytes()
