"""The ledger of an image's patches: what is in it, what was proven of it, and for whom.

Inside the image stands what its bytes depend on; the record says as well why a patch is there and until when.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from builder.lockfile import Lock, canonical
from builder.patchset import base_patches, change_of, hook_patches, installed_patches
from builder.patchtables import Patch
from builder.recipe import Recipe

FILE = "usr/share/rocm-images/patches.json"
SCHEMA = 1
_WORDS = ("reason", "upstream", "drop-when", "acknowledge-redundant")  # in the record alone
_LISTED = ("name", "target", "kind", "sha256", "state")  # of a patch, in the label


def ledger(recipe: Recipe, lock: Lock, *, below: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return the ledger as it goes into the image; `below` is that of the image that this one is built on.

    The state of what is changed in the build, and the values of probes, are what the build has to find: it fails
    otherwise.
    """
    table: dict[str, object] = {
        "schema": SCHEMA, "image": recipe.name, "patches": [entry(recipe, lock, patch) for patch in recipe.patch],
    }  # fmt: skip
    return table | ({"base": below} if below is not None and has_patches(below) else {})


def has_patches(table: Mapping[str, object]) -> bool:
    """Whether a ledger has any patch, of its own or of a base."""
    return bool(table.get("patches")) or "base" in table


def entry(recipe: Recipe, lock: Lock, patch: Patch) -> dict[str, object]:
    """Return what the ledger in the image has of a patch, as a value for JSON."""
    locked = next((each for each in lock.patch if each.name == patch.name), None)
    files = [file.model_dump(exclude_none=True, mode="json") for file in locked.file] if locked is not None else []
    made: dict[str, object] = {
        "name": patch.name, "target": patch.target, "kind": patch.kind,
        "state": _state(patch, locked.state if locked is not None else None),
        "sha256": patch_hash(recipe, lock, patch), "files": files,
    }  # fmt: skip
    if patch.edit is not None or patch.overlay is not None:
        made["file"] = patch.edit.file if patch.edit is not None else patch.overlay and patch.overlay.file
    if patch.hook is not None:
        made["hook"] = {"module": patch.hook.module, "attribute": patch.hook.attribute}
        made["optional"] = patch.hook.optional
    probe = patch.shown_by
    made["probe"] = probe.model_dump(by_alias=True, mode="json") if probe is not None else None
    return made


def patch_hash(recipe: Recipe, lock: Lock, patch: Patch) -> str:
    """Return the sha256 of what a patch does: its table in the recipe without words, and its files.

    A series is its files; where they come from, and what they were made for, changes nothing.
    """
    files = [[file.file, file.sha256] for each in lock.patch if each.name == patch.name for file in each.file]
    change = change_of(patch) if patch.series is None else {}
    return hashlib.sha256(canonical({"change": change, "files": files})).hexdigest()


def recorded(recipe: Recipe, entries: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return entries of a ledger as the record has them: with why each patch is there, and until when."""
    words = {
        patch.name: patch.model_dump(
            by_alias=True, include={"reason", "upstream", "drop_when", "acknowledge_redundant"}, exclude_none=True
        )
        for patch in recipe.patch
    }
    return [
        {key: value for key, value in each.items() if key not in _WORDS} | words.get(str(each.get("name")), {})
        for each in entries
    ]


def label(recipe: Recipe, lock: Lock) -> str:
    """Return the ledger as a label of the image, in short: no files, of a probe the two values."""
    listed = []
    for patch in recipe.patch:
        whole = entry(recipe, lock, patch)
        short = {key: whole[key] for key in _LISTED}
        if (probe := patch.shown_by) is not None:
            short |= {"before": probe.before, "after": probe.after}
        listed.append(short)
    return json.dumps(listed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def decided_in_the_build(recipe: Recipe) -> bool:
    """Whether the build has to look at patches: at probes, hooks, or what it changed in installed trees."""
    layered = any(installed_patches(recipe, component) for component in recipe.component)
    probed = any(patch.probe is not None for patch in recipe.patch)
    return probed or layered or bool(hook_patches(recipe)) or bool(base_patches(recipe))


def _state(patch: Patch, locked: str | None) -> str:
    if patch.hook is not None:
        return "optional" if patch.hook.optional else "effective"
    state = locked or "applies"
    return "effective" if patch.probe is not None and state == "applies" else state
