"""docs/failure-catalog.md says of every recorded failure what catches it, and agrees with the tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location("catalog", Path(__file__).with_name("catalog.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
catalog = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(catalog)
TEXT = catalog.PAGE.read_text(encoding="utf-8")
ROWS = catalog.rows(TEXT)


def test_the_page_lists_the_tests_that_there_are() -> None:
    """Where this fails: python tests/unit/docs/catalog.py."""
    assert catalog.renewed(TEXT) == TEXT


def test_every_failure_is_listed_once_and_in_order() -> None:
    listed = [line.split()[1].rstrip("*") for line in TEXT.splitlines() if line.startswith("| F")]
    assert listed == sorted(set(listed))
    assert len(listed) == len(ROWS) == 82


def test_every_test_of_a_failure_has_a_row() -> None:
    assert set(catalog.by_failure()) <= set(ROWS)


def test_what_must_be_caught_has_a_test_of_its_own() -> None:
    must = [identity for identity, (is_must, *_) in ROWS.items() if is_must]
    assert len(must) == 24
    assert [identity for identity in must if ROWS[identity][3] == "none"] == []


def test_at_least_forty_failures_have_a_test_of_their_own() -> None:
    assert len(catalog.by_failure()) >= 40


def test_what_has_no_test_says_where_it_is_caught_or_why_it_is_not() -> None:
    for identity, (_, what, where, tests) in ROWS.items():
        assert what, identity
        assert where, identity
        if tests == "none":
            assert where.startswith(("a GPU: ", "out of reach: ", "by design: ")), identity
