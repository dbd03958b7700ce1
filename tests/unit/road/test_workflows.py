"""Workflows: valid, clean for zizmor, and every action pinned to a commit with its tag beside it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from builder import process

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.y*ml"))


def test_there_is_a_workflow_that_runs_the_check_as_a_person_does() -> None:
    assert any("./check\n" in path.read_text(encoding="utf-8") for path in WORKFLOWS)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_and_names_its_tag(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        if re.search(r"\buses:", line):
            assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v[0-9]+(\.[0-9]+)*$", line), line


def test_workflows_are_what_their_schema_says() -> None:
    done = process.run([BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS])
    assert done.status == 0, done.stdout


def test_zizmor_has_nothing_to_say() -> None:
    done = process.run([BIN / "zizmor", "--offline", "--no-progress", "--quiet", *WORKFLOWS])
    assert done.status == 0, done.stdout
