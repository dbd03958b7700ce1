"""Renovate's own validator accepts the preset and the configuration of this repository, at its strictest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..project import REPOSITORY
from .tool import Tool

pytestmark = pytest.mark.network


def test_the_preset_and_this_repositorys_configuration_are_valid(renovate: Tool) -> None:
    done = renovate.validate(REPOSITORY / "default.json", REPOSITORY / ".github/renovate.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Config validated successfully" in done.stdout + done.stderr


def test_a_rule_that_is_wrong_is_not_valid(renovate: Tool, tmp_path: Path) -> None:
    preset = json.loads((REPOSITORY / "default.json").read_text(encoding="utf-8"))
    preset["packageRules"][0]["groupname"] = "misspelt"
    (tmp_path / "default.json").write_text(json.dumps(preset), encoding="utf-8")
    assert renovate.validate(tmp_path / "default.json").returncode == 1
