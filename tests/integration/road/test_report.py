"""The report of a real build: its stages, its layers, its tests, and what it is pinned by."""

from __future__ import annotations

import html
import json
import re

import pytest

from ..project import Project

pytestmark = pytest.mark.engine


def test_the_report_of_a_build_that_was_published_has_all_of_it(locked: Project) -> None:
    text = (locked.workspace.dist / "tiny/report.html").read_text(encoding="utf-8")
    record = json.loads(locked.workspace.pin("tiny").read_text())
    assert html.escape(record["reference"]) in text
    assert "built, tested and published" in text
    drawn = re.findall(r'class="box (\w+)"', text)
    assert drawn.count("given") == 2  # the bases
    assert not {"failed", "stopped"} & set(drawn)
    assert set(drawn) & {"done", "cached"}
    areas = len(re.findall(r'class="area c\d"', text))
    assert areas == sum(layer["size"] > 0 for layer in record["layers"])
    assert text.count('class="state passed"') >= sum(
        what == "passed" for what in record["smoke"]["tests"].values()
    )
    assert "smoke tests of tiny, cpu tier" in text
    assert "There is no record of an earlier build" in text
