"""From edits and overlays of installed trees to the `spec.json` that the step `edit-tree` reads. Values only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from builder.errors import PatchError
from builder.inside.editing import Edit, Overlay, Plan

STEP_FILES = ("edit_tree.py", "editing.py", "distributions.py", "bytecode.py")
REFUSED = PatchError.exit_code  # status of the step where a patch does not apply
_SCHEMA = 1


def spec(patches: Sequence[Edit | Overlay]) -> bytes:
    """Return `spec.json`, the same for the same patches. The files of overlays lie where `shipped` says."""
    table = {"schema": _SCHEMA, "patches": [_entry(patch) for patch in patches]}
    return (json.dumps(table, indent=2, sort_keys=True) + "\n").encode()


def shipped(patches: Sequence[Edit | Overlay]) -> Mapping[str, bytes]:
    """Return the files that lie beside `spec.json`."""
    return {f"overlays/{patch.name}": patch.content for patch in patches if isinstance(patch, Overlay)}


def require(plan: Plan, *, where: str) -> None:
    """Raise `PatchError` with every patch of a plan that is refused. `where` starts the message."""
    refused = sum(outcome.refused for _, outcome in plan.outcomes)
    if refused:
        verb = "does" if refused == 1 else "do"
        raise PatchError(
            f"{where}: {refused} of {len(plan.outcomes)} edits {verb} not apply", details=tuple(plan.told())
        )


def _entry(patch: Edit | Overlay) -> dict[str, object]:
    match patch:
        case Edit(name=name, file=file, find=find, replace=replace, count=count):
            return {"name": name, "edit": {"file": file, "find": find, "replace": replace, "count": count}}
        case Overlay(name=name, file=file, content=content, replaces=replaces):
            beside = {"from": f"overlays/{name}", "sha256": hashlib.sha256(content).hexdigest()}
            return {"name": name, "overlay": {"file": file, "replaces": replaces, **beside}}
