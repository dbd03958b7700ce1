"""Simulates a year of image maintenance from measured scenarios: the reference way, and with this program.

    python -m bench.year bench/results.json --svg docs/performance-year.svg

What happens, and how often, are the constants below; what each of it costs is in the results. No clock, no chance:
the same results give the same text.

Every image follows all of it. Nothing is counted as shared between images: what two images have in common is
pushed for both, which favours the reference, as its one layer is never the same as another's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

from bench.chart import Bars, Curves, chart

DAYS, DAY_SECONDS = 365, 24 * 60 * 60
IMAGES = (1, 20, 200)
FORK_BUMPS = (0, 1, 2, 3)  # of a day, in turn: up to three a day
WITHOUT_INPUT = (13, 22)  # so many of so many fork bumps change nothing that is built
BASES, ENGINES = 12, 26  # a base a month, an engine release every two weeks
WIDTH = 115  # of the page
WAYS = ("reference", "program")
TITLES = {"reference": "reference", "program": "this program"}

# Which measured scenario each event is. In the reference way every commit mints a digest: the pinned commit stands
# in the Dockerfile, so that one without any build input costs what one with a patch does.
SCENARIOS = {
    "reference": {"fork without input": "patch", "fork": "patch", "base": "base", "engine": "engine"},
    "program": {"fork without input": "comment", "fork": "patch", "base": "base", "engine": "engine"},
}
_BUILDS_NOTHING = {"comment"}  # scenarios in which no new digest comes about


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one event costs one image: seconds on a builder that keeps its caches, and on a fresh one; bytes."""

    builds: int
    seconds: float
    fresh: float
    pushed: int
    pulled: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            builds=self.builds + other.builds, seconds=self.seconds + other.seconds,
            fresh=self.fresh + other.fresh, pushed=self.pushed + other.pushed, pulled=self.pulled + other.pulled,
        )  # fmt: skip


NOTHING = Cost(builds=0, seconds=0.0, fresh=0.0, pushed=0, pulled=0)


def calendar() -> tuple[Counter[str], ...]:
    """Return what happens to one image on each day of the year, by event."""
    days, bumps = [], 0
    without, of = WITHOUT_INPUT
    for day in range(DAYS):
        happens: Counter[str] = Counter()
        for _ in range(FORK_BUMPS[day % len(FORK_BUMPS)]):
            # Spread evenly, like the bases and releases below.
            happens["fork without input" if _falls(bumps, without, of) else "fork"] += 1
            bumps += 1
        for event, times in (("base", BASES), ("engine", ENGINES)):
            if _falls(day, times, DAYS):
                happens[event] += 1
        days.append(happens)
    return tuple(days)


def _falls(place: int, times: int, places: int) -> bool:
    """Return whether one of `times` events, spread evenly over `places`, is at this one."""
    return (place + 1) * times // places > place * times // places


def costs(results: Mapping[str, Any], way: str) -> dict[str, Cost]:
    """Return what each event costs, of the medians that were measured."""
    scenarios = results["scenarios"]
    cold = median(scenarios["cold"][way]["seconds"])
    found = {}
    for event, scenario in SCENARIOS[way].items():
        measured = scenarios[scenario][way]
        seconds, builds = median(measured["seconds"]), scenario not in _BUILDS_NOTHING
        found[event] = Cost(
            builds=int(builds), seconds=seconds, fresh=cold if builds else seconds,
            pushed=measured["uploaded"], pulled=measured["pulled"],
        )  # fmt: skip
    return found


def by_day(results: Mapping[str, Any], way: str) -> tuple[Cost, ...]:
    """Return what each day of the year costs one image."""
    each = costs(results, way)
    days = []
    for happens in calendar():
        day = NOTHING
        for event in sorted(happens.elements()):
            day += each[event]
        days.append(day)
    return tuple(days)


def simulate(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the year: `events` of one image by kind, and by number of images and way what it comes to.

    `registry` has the first image and all that was pushed. `share` is of one builder that works round the clock,
    `behind` the longest time in days that it needed at the end of a day for what was left of it; both also for
    builders that are fresh for each job, as hosted runners are. `carries` is how many images one builder keeps up
    with over the year.
    """
    happened: Counter[str] = Counter()
    for happens in calendar():
        happened.update(happens)
    images: dict[str, dict[str, Any]] = {str(number): {} for number in IMAGES}
    for way in WAYS:
        days = by_day(results, way)
        year = sum(days, NOTHING)
        first = results["scenarios"]["cold"][way]["uploaded"]
        for number in IMAGES:
            images[str(number)][way] = {
                "builds": year.builds * number,
                "hours": round(year.seconds * number / 3600, 3),
                "pushed": year.pushed * number,
                "pulled-per-node": year.pulled,
                "registry": (first + year.pushed) * number,
                **_runner([day.seconds for day in days], number, ""),
                **_runner([day.fresh for day in days], number, "fresh-"),
            }
    return {"events": dict(sorted(happened.items())), "images": images}


def _runner(days: Sequence[float], images: int, prefix: str) -> dict[str, Any]:
    """Return what one builder makes of a year of days, in seconds of work for one image."""
    left = most = 0.0
    for work in days:
        left = max(left + work * images - DAY_SECONDS, 0.0)
        most = max(most, left)
    room = DAYS * DAY_SECONDS
    return {
        f"{prefix}share": round(sum(days) * images / room, 6),
        f"{prefix}behind": round(most / DAY_SECONDS, 2),
        f"{prefix}carries": int(room / sum(days)),
    }


def year_section(results: Mapping[str, Any]) -> str:
    """Return the section about a year of the page about performance."""
    year = simulate(results)
    events, one = year["events"], year["images"]["1"]
    forks = events["fork"] + events["fork without input"]
    reference, program = one["reference"]["builds"], one["program"]["builds"]
    rows = [f"| builds | {reference} | {program} | {_fewer(reference, program)} |"]
    for key, what in (
        ("hours", "builder hours"),
        ("pushed", "bytes pushed"),
        ("pulled-per-node", "bytes a node pulls"),
        ("registry", "registry at the end"),
    ):
        reference, program = one["reference"][key], one["program"][key]
        rows.append(f"| {what} | 1 | {_part(program, reference)} | {_fewer(reference, program)} |")
    runner = [
        f"| {number} | {TITLES[way]} | {each['builds']:,} | {_percent(each['share'])} | {each['behind']:.1f} | "
        f"{_percent(each['fresh-share'])} | {each['fresh-behind']:.1f} |"
        for number, ways in year["images"].items()
        for way, each in ways.items()
    ]
    carries = {way: (one[way]["carries"], one[way]["fresh-carries"]) for way in WAYS}
    table, machines = "\n".join(rows), "\n".join(runner)
    without, of = WITHOUT_INPUT
    assumed = fill(
        f"In {DAYS} days an image sees {forks} bumps of its fork, up to {max(FORK_BUMPS)} a day; "
        f"{events['fork without input']} of them, {without} of {of}, change nothing that is built. It sees "
        f"{events['base']} bumps of its base and {events['engine']} releases of its engine. The reference builds "
        "at every commit, as its Dockerfile names it; this program builds when the content key moves. Nothing is "
        "counted as shared between images.",
        WIDTH,
    )
    carried = fill(
        f"Over the year, one runner that keeps its caches carries {carries['reference'][0]:,} images the "
        f"reference way and {carries['program'][0]:,} with this program; one that is fresh for each job "
        f"{carries['reference'][1]:,} and {carries['program'][1]:,}.",
        WIDTH,
    )
    return f"""\
## A year

`python -m bench.year` is a simulation: what happens in it is assumed, what each event costs was measured above.

{assumed}

![What a node pulls, what a builder works, and what one runner carries](performance-year.svg)

One image, the reference being 1:

| in a year | reference | this program | less |
| --- | ---: | ---: | ---: |
{table}

One runner as fast as the measured machine, working round the clock. *Behind* is how many days of work were left at
the end of the worst day. A hosted runner is fresh for each job: whatever it builds takes what a cold build takes,
unless a registry keeps the cache of steps, which is not counted here. One of your own keeps its caches.

| images | way | builds | share, caches kept | behind | share, fresh | behind |
| ---: | --- | ---: | ---: | ---: | ---: | ---: |
{machines}

{carried}
"""


def year_chart(results: Mapping[str, Any]) -> str:
    """Return the year as SVG."""
    days = {way: by_day(results, way) for way in WAYS}
    year = simulate(results)
    panels: list[Curves | Bars] = []
    for title, of in (("Bytes a node pulls", _pulled), ("Builder time", _seconds)):
        whole = sum(of(day) for day in days["reference"])
        curves = {}
        for way in WAYS:
            total, points = 0.0, [0.0]
            for day in days[way]:
                total += of(day)
                points.append(total / whole)
            curves[TITLES[way]] = tuple(points)
        panels.append(Curves(title=title, across="day of the year", up="of the reference's year", curves=curves))
    shares = {TITLES[way]: tuple(ways[way]["fresh-share"] for ways in year["images"].values()) for way in WAYS}
    labels = tuple(f"{number} image{'s' if number > 1 else ''}" for number in IMAGES)
    panels.append(
        Bars(
            title="Share of one fresh runner", across="images kept up to date", up="of its time, log",
            labels=labels, bars=shares,
        )
    )  # fmt: skip
    return chart(panels)


def _pulled(day: Cost) -> float:
    return day.pulled


def _seconds(day: Cost) -> float:
    return day.seconds


def _part(program: float, reference: float) -> str:
    return f"{program / reference:.2g}"


def _fewer(reference: float, program: float) -> str:
    return f"{reference / program:.1f} times" if program else "all"


def _percent(share: float) -> str:
    return f"{share:.2%}" if share < 0.1 else f"{share:.0%}"


def main() -> None:
    """Write the year as JSON to standard output, or as a section of a page; and its chart."""
    parser = argparse.ArgumentParser(description="Simulate a year from measured scenarios.")
    parser.add_argument("results", type=Path, help="the file with what was measured")
    parser.add_argument("--svg", type=Path, help="write the chart here")
    parser.add_argument("--markdown", action="store_true", help="write the section of the page, not JSON")
    given = parser.parse_args()
    results = json.loads(given.results.read_text())
    if given.svg is not None:
        given.svg.write_text(year_chart(results))
    text = year_section(results) if given.markdown else json.dumps(simulate(results), indent=2) + "\n"
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
