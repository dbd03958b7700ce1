"""What `bench.builds` changes, counts and concludes; nothing is built here."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import chain, figures
from bench.figures import Interval
from bench.lanes import MeasureError, require_passed, steps_of
from bench.report import page, rows_of
from bench.rows import rows_chart
from bench.verdicts import overheads, ratio, verdicts
from builder.recipe import parse_recipe

ROOT = Path(__file__).parents[3]


def recipes() -> dict[str, str]:
    """Return the recipe after each change, one upon the other."""
    text = (ROOT / "images" / chain.IMAGE / "recipe.toml").read_text()
    return {name: (text := chain.recipe_text(text, name)) for name in chain.SCENARIOS}


def test_every_change_is_made_to_the_recipe_of_this_repository_and_ends_in_its_versions() -> None:
    texts = recipes()
    for name, text in texts.items():
        parse_recipe(text, file=name)
    last = texts["engine"]
    for words in (
        'wheel = "sglang"\nversion = "0.5.16"',
        'wheel = "triton"\nversion = "3.6.0"',
        '"procps"',
        "hash-cause",
    ):
        assert words in last
    assert texts["cold"] == texts["no-change"]


def test_a_recipe_that_the_changes_do_not_fit_is_refused() -> None:
    with pytest.raises(chain.StateError, match="expected 'x' once, found it 2 times"):
        chain.replaced("xx", "x", "y")


def test_the_dockerfile_gets_the_same_changes() -> None:
    text = (chain.REFERENCE / "Dockerfile").read_text()
    changed = chain.dockerfile_text(text, "component", {"triton": "9.9", "sglang": "8.8"})
    assert "ARG TRITON_VERSION=9.9\n" in changed
    assert "ARG SGLANG_VERSION=8.8\n" in changed
    assert chain.dockerfile_text(text, "base-runtime", {}).count("procps") == 1
    assert chain.dockerfile_text(text, "comment", {}).startswith(text)


def test_the_patch_is_one_line_of_one_file() -> None:
    text = chain.patch_text()
    lines = text.splitlines()
    assert [line[:3] for line in lines[:3]] == ["---", "+++", "@@ "]
    assert [line[0] for line in lines[3:]] == ["-", "+"]
    assert text.endswith("\n")


def test_only_what_a_scenario_stands_on_is_walked() -> None:
    assert figures.walked(chain.SCENARIOS, ["dependency"]) == ("cold", "component", "dependency")
    assert figures.walked(chain.SCENARIOS, ["comment"]) == ("cold", "comment")
    assert figures.walked(chain.SCENARIOS, []) == chain.SCENARIOS
    with pytest.raises(ValueError, match="there is no scenario 'colt'"):
        figures.walked(chain.SCENARIOS, ["colt"])


def test_runs_are_counted_by_the_least_of_them_and_bake_where_it_is_measured() -> None:
    results: dict[str, Any] = {}
    wanted = figures.expected(("cold", "patch"), figures.LANES)
    assert ("patch", "bake") not in wanted
    for scenario, lane in wanted:
        figures.add(results, scenario, lane, seconds=1.0, parts={"building": 0.5})
    figures.add(results, "cold", "program", seconds=2.0, parts={"building": 0.7}, uploaded=3, memory=None)
    assert figures.runs_of(results, wanted) == 1
    assert results["scenarios"]["cold"]["program"] == {
        "seconds": [1.0, 2.0],
        "parts": {"building": [0.5, 0.7]},
        "uploaded": 3,
    }


def test_layers_are_new_by_digest_and_named_by_their_owner() -> None:
    before = {"layers": [{"digest": "a", "size": 1}, {"digest": "b", "size": 2}]}
    now = {"layers": [{"digest": "a", "size": 1}, {"digest": "c", "size": 4}]}
    assert figures.layers(before, now, {"c": "triton"}) == {
        "layers": 2,
        "layers_reused": 1,
        "compressed": 5,
        "new": {"triton": 4},
    }
    assert figures.layers(None, now, {})["new"] == {"0": 1, "1": 4}


def test_time_beside_building_is_not_counted_twice() -> None:
    steps = [
        Interval(what="fetching what", start=0, end=10),
        Interval(what="fetch files", start=2, end=8),
        Interval(what="building", start=9, end=20),
        Interval(what="smoke tests", start=18, end=30),
    ]
    assert figures.alone(steps, "building") == 9 + 10
    assert figures.sums(steps)["building"] == 11


def test_what_the_program_tells_becomes_parts_without_names_and_numbers() -> None:
    digest = "sha256:e1ae0cc1a8ab"
    told = [
        (0.0, "==> fetch 406 files, 431 MB"),
        (1.0, "    3 of 406 files"),
        (4.0, "    done after 4.0 s: fetch 406 files, 431 MB"),
        (5.0, f"==> pushing {digest} to 127.0.0.1:5000/x"),
        (7.5, f"    done after 2.5 s: pushing {digest} to 127.0.0.1:5000/x"),
        (8.0, "==> building sglang-debian 0.5.16-3bfc5fd86d8c"),
        (9.0, "    stopped after 1.0 s: building sglang-debian 0.5.16-3bfc5fd86d8c"),
    ]
    assert steps_of(told) == [
        Interval(what="fetch files", start=0.0, end=4.0),
        Interval(what="pushing", start=5.0, end=7.5),
    ]


def test_a_reference_that_fails_a_smoke_test_is_not_measured() -> None:
    asked = {"name": "test_python_set::test_declared_requirements_are_met", "outcome": "failed"}
    require_passed({"tests": [asked, {"name": "test_jit::test_x", "outcome": "passed"}]}, patched=False)
    with pytest.raises(MeasureError, match="the reference did not pass test_jit::test_x"):
        require_passed({"tests": [asked, {"name": "test_jit::test_x", "outcome": "failed"}]}, patched=True)


def test_files_that_are_not_as_recorded_are_expected_of_a_patched_reference_alone() -> None:
    files = {
        "name": "test_python_set::test_the_files_are_those_of_the_locked_wheels", "outcome": "failed",
    }  # fmt: skip
    require_passed({"tests": [files]}, patched=True)
    with pytest.raises(MeasureError, match="the reference did not pass test_python_set::test_the_files"):
        require_passed({"tests": [files]}, patched=False)


def scenario(reference: float, program: float, **more: Any) -> dict[str, Any]:
    """Return a scenario of two runs, with round figures."""
    same: dict[str, Any] = {"layers": 9, "layers_reused": 8, "compressed": 1000, "disk": 3000, "uploaded": 500}
    return {
        "reference": {
            "seconds": [reference, reference * 1.2],
            "pulled": 500,
            "parts": {"test": [reference / 5, reference / 5]},
            **same,
        },
        "program": {
            "seconds": [program, program * 1.1],
            "pulled": 40,
            "new": {"triton": 40},
            "rebuilt": [],
            "parts": {"smoke tests": [program / 2, program / 2]},
            **same,
            **more,
        },
    }


@pytest.fixture
def results() -> dict[str, Any]:
    """Return what was measured of a few scenarios."""
    cold = scenario(200, 190, around=[100.0, 102.0])
    return {
        "machine": {"cores": 2, "memory": 2**34},
        "scenarios": {
            "cold": cold | {"bake": {"seconds": [100.0, 100.0]}},
            "no-change": scenario(30, 1, pulled=0, uploaded=0, disk=0),
            "comment": scenario(30, 1),
            "component": scenario(100, 40),
            "dependency": scenario(100, 40, pulled=100, new={"dependencies.7": 90}),
            "base-runtime": scenario(200, 100, new={"packages": 6}),
            "base": scenario(200, 100, new={"base": 5, "packages": 6, "triton": 7}, rebuilt=["triton"]),
        },
    }


def test_targets_are_met_or_missed_by_what_was_measured(results: dict[str, Any]) -> None:
    found = {each.what: each for each in verdicts(results)}
    assert found["no change: times faster"].met
    assert found["no change: share of the time allowed"].value == pytest.approx(0.525)
    component = found["one component: times faster"]
    assert not component.met
    assert component.missed_by == pytest.approx(5 * 42 / 110)
    assert found["one component: bytes pulled in ratio to the new layer"].value == 1
    assert component.held == "the tests, which both take, are 48% of its time; without them 4.09 times"
    small = found["one dependency: times fewer bytes pulled"]
    assert (small.value, small.met) == (500 / 100, False)
    assert small.held == "the new layer alone is 18% of what the reference has pulled"
    assert found["runtime base: components that were built again"].met
    assert found["both bases: components that were built again"].value == 1
    sent = found["both bases: component layers that were sent again"]
    assert (sent.value, sent.held) == (1, "other bytes of the other build base: triton")
    assert found["cold: share of the overhead allowed over bake"].value == pytest.approx(0.2)
    assert overheads(results) == {"cold": (1.0, 0.01)}


def test_a_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    found = ratio([10, 20, 30], [1, 4, 3])
    assert (found.value, found.low, found.high) == (20 / 3, 5, 10)


def test_the_page_tells_ratios_and_nothing_that_was_not_measured(results: dict[str, Any]) -> None:
    text = page(results)
    assert "| nothing changed | 31.4 (" in text
    assert "| all | all |" in text  # no bytes where nothing changed
    assert (
        "| missed by 1.91 times | the tests, which both take, are 48% of its time; without them 4.09 times |"
        in text
    )
    assert "the engine's version" not in text
    assert "## A year" not in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 115


def test_the_chart_has_a_row_for_each_scenario(results: dict[str, Any]) -> None:
    rows = rows_of(results)
    svg = rows_chart(("time", "bytes"), rows)
    ElementTree.fromstring(svg)
    assert [row.values[0] < 1 for row in rows] == [True] * 7
    assert svg.count('class="bar"') == 2 * 7 - 1  # nothing was pulled where nothing changed
