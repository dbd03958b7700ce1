"""The targets of builds and pulls, and how far what was measured is from each. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

NO_CHANGE_SECONDS, OVERHEAD_SECONDS, OVERHEAD_SHARE = 2.0, 2.0, 0.05
_NO_COMPONENT = ("base", "packages", "user", "workdir", "manifest", "edits", "hooks")
_SAME = 1.25  # two medians below this ratio are the same for a person who waits


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One target: what is compared, the value, and the limit it must not be below, or not above.

    `held` says, of what was measured, what keeps the value from getting there.
    """

    what: str
    value: float
    limit: float
    at_least: bool
    held: str = ""

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
    return [*_unchanged(results), *_bumped(results), *_rebased(results), *_from_nothing(results)]


def _at_least(what: str, value: float, limit: float, held: str = "") -> Verdict:
    return Verdict(what=what, value=value, limit=limit, at_least=True, held=held)


def _at_most(what: str, value: float, limit: float, held: str = "") -> Verdict:
    return Verdict(what=what, value=value, limit=limit, at_least=False, held=held)


def _both(results: Mapping[str, Any], *names: str) -> bool:
    """Whether this program and the reference were measured on all of these scenarios."""
    return all({"reference", "program"} <= results["scenarios"].get(name, {}).keys() for name in names)


def _unchanged(results: Mapping[str, Any]) -> Iterator[Verdict]:
    scenarios = results["scenarios"]
    if not _both(results, "no-change"):
        return
    yield _at_least("no change: times faster", faster(results, "no-change").value, 10)
    seconds = median(scenarios["no-change"]["program"]["seconds"])
    yield _at_most("no change: share of the time allowed", seconds / NO_CHANGE_SECONDS, 1)
    if _both(results, "comment"):
        same = median(scenarios["comment"]["program"]["seconds"]) / seconds
        yield _at_most("comment or documentation: time in ratio to no change", same, _SAME)


def _bumped(results: Mapping[str, Any]) -> Iterator[Verdict]:
    for scenario, what in (("component", "one component"), ("dependency", "one dependency")):
        if not _both(results, scenario):
            continue
        program, reference = (results["scenarios"][scenario][way] for way in ("program", "reference"))
        layer = max(program["new"].values())
        times = faster(results, scenario).value
        yield _at_least(f"{what}: times faster", times, 5, _tests_of_both(program, reference))
        yield _at_most(f"{what}: bytes pulled in ratio to the new layer", program["pulled"] / layer, 1.1)
        share = f"the new layer alone is {layer / reference['pulled']:.0%} of what the reference has pulled"
        times = fewer(results, scenario, "pulled") or float("inf")
        yield _at_least(f"{what}: times fewer bytes pulled", times, 10, share)


def _rebased(results: Mapping[str, Any]) -> Iterator[Verdict]:
    for scenario, what in (("base-runtime", "runtime base"), ("base", "both bases")):
        if not _both(results, scenario):
            continue
        program = results["scenarios"][scenario]["program"]
        held = "what is built runs on the build base, and again on another one"
        yield _at_most(f"{what}: components that were built again", len(program["rebuilt"]), 0, held)
        sent = _components(program)
        held = f"other bytes of the other build base: {', '.join(sent)}"
        yield _at_most(f"{what}: component layers that were sent again", len(sent), 0, held)


def _from_nothing(results: Mapping[str, Any]) -> Iterator[Verdict]:
    if not _both(results, "cold"):
        return
    ways = results["scenarios"]["cold"]
    yield _at_least("cold: times faster", faster(results, "cold").value, 1)
    for scenario, (seconds, share) in overheads(results).items():
        if scenario != "no-change":
            allowed = max(OVERHEAD_SECONDS, share and seconds / share * OVERHEAD_SHARE)
            yield _at_most(f"{scenario}: share of the overhead allowed over bake", seconds / allowed, 1)
    yield _at_most("compressed size in ratio", ways["program"]["compressed"] / ways["reference"]["compressed"], 1)


def _components(step: Mapping[str, Any]) -> list[str]:
    """Return the components that have a new layer; other layers are of the base or made for this very image."""
    return [owner for owner in step["new"] if owner not in _NO_COMPONENT]


def _tests_of_both(program: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    """Return how long both ways test, and how much faster the program is without that."""
    own, other = (
        step.get("parts", {}).get(part) for step, part in ((program, "smoke tests"), (reference, "test"))
    )
    if not own or not other:
        return ""
    rest = median(program["seconds"]) - median(own)
    times = (median(reference["seconds"]) - median(other)) / rest
    share = median(own) / median(program["seconds"])
    return f"the tests, which both take, are {share:.0%} of its time; without them {times:.3g} times"
