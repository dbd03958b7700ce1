"""docs/recipe.md names every key of the model, in the section of its table, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.buildtable import Build
from builder.debiantable import AddedSuite
from builder.openpins import OpenPin
from builder.patchtables import Edit, Hook, Overlay, Patch, Probe, Series
from builder.publishtable import Publish
from builder.recipe import Base, Component, DebianBase, Image, Override, Recipe, Smoke, Source, Table
from builder.smoketables import Accept, SmokeEnv

PAGE = Path(__file__).resolve().parents[3] / "docs" / "recipe.md"
TABLES_OF_THEIR_OWN = {
    "base", "source", "component", "patch", "override", "open", "build", "publish", "kv-cache", "image", "smoke"
}  # fmt: skip
TABLES_OF_SMOKE = {"env": SmokeEnv, "accept": Accept}
KINDS_OF_PATCHES = {"series": Series, "edit": Edit, "overlay": Overlay, "hook": Hook, "probe": Probe}


def sections() -> dict[str, list[str]]:
    """Return, by heading, the keys that the first column of the section's table names."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            found[heading] = []
        elif line.startswith("| `"):
            found[heading] += re.findall(r"`([^`]+)`", line.split("|")[1])
    return found


def keys(model: type[Table]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Top level", [key for key in keys(Recipe) if key not in TABLES_OF_THEIR_OWN]),
        (
            "`[base.build]` and `[base.runtime]`",
            keys(Base)
            + [f"debian.{key}" for key in keys(DebianBase)]
            + [f"debian.also.{key}" for key in keys(AddedSuite)],
        ),
        ("`[source.NAME]`", keys(Source)),
        ("`[[component]]`", keys(Component)),
        (
            "`[[patch]]`",
            keys(Patch) + [f"{table}.{key}" for table, model in KINDS_OF_PATCHES.items() for key in keys(model)],
        ),
        ("`[[override]]`", keys(Override)),
        ("`[[open]]`", keys(OpenPin)),
        ("`[build]`", keys(Build)),
        ("`[publish]`", keys(Publish)),
        ("`[image]`", keys(Image)),
        (
            "`[smoke]`",
            keys(Smoke) + [f"{table}.{key}" for table, model in TABLES_OF_SMOKE.items() for key in keys(model)],
        ),
    ],
)
def test_a_section_names_exactly_the_keys_of_its_table(heading: str, expected: list[str]) -> None:
    assert sorted(sections()[heading]) == sorted(expected)


def test_every_table_has_a_section() -> None:
    assert set(keys(Recipe)) >= TABLES_OF_THEIR_OWN
    headings = " ".join(sections())
    assert all(f"[{table}" in headings for table in TABLES_OF_THEIR_OWN)
