"""What `bench.scale` makes of measured samples."""

from __future__ import annotations

from typing import Any

import pytest

from bench.scale import last_step, scale_section

COUNTS = (25, 50, 100, 200, 500)


def measured(seconds: float) -> dict[str, list[float]]:
    return {"seconds": [seconds, seconds * 2], "processor": [seconds * 0.9, seconds * 1.1], "peak": [30_000_000.0]}


@pytest.fixture
def results() -> dict[str, Any]:
    by = {str(count): measured(0.5 + count * 0.004) for count in COUNTS}
    commands = dict.fromkeys(("plan", "check", "lock --check"), by)
    return {"scale": {"runs": 2, "commands": commands, "help": measured(0.1)}}


@pytest.mark.parametrize(
    ("power", "ratio"), [(1, 1.0), (2, 700 / 225), (0.5, 0.52)], ids=["a line", "a square", "a root"]
)
def test_the_last_step_tells_a_line_from_a_square_whatever_the_start_costs(power: float, ratio: float) -> None:
    for start in (0.0, 10.0):
        assert last_step({count: start + count**power for count in COUNTS}) == pytest.approx(ratio, rel=0.01)


def test_the_section_has_growth_spread_and_shares_of_limits(results: dict[str, Any]) -> None:
    lines = scale_section(results).splitlines()
    assert (
        "| `plan` | 1.00 (-10% +10%) | 1.17 (-10% +10%) | 1.50 (-10% +10%) | 2.17 (-10% +10%) | 4.17 (-10% +10%) "
        "| 1.00 |"
    ) in lines
    assert "| `check` | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |" in lines
    assert "| `plan`, on the clock | 125%, missed |" in lines
    assert "| `plan`, processor time | 83% |" in lines
    assert "| `plan`, memory | 10% |" in lines
    assert "| `--help`, on the clock | 50% |" in lines
