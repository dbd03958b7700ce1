"""What the records of a project are worth: whether one covers an image, and when one is true no more.

Reads and removes files of `pins/`; what is in a record is `record`'s, and whoever builds writes it.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from builder import record
from builder.project import Prepared, recorded
from builder.story import Story
from builder.workspace import Workspace


def covers(
    workspace: Workspace, prepared: Prepared, digest: str, tiers: Collection[str], *, published: bool
) -> bool:
    """Tell whether an image need not be tested again: by its record, where it is published or tiers are asked."""
    if not published and not tiers:
        return True
    table = recorded(workspace, prepared.recipe.name)
    if table is None or table["digest"] != digest or table["content-key"] != prepared.content_key:
        return False
    return record.passed(table, ("cpu", *tiers))


def withdraw(workspace: Workspace, prepared: Prepared, story: Story) -> None:
    """Remove the record of an image that a test failed on now; one of other content stays."""
    table = recorded(workspace, prepared.recipe.name)
    report = workspace.dist / prepared.recipe.name / "smoke.json"
    failed = "failed" in json.loads(report.read_text())["tiers"].values() if report.exists() else False
    if failed and table is not None and table["content-key"] == prepared.content_key:
        path = workspace.pin(prepared.recipe.name)
        path.unlink()
        story.warn(f"{workspace.shown(path)}: removed, its image does not pass its smoke tests any more")
