"""Every hostile input is refused in words, or does no harm; and the page of them says what becomes of each."""

from __future__ import annotations

import pytest

from .page import CASES, PAGE, page, row
from .rooms import Case, Outcome, outcome


@pytest.fixture(scope="session")
def outcomes() -> dict[str, Outcome]:
    """What the cases that ran came to, for the test of the page."""
    return {}


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_hostile_input_is_refused_or_harmless_and_the_page_says_how(
    case: Case, outcomes: dict[str, Outcome]
) -> None:
    found = outcomes[case.id] = outcome(case)
    assert found.refused is case.refused, found.words
    assert row(case, found) in PAGE.read_text()


def test_the_page_is_made_of_these_inputs_and_nothing_else(outcomes: dict[str, Outcome]) -> None:
    for case in CASES:
        if case.id not in outcomes:
            outcomes[case.id] = outcome(case)
    assert PAGE.read_text() == page(outcomes)


def test_there_are_as_many_inputs_as_ids_and_at_least_sixty() -> None:
    assert len({case.id for case in CASES}) == len(CASES) >= 60
