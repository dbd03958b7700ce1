"""Lays out what the stages about patches read: edits, overlays, hooks, and the ledger as a recipe promises it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from builder import edits, hooks
from builder.lockfile import Lock
from builder.patches.edits import written
from builder.patchfiles import own_files, require_locked
from builder.patchledger import decided_in_the_build
from builder.patchset import base_patches, hook_patches, installed_patches
from builder.patchtables import Patch
from builder.recipe import Recipe
from builder.workspace import Workspace, write_atomic


def lay_patches(
    recipe: Recipe, lock: Lock, folder: Path, ledger: Mapping[str, object], *, workspace: Workspace
) -> None:
    """Write into the context `folder` what patches of installed trees, hooks and probes need.

    Raises `LockError` for a file of the project that is not the locked one.
    """
    if not recipe.patch:
        return
    for component in recipe.component:
        if component.is_layer and (patches := installed_patches(recipe, component)):
            _lay_edits(recipe, lock, patches, folder / "edits" / component.name, workspace)
    if patches := base_patches(recipe):
        _lay_edits(recipe, lock, patches, folder / "base-edits", workspace)
    if hook_patches(recipe):
        _lay_hooks(recipe, lock, folder / "hooks", workspace)
    place = "patches" if decided_in_the_build(recipe) else "files"
    write_atomic(folder / place / "patches.json", json.dumps(ledger, indent=2, sort_keys=True) + "\n")


def without_patches(lock: Lock) -> Lock:
    """Return a lock whose sources are as they are upstream."""
    nothing = {"patched": None, "built": None}
    plain = {name: source.model_copy(update=nothing) for name, source in lock.source.items()}
    return lock.model_copy(update={"source": plain})


def _lay_edits(recipe: Recipe, lock: Lock, patches: Iterable[Patch], folder: Path, workspace: Workspace) -> None:
    changes = [written(patch, _overlay(recipe, lock, patch, workspace)) for patch in patches]
    for name, content in {"spec.json": edits.spec(changes), **edits.shipped(changes)}.items():
        write_atomic(folder / name, content)


def _overlay(recipe: Recipe, lock: Lock, patch: Patch, workspace: Workspace) -> bytes | None:
    """Return the file of an overlay, None for an edit."""
    files = _locked_files(recipe, lock, patch, workspace)
    return next(iter(files.values()), None)


def _lay_hooks(recipe: Recipe, lock: Lock, folder: Path, workspace: Workspace) -> None:
    made: list[hooks.Hook] = []
    contents: dict[str, bytes] = {}
    for patch in hook_patches(recipe):
        contents |= _locked_files(recipe, lock, patch, workspace)
        made.append(hook_of(patch))
    write_atomic(folder / "registry.json", hooks.registry(made))
    for place, name in hooks.shipped(made).items():
        write_atomic(folder / place, contents[name])


def hook_of(patch: Patch) -> hooks.Hook:
    """Return the hook of a patch. Raises `ValueError` for a patch that is none."""
    if patch.hook is None:
        raise ValueError(f"patch {patch.name} is no hook")
    keys = ("module", "attribute", "expect", "value", "expect_source", "call", "optional")
    values = {key: getattr(patch.hook, key) for key in keys}
    return hooks.Hook(name=patch.name, target=patch.target, **values)


def _locked_files(recipe: Recipe, lock: Lock, patch: Patch, workspace: Workspace) -> dict[str, bytes]:
    """Return the files of a patch beside the recipe, proven to be the locked ones."""
    files = own_files(workspace, recipe, patch)
    locked = next((each.file for each in lock.patch if each.name == patch.name), ())
    require_locked(recipe, patch, files, locked)
    return {file.name: file.data for file in files}
