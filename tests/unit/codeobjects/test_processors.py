"""Target IDs: where code runs, by LLVM's rules for features and generic processors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.codeobjects.processors import GENERIC, MACH, SPIRV, helps, lacking, modes, order
from builder.smoke.inside import code_object
from builder.target import GfxTarget

TARGETS = sorted(MACH.values())


@pytest.mark.parametrize(
    ("wanted", "present", "left"),
    [
        ("gfx1201", ["gfx1201"], ()),
        ("gfx1201", ["gfx1200", "gfx1100"], ("gfx1201",)),
        ("gfx1201", [], ("gfx1201",)),
        ("gfx1201", ["gfx12-generic"], ()),
        ("gfx1100", ["gfx12-generic"], ("gfx1100",)),
        ("gfx1151", ["gfx11-generic"], ()),
        ("gfx908", ["gfx9-generic"], ("gfx908",)),
        ("gfx942", ["gfx9-generic"], ("gfx942",)),
        ("gfx950", ["gfx9-4-generic"], ()),
        # Code for "any" runs with either setting, code for one setting with that one alone.
        ("gfx90a", ["gfx90a:xnack+", "gfx90a:xnack-"], ()),
        ("gfx90a", ["gfx90a:xnack-"], ("gfx90a:xnack+",)),
        ("gfx90a:xnack+", ["gfx90a"], ()),
        ("gfx90a:xnack+", ["gfx90a:xnack-"], ("gfx90a:xnack+",)),
        ("gfx942:xnack-", ["gfx942:sramecc+:xnack-"], ("gfx942:sramecc-:xnack-",)),
        ("gfx942", ["gfx942:sramecc+"], ("gfx942:sramecc-",)),
        ("gfx90a", ["gfx90a:sramecc+", "gfx90a:xnack-"], ("gfx90a:sramecc-:xnack+",)),
        ("gfx942:xnack+", ["gfx9-4-generic:xnack+"], ()),
        # A generic processor is there when it is, or when each of its family is.
        ("gfx12-generic", ["gfx1200", "gfx1201"], ()),
        ("gfx12-generic", ["gfx1201"], ("gfx1200",)),
        # SPIR-V is compiled for whatever GPU there is.
        ("gfx1201", [SPIRV], ()),
        # A feature that a processor does not have tells nothing.
        ("gfx1201", ["gfx1201:xnack-"], ()),
        # A processor that is newer than this table is compared by name.
        ("gfx1450", ["gfx1450"], ()),
        ("gfx1450", ["gfx1451"], ("gfx1450",)),
    ],
)
def test_what_code_covers_of_a_wanted_target(wanted: str, present: list[str], left: tuple[str, ...]) -> None:
    assert lacking(wanted, present) == left


@given(st.sampled_from(TARGETS), st.lists(st.sampled_from(TARGETS), max_size=6))
def test_what_is_lacking_covers_the_wanted_target_when_it_is_added(wanted: str, present: list[str]) -> None:
    left = lacking(wanted, present)
    assert lacking(wanted, [*present, *left]) == ()
    assert all(modes(target) <= modes(wanted) for target in left)


@given(st.sampled_from(TARGETS), st.sampled_from(TARGETS))
def test_code_helps_where_it_covers_a_part_of_what_is_wanted(target: str, wanted: str) -> None:
    assert helps(target, [wanted]) == (lacking(wanted, [target]) != (wanted,))


def test_every_processor_is_a_target_id_and_every_family_is_of_known_ones() -> None:
    assert [GfxTarget(name).text for name in MACH.values()] == list(MACH.values())
    assert len(set(MACH.values())) == len(MACH)
    assert {member for family in GENERIC.values() for member in family} | set(GENERIC) <= set(MACH.values())


def test_the_table_that_runs_in_images_says_the_same() -> None:
    assert {number: MACH[number] for number in code_object._MACH} == code_object._MACH


def test_targets_are_listed_by_generation() -> None:
    named = ["gfx1201", "gfx90a", "gfx1100", "gfx11-generic", SPIRV, "gfx942:xnack-", "gfx9-generic"]
    assert sorted(named, key=order) == [
        "gfx90a", "gfx942:xnack-", "gfx9-generic", "gfx1100", "gfx11-generic", "gfx1201", SPIRV,
    ]  # fmt: skip
