"""The preset for other repositories, and the same again for this one, which cannot name itself in `extends`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from builder.ci.commits import EMAIL

ROOT = Path(__file__).resolve().parents[3]
OWN_ALONE = {"extends", "enabledManagers"}


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / path).read_text(encoding="utf-8"))
    return found


def test_this_repository_has_what_its_preset_has() -> None:
    preset, own = read("default.json"), read(".github/renovate.json")
    assert {key: own[key] for key in own if key not in OWN_ALONE | {"description"}} == {
        key: preset[key] for key in preset if key != "description"
    }
    assert set(own) - set(preset) == OWN_ALONE


def test_every_part_of_the_preset_says_what_it_is_for() -> None:
    preset = read("default.json")
    parts = [*preset["packageRules"], *preset["customManagers"], *preset["customDatasources"].values()]
    assert all(part.get("description") for part in [preset, *parts])


def test_no_rule_of_the_preset_reaches_what_is_not_of_recipes_or_deployed_images() -> None:
    for rule in read("default.json")["packageRules"]:
        of_recipes = rule["matchManagers"] == ["custom.jsonata"]
        deployed = rule.get("matchDepNames") == ["{{arg0}}/**"] and rule["matchManagers"] == ["!custom.jsonata"]
        assert of_recipes or deployed, rule["description"]


def test_renovate_goes_on_with_a_branch_that_the_program_has_committed_to() -> None:
    assert read("default.json")["gitIgnoredAuthors"] == [EMAIL]
