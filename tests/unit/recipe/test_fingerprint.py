"""What moves the fingerprint and what does not: the table of docs/fingerprint.md, row by row, on a project."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.lockfile import canonical

from . import kinds_of_patches, kinds_of_pins, samples
from .kinds import KINDS, KV_CACHE, Kind
from .kinds_of_fingerprints import BENEATH, COUNTED, MOVING, ROWS, STAYING, Moving
from .on_disk import on_disk
from .pages import columns

MOVES, STAYS = "moves the fingerprint", "does not"
ALL = [*MOVING, *STAYING]
NEEDED = (kinds_of_pins, kinds_of_patches)  # imported for the kinds that they add


def rows() -> dict[str, list[str]]:
    """Return the cells of the table, by column."""
    return columns("fingerprint.md", MOVES, STAYS)


def test_every_row_of_the_table_is_tried_and_nothing_that_is_no_row() -> None:
    assert {each.row for each in MOVING} | {BENEATH} == set(rows()[MOVES])
    assert {each.row for each in STAYING} | set(ROWS.values()) == set(rows()[STAYS])
    assert {kind.row for kind in KINDS} - {KV_CACHE} == set(ROWS)
    assert {kind.name for kind in KINDS} >= COUNTED.keys()


@pytest.mark.parametrize("item", ALL, ids=[f"{number}-{item.name}" for number, item in enumerate(ALL)])
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=st.from_regex(r"z[a-y]{3,8}", fullmatch=True))
def test_an_input_moves_the_fingerprint_exactly_when_the_table_says_so(
    item: Moving, word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = on_disk(tmp_path_factory.mktemp("project"), item.text)
    before = state.prepared()
    item.change(state, word)
    after = state.prepared()
    assert (after.fingerprint != before.fingerprint) == (item.row in rows()[MOVES])
    assert (after.fingerprint_inputs != before.fingerprint_inputs) == (after.fingerprint != before.fingerprint)


@pytest.mark.parametrize("item", KINDS, ids=[f"{number}-{item.name}" for number, item in enumerate(KINDS)])
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=st.from_regex(r"z[a-y]{3,8}", fullmatch=True))
def test_of_all_inputs_of_an_image_those_that_are_counted_move_its_fingerprint(
    item: Kind, word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = on_disk(tmp_path_factory.mktemp("project"), item.text)
    before = state.prepared().fingerprint
    item.change(state, word)
    counted = item.name in COUNTED and COUNTED[item.name] in (None, getattr(item.change, "__defaults__", None))
    moves = item.row == KV_CACHE or counted
    assert (state.prepared().fingerprint != before) == moves


@given(
    changes=st.lists(st.sampled_from([each for each in STAYING if each.text == samples.FULL]), unique=True),
    moving=st.sampled_from([each for each in MOVING if each.text == samples.FULL]),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_leaves_it_hides_nothing_that_moves_it(
    changes: list[Moving], moving: Moving, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = on_disk(tmp_path_factory.mktemp("project"))
    before = state.prepared().fingerprint
    for number, each in enumerate(changes):
        each.change(state, f"z{'abcdefgh'[number % 8] * 4}")
    assert state.prepared().fingerprint == before
    moving.change(state, "zword")
    assert state.prepared().fingerprint != before


def test_everybody_can_compute_it_from_the_inputs(tmp_path: Path) -> None:
    prepared = on_disk(tmp_path).prepared()
    assert re.fullmatch(r"[0-9a-f]{16}", prepared.fingerprint)
    assert hashlib.sha256(canonical(prepared.fingerprint_inputs)).hexdigest().startswith(prepared.fingerprint)
    assert set(prepared.fingerprint_inputs) == {"component.torch", "component.triton", "component.sglang"}


def test_a_key_of_the_engine_and_one_of_the_settings_with_one_name_are_two(tmp_path: Path) -> None:
    """What is declared cannot take the place of a component."""
    state = on_disk(tmp_path)
    state.recipe["kv-cache"] = {"page-size": 64}
    inputs = state.prepared().fingerprint_inputs
    assert inputs["kv-cache.page-size"] == {"value": 64}
