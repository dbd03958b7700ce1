"""docs/faults.md is about the points that there are: every one has its row, and no row is of another."""

from __future__ import annotations

import re

from ...faults.faults import FAULTS, REMEDIES, STAGES
from ...faults.page import PAGE, row_begins
from ...faults.table import POINTS


def test_the_page_has_a_row_for_every_point_and_no_other() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert [row_begins(point) for point in POINTS] == [
        row[: len(row_begins(point))] for row, point in zip(rows, POINTS, strict=True)
    ]
    counted = re.search(r"^## The ([0-9]+) points$", text, re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) == len(POINTS) == len({point.id for point in POINTS}) >= 60


def test_every_word_of_the_table_means_something() -> None:
    assert {point.fault for point in POINTS} == FAULTS.keys()
    assert {point.remedy for point in POINTS} - {""} <= REMEDIES.keys()
    assert all(point.moment in STAGES for point in POINTS if FAULTS[point.fault].during)
