"""What was measured, as values: how a run adds to it, and when enough is there. Reads and starts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LANES = ("reference", "program", "bake")
BAKED = ("cold", "no-change", "component")  # what bake is measured on: it tells the overhead, nothing else


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
    """Add one run. Of `more`, lists and numbers named in the plural grow, all else is what the last run says."""
    entry = results.setdefault("scenarios", {}).setdefault(scenario, {}).setdefault(lane, {"seconds": []})
    entry["seconds"].append(round(seconds, 3))
    for name, value in more.items():
        if name == "parts":
            for part, took in value.items():
                entry.setdefault("parts", {}).setdefault(part, []).append(round(took, 3))
        elif value is not None:
            entry[name] = value


def reused(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return of a manifest how many layers the one before has too, how many there are, and their bytes."""
    old = {layer["digest"] for layer in before["layers"]} if before is not None else set()
    layers = now["layers"]
    return sum(layer["digest"] in old for layer in layers), len(layers), sum(layer["size"] for layer in layers)
