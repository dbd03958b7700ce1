"""The recipes for production end to end on stand-ins under the real names; then one decoy at a time is let in."""

from __future__ import annotations

import json

import pytest

from ..project import Ended, Project

pytestmark = [pytest.mark.engine, pytest.mark.network]


def test_a_recipe_is_locked_built_tested_published_and_pinned(built: tuple[str, Project, Ended]) -> None:
    image, project, ended = built
    print(ended.stderr)
    record = json.loads(project.workspace.pin(image).read_text())
    assert record["reference"] == ended.result
    assert {component["name"]: component["version"] for component in record["components"]}[
        "torch"
    ] == "2.11.0+rocm7.2"
