"""What a committed record is worth: which images it covers, and when it is removed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builder.project import Prepared, prepare
from builder.record import dump, pin
from builder.records import covers, withdraw
from builder.workspace import Workspace, write_atomic

from .conftest import Add

DIGEST = f"sha256:{'d' * 64}"


class Told:
    """A story that remembers what it warned of."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def prepared(workspace: Workspace, add: Add) -> Prepared:
    add("one")
    return prepare(workspace, "one")


def committed(workspace: Workspace, of: Prepared, **changed: Any) -> None:
    table = pin(
        of.recipe, of.lock, reference=f"registry.example.org/llm/one:{of.tag}@{DIGEST}", digest=DIGEST,
        content_key=of.content_key, test_key=of.test_key, lock_hash=of.lock_hash, fingerprint=of.fingerprint,
        inputs=of.fingerprint_inputs, layers=(), patches=[],
        smoke={"tiers": {"cpu": "passed", "gpu": "not run"}, "tests": {}},
    )  # fmt: skip
    write_atomic(workspace.pin("one"), dump({**table, **changed}))


def test_a_record_covers_its_digest_on_the_tiers_that_it_passed(workspace: Workspace, prepared: Prepared) -> None:
    assert not covers(workspace, prepared, DIGEST, (), published=True)
    committed(workspace, prepared)
    assert covers(workspace, prepared, DIGEST, (), published=True)
    assert covers(workspace, prepared, DIGEST, ("cpu",), published=True)
    assert not covers(workspace, prepared, DIGEST, ("gpu",), published=True)
    assert not covers(workspace, prepared, DIGEST, ("gpu",), published=False)
    assert not covers(workspace, prepared, f"sha256:{'e' * 64}", (), published=True)


@pytest.mark.parametrize(
    "changed",
    [
        {"content-key": "0" * 64},
        {"smoke": {"tiers": {"cpu": "failed"}, "tests": {}}},
        {"schema": 1},
        {"layers": None, "components": None},
    ],
)
def test_a_record_of_something_else_covers_nothing(
    changed: dict[str, Any], workspace: Workspace, prepared: Prepared
) -> None:
    committed(workspace, prepared, **changed)
    assert not covers(workspace, prepared, DIGEST, (), published=True)


def test_an_image_that_is_not_published_needs_no_record(workspace: Workspace, prepared: Prepared) -> None:
    assert covers(workspace, prepared, DIGEST, (), published=False)


@pytest.mark.parametrize(
    ("tiers", "changed", "stays"),
    [
        ({"cpu": "failed", "gpu": "not run"}, {}, False),
        ({"cpu": "passed", "gpu": "failed"}, {}, False),
        ({"cpu": "passed", "gpu": "not run"}, {}, True),  # a tier that was asked for and did not run is no failure
        ({"cpu": "failed", "gpu": "not run"}, {"content-key": "0" * 64}, True),
        (None, {}, True),
    ],
)
def test_a_record_is_removed_when_a_test_failed_on_the_image_that_it_is_of(
    tiers: dict[str, str] | None,
    changed: dict[str, Any],
    stays: bool,
    workspace: Workspace,
    prepared: Prepared,
) -> None:
    committed(workspace, prepared, **changed)
    if tiers is not None:
        write_atomic(workspace.dist / "one/smoke.json", json.dumps({"tiers": tiers}))
    story: Any = Told()
    withdraw(workspace, prepared, story)
    assert workspace.pin("one").exists() is stays
    told = "pins/one.json: removed, its image does not pass its smoke tests any more"
    assert story.warnings == ([] if stays else [told])
