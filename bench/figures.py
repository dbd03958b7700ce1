"""What was measured, as values: how a run adds to it, and when enough is there. Reads and starts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

LANES = ("reference", "program", "bake")
BAKED = ("cold", "no-change", "component")  # what bake is measured on: it tells the overhead, nothing else


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A part of a run: what was done, and from when to when, in seconds of one clock."""

    what: str
    start: float
    end: float


def sums(steps: Iterable[Interval]) -> dict[str, float]:
    """Return the seconds of each part by what was done."""
    found: dict[str, float] = {}
    for step in steps:
        found[step.what] = found.get(step.what, 0.0) + step.end - step.start
    return found


def alone(steps: Sequence[Interval], beside: str) -> float:
    """Return the seconds in which parts were on their way and none of those that are called `beside`."""
    edges = sorted({edge for step in steps for edge in (step.start, step.end)})
    total = 0.0
    for start, end in pairwise(edges):
        here = {step.what for step in steps if step.start <= start and step.end >= end}
        if here and beside not in here:
            total += end - start
    return total


def walked(chain: Iterable[str], only: Iterable[str]) -> tuple[str, ...]:
    """Return the scenarios of a round: those that were asked for, and the changes that they stand on.

    Raises `ValueError` for a name that no scenario has.
    """
    names, wanted = tuple(chain), tuple(only)
    if unknown := [name for name in wanted if name not in names]:
        raise ValueError(f"there is no scenario {unknown[0]!r}; there are {', '.join(names)}")
    if not wanted:
        return names
    last = max(names.index(name) for name in wanted)
    nothing_new = ("no-change", "comment", "test")
    return tuple(name for name in names[: last + 1] if name in wanted or name not in nothing_new)


def expected(scenarios: Iterable[str], lanes: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return every scenario and lane that a round measures."""
    return tuple(
        (scenario, lane) for scenario in scenarios for lane in lanes if lane != "bake" or scenario in BAKED
    )


def runs_of(results: Mapping[str, Any], wanted: Iterable[tuple[str, str]]) -> int:
    """Return how many runs of all that is wanted are there."""
    scenarios = results.get("scenarios", {})
    return min((len(scenarios.get(name, {}).get(lane, {}).get("seconds", ())) for name, lane in wanted), default=0)


def add(results: dict[str, Any], scenario: str, lane: str, *, seconds: float, **more: Any) -> None:  # noqa: ANN401
    """Add one run. Of `more`, seconds grow with each run, all else is what the last one says."""
    entry = results.setdefault("scenarios", {}).setdefault(scenario, {}).setdefault(lane, {"seconds": []})
    entry["seconds"].append(round(seconds, 3))
    for name, value in more.items():
        if name == "parts":
            for part, took in value.items():
                entry.setdefault("parts", {}).setdefault(part, []).append(round(took, 3))
        elif name == "around" and value is not None:
            entry.setdefault("around", []).append(round(value, 3))
        elif value is not None:
            entry[name] = value


def layers(before: Mapping[str, Any] | None, now: Mapping[str, Any], owners: Mapping[str, str]) -> dict[str, Any]:
    """Return how many layers a manifest has, how many the one before has too, and all bytes.

    `new` has the bytes of the others by owner, which `owners` names by digest; without it by place.
    """
    old = {layer["digest"] for layer in before["layers"]} if before is not None else set()
    found = now["layers"]
    new = {
        owners.get(layer["digest"], str(place)): layer["size"]
        for place, layer in enumerate(found)
        if layer["digest"] not in old
    }
    return {
        "layers": len(found),
        "layers_reused": len(found) - sum(layer["digest"] not in old for layer in found),
        "compressed": sum(layer["size"] for layer in found),
        "new": new,
    }
