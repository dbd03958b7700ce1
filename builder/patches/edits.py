"""Edits and overlays in the order of a series: each has its place between patch files, on the tree these leave.

What they come to is decided in `builder.inside.editing`, the same for a tree here and for an installed one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Protocol

from builder.inside import editing
from builder.inside.editing import Outcome
from builder.patches.apply import Conflict, Problem
from builder.patches.judge import Attempt
from builder.patches.tree import FILE, Entry, Tree, leads_outside, parents


class EditTable(Protocol):
    """An edit as a recipe has it."""

    @property
    def file(self) -> str: ...  # noqa: D102
    @property
    def find(self) -> str: ...  # noqa: D102
    @property
    def replace(self) -> str: ...  # noqa: D102
    @property
    def count(self) -> int: ...  # noqa: D102


class OverlayTable(Protocol):
    """An overlay as a recipe has it, without the file beside the recipe."""

    @property
    def file(self) -> str: ...  # noqa: D102
    @property
    def replaces(self) -> str | None: ...  # noqa: D102


class PatchTable(Protocol):
    """A patch as a recipe has it, one of the two or something else."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def edit(self) -> EditTable | None: ...  # noqa: D102
    @property
    def overlay(self) -> OverlayTable | None: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """An edit or an overlay where `judge` takes a patch."""

    patch: editing.Edit | editing.Overlay

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.patch.name

    @property
    def sha256(self) -> str:
        """The hash of what it consists of; of an overlay that of the file."""
        match self.patch:
            case editing.Overlay(content=content):
                return hashlib.sha256(content).hexdigest()
            case editing.Edit(file=file, find=find, replace=replace, count=count):
                return hashlib.sha256(json.dumps([file, find, replace, count]).encode()).hexdigest()

    @property
    def hunks(self) -> int:
        """How many places it changes."""
        return self.patch.count if isinstance(self.patch, editing.Edit) else 1

    def attempt(self, tree: Tree) -> Attempt:
        """Say what it comes to on a tree."""
        refused = _refusal(self.patch.file, tree)
        if refused is not None:
            return Attempt(state="conflicts", changes={}, conflicts=(refused,))
        file = self.patch.file
        entry = tree.read(file)
        outcome = editing.judge(self.patch, entry.data if entry is not None else None)
        if outcome.data is not None:
            after = Entry(mode=entry.mode if entry is not None else FILE, data=outcome.data)
            return Attempt(state="applies", changes={file: after})
        if outcome.state == "redundant":
            return Attempt(state="redundant", changes={}, evidence=(f"{file}: {outcome.reason}",))
        conflict = Conflict(
            problem=self._problem(outcome), file=file, reason=outcome.reason, expected=outcome.expected,
            actual=outcome.actual,
        )  # fmt: skip
        return Attempt(state=outcome.state, changes={}, conflicts=(conflict,))

    def _problem(self, outcome: Outcome) -> Problem:
        if outcome.state == "target-missing":
            return "missing"
        return "not-found" if isinstance(self.patch, editing.Edit) else "contents"


def change(patch: PatchTable, content: bytes | None) -> Change:
    """Return the edit or overlay of a recipe's table; `content` is the file beside the recipe, of an overlay."""
    return Change(patch=written(patch, content))


def written(patch: PatchTable, content: bytes | None) -> editing.Edit | editing.Overlay:
    """Return the edit or overlay of a table as `editing` takes it. Raises `ValueError` for one that is neither."""
    if patch.edit is not None:
        edit = patch.edit
        return editing.Edit(
            name=patch.name, file=edit.file, find=edit.find, replace=edit.replace, count=edit.count
        )  # fmt: skip
    if patch.overlay is None or content is None:
        raise ValueError(f"patch {patch.name} is neither an edit nor an overlay with its file")
    return editing.Overlay(
        name=patch.name, file=patch.overlay.file, content=content, replaces=patch.overlay.replaces
    )  # fmt: skip


def _refusal(file: str, tree: Tree) -> Conflict | None:
    """Return why a file of a tree must not be touched."""
    try:
        editing.checked_path(file)
    except editing.Refused as refused:
        return Conflict(problem="kind", file=file, reason=refused.message.removeprefix(f"{file}: "))
    for path in (*parents(file), file):
        entry = tree.read(path)
        if entry is not None and entry.is_link:
            target = entry.data.decode("utf-8", "backslashreplace")
            if leads_outside(path, target):
                reason = f"{path} is a link that leads out of the tree, to {target}"
            else:
                reason = f"{path} is a link to {target}; name the file it leads to"
            return Conflict(problem="link", file=file, reason=reason)
        if entry is not None and path != file:
            return Conflict(problem="kind", file=file, reason=f"{path} is a file, no folder")
    if tree.kind(file) == "folder":
        return Conflict(problem="kind", file=file, reason="this is a folder")
    return None
