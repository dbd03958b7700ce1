"""The targets of builds and pulls, and how far what was measured is from each. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

NO_CHANGE_SECONDS, OVERHEAD_SECONDS, OVERHEAD_SHARE = 2.0, 2.0, 0.05
_NO_COMPONENT = ("base", "packages", "user", "workdir", "manifest", "edits", "hooks")
_SAME = 1.25  # two medians below this ratio are the same for a person who waits


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One target: what is compared, the value, and the limit it must not be below, or not above."""

    what: str
    value: float
    limit: float
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether the target is kept."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def missed_by(self) -> float:
        """How many times further the value would have to be."""
        far, near = (self.limit, self.value) if self.at_least else (self.value, self.limit)
        return far / near if near > 0 else float("inf")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """A ratio of medians, and the least and largest ratio of two runs of one round."""

    value: float
    low: float
    high: float


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Return how many times `below` goes into `above`; runs at the same place are of one round."""
    pairs = [a / b for a, b in zip(above, below, strict=False)]
    return Ratio(value=median(above) / median(below), low=min(pairs), high=max(pairs))


def faster(results: Mapping[str, Any], scenario: str) -> Ratio:
    """Return how many times faster this program is than the reference."""
    ways = results["scenarios"][scenario]
    return ratio(ways["reference"]["seconds"], ways["program"]["seconds"])


def fewer(results: Mapping[str, Any], scenario: str, what: str) -> float | None:
    """Return how many times fewer bytes this program takes, None where it takes none."""
    ways = results["scenarios"][scenario]
    program = ways["program"][what]
    return ways["reference"][what] / program if program else None


def overheads(results: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return by scenario the seconds that the program takes beside bake's, and their share of bake's; medians."""
    found = {}
    for scenario, ways in results["scenarios"].items():
        around, bake = ways.get("program", {}).get("around"), ways.get("bake", {}).get("seconds")
        if around and bake:
            seconds = median(around) - median(bake)
            found[scenario] = (seconds, seconds / median(bake))
    return found


def verdicts(results: Mapping[str, Any]) -> list[Verdict]:
    """Return every target of which everything was measured, in order."""
    scenarios = results["scenarios"]

    def both(*names: str) -> bool:
        return all({"reference", "program"} <= scenarios.get(name, {}).keys() for name in names)

    found: list[Verdict] = []

    def at_least(what: str, value: float, limit: float) -> None:
        found.append(Verdict(what=what, value=value, limit=limit, at_least=True))

    def at_most(what: str, value: float, limit: float) -> None:
        found.append(Verdict(what=what, value=value, limit=limit, at_least=False))

    if both("no-change"):
        at_least("no change: times faster", faster(results, "no-change").value, 10)
        seconds = median(scenarios["no-change"]["program"]["seconds"])
        at_most("no change: share of the time allowed", seconds / NO_CHANGE_SECONDS, 1)
    if both("no-change", "comment"):
        same = median(scenarios["comment"]["program"]["seconds"]) / median(
            scenarios["no-change"]["program"]["seconds"]
        )
        at_most("comment or documentation: time in ratio to no change", same, _SAME)
    if both("component"):
        program = scenarios["component"]["program"]
        at_least("one component: times faster", faster(results, "component").value, 5)
        at_most(
            "one component: bytes pulled in ratio to the new layer",
            program["pulled"] / max(program["new"].values()),
            1.1,
        )
        at_least(
            "one component: times fewer bytes pulled", fewer(results, "component", "pulled") or float("inf"), 10
        )
    if both("base"):
        program = scenarios["base"]["program"]
        at_most("base: components that were built again", len(program["rebuilt"]), 0)
        at_most("base: component layers that were sent again", components_sent(program), 0)
    if both("cold"):
        ways = scenarios["cold"]
        at_least("cold: times faster", faster(results, "cold").value, 1)
        for scenario, (seconds, share) in overheads(results).items():
            if scenario != "no-change":
                allowed = max(OVERHEAD_SECONDS, share and seconds / share * OVERHEAD_SHARE)
                at_most(f"{scenario}: share of the overhead allowed over bake", seconds / allowed, 1)
        at_most("compressed size in ratio", ways["program"]["compressed"] / ways["reference"]["compressed"], 1)
    return found


def components_sent(step: Mapping[str, Any]) -> int:
    """Return how many layers are new that are of components, and not of the base or made for this very image."""
    return sum(owner not in _NO_COMPONENT for owner in step["new"])
