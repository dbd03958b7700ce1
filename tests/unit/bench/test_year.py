"""The year of `bench.year`: what happens in it, what it comes to, and what is shown of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.year import calendar, simulate, year_chart, year_section

HOUR = 3600


def scenario(reference: tuple[float, int], program: tuple[float, int]) -> dict[str, Any]:
    return {
        way: {"seconds": [seconds * 0.9, seconds, seconds * 1.3], "uploaded": size, "pulled": size // 2}
        for way, (seconds, size) in (("reference", reference), ("program", program))
    }


@pytest.fixture
def results() -> dict[str, Any]:
    """Return results with round figures: seconds and bytes."""
    return {
        "scenarios": {
            "cold": scenario((HOUR, 1000), (HOUR, 900)),
            "comment": scenario((10, 0), (1, 0)),
            "patch": scenario((1000, 600), (100, 20)),
            "base": scenario((2000, 1000), (500, 200)),
            "engine": scenario((1500, 700), (300, 40)),
        }
    }


def test_a_year_has_what_is_said_of_it_evenly_spread() -> None:
    days = calendar()
    assert sum(days, Counter()) == {"fork": 224, "fork without input": 322, "base": 12, "engine": 26}
    assert max(day["fork"] + day["fork without input"] for day in days) == 3
    assert len(days) == 365
    halves = [sum(day["fork without input"] for day in half) for half in (days[:182], days[182:])]
    assert abs(halves[0] - halves[1]) <= 2


def test_the_reference_builds_at_every_commit_and_the_program_when_something_built_changed(
    results: dict[str, Any],
) -> None:
    one = simulate(results)["images"]["1"]
    assert one["reference"] == {
        "builds": 584,
        "hours": round((546 * 1000 + 12 * 2000 + 26 * 1500) / HOUR, 3),
        "pushed": 546 * 600 + 12 * 1000 + 26 * 700,
        "pulled-per-node": (546 * 600 + 12 * 1000 + 26 * 700) // 2,
        "registry": 1000 + 546 * 600 + 12 * 1000 + 26 * 700,
        "share": round((546 * 1000 + 12 * 2000 + 26 * 1500) / (8760 * HOUR), 6),
        "behind": 0.0,
        "carries": 51,
        "fresh-share": round(584 / 8760, 6),
        "fresh-behind": 0.0,
        "fresh-carries": 15,
    }
    program = one["program"]
    assert program["builds"] == 262
    assert program["hours"] == round((322 * 1 + 224 * 100 + 12 * 500 + 26 * 300) / HOUR, 3)
    assert program["pushed"] == 224 * 20 + 12 * 200 + 26 * 40
    assert program["registry"] == 900 + program["pushed"]
    assert program["fresh-share"] == round((262 * HOUR + 322) / (8760 * HOUR), 6)


def test_more_images_make_more_work_and_a_node_pulls_the_same(results: dict[str, Any]) -> None:
    images = simulate(results)["images"]
    for way in ("reference", "program"):
        one, many = images["1"][way], images["200"][way]
        assert many["pushed"] == 200 * one["pushed"]
        assert many["builds"] == 200 * one["builds"]
        assert many["pulled-per-node"] == one["pulled-per-node"]
        assert many["share"] == pytest.approx(200 * one["share"], rel=1e-2)


def test_a_runner_that_cannot_keep_up_falls_behind_to_the_end(results: dict[str, Any]) -> None:
    reference = simulate(results)["images"]["200"]["reference"]
    assert reference["fresh-share"] > 1
    assert reference["fresh-behind"] == pytest.approx((reference["fresh-share"] - 1) * 365, rel=0.01)


def test_a_runner_with_room_catches_up_after_a_day_with_more_than_it_can(results: dict[str, Any]) -> None:
    twenty = simulate(results)["images"]["20"]["reference"]
    assert twenty["fresh-share"] == pytest.approx(20 * 584 / 8760, rel=1e-4)
    results["scenarios"]["cold"] = scenario((HOUR / 2, 1000), (HOUR / 2, 900))
    twenty = simulate(results)["images"]["20"]["reference"]
    assert twenty["fresh-share"] < 1
    assert 0 < twenty["fresh-behind"] < 3


def test_the_section_has_ratios_and_no_seconds_of_the_machine(results: dict[str, Any]) -> None:
    section = year_section(results)
    assert "| builds | 584 | 262 | 2.2 times |" in section
    assert "| builder hours | 1 | 0.06 | 16.7 times |" in section
    assert "546 bumps of its fork, up to 3 a day; 322 of them, 13 of 22," in section
    assert "carries 51 images" in section
    assert not re.search(r"\d ?(s|seconds|hours)\b", section)
    assert max(map(len, section.splitlines())) <= 120


def test_a_program_that_pushes_nothing_has_no_ratio(results: dict[str, Any]) -> None:
    for measured in results["scenarios"].values():
        measured["program"] |= {"uploaded": 0, "pulled": 0}
    assert "| bytes pushed | 1 | 0 | all |" in year_section(results)
    ElementTree.fromstring(year_chart(results))


def test_the_same_results_give_the_same_texts(results: dict[str, Any]) -> None:
    again = json.loads(json.dumps(results))
    assert year_section(results) == year_section(again)
    assert year_chart(results) == year_chart(again)


def test_the_chart_names_axes_and_ways_and_is_made_for_light_and_dark(results: dict[str, Any]) -> None:
    chart = year_chart(results)
    texts = [element.text for element in ElementTree.fromstring(chart).iter("{http://www.w3.org/2000/svg}text")]
    for text in ("reference", "this program", "day of the year", "of the reference's year", "of its time, log"):
        assert text in texts
    assert "0.06 (16.7 times less)" in texts
    assert "133%" in texts
    assert "prefers-color-scheme: dark" in chart
