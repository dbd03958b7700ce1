"""Writes docs/performance.md and its charts from what was measured, in ratios.

    python -m bench.report bench/results.json docs

The same results give the same files. Whatever was not measured is not spoken of.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

from bench.rows import Row, rows_chart
from bench.scale import scale_section
from bench.verdicts import Ratio, Verdict, faster, fewer, overheads, verdicts
from bench.year import year_chart, year_section

WIDTH = 115  # of the page
TITLES = {
    "cold": "cold",
    "no-change": "nothing changed",
    "comment": "a comment, a README",
    "test": "a test",
    "component": "Triton's version",
    "dependency": "a pure-Python dependency",
    "patch": "a patch to the engine",
    "base-runtime": "a package of the runtime stage",
    "base": "the base",
    "engine": "the engine's version",
}
_YEAR = ("cold", "comment", "patch", "base", "engine")  # what the year is simulated from
_HEAD = """\
# Performance

Written by `python -m bench.report bench/results.json docs` from one run of

    python -m bench.builds --runs 5 --out bench/results.json

on one machine. Only ratios are told: seconds are those of a machine, and yours is another one. What was measured
is in `bench/results.json`.
"""
_WAYS = """\
## What is compared

One image, `sglang-debian`, made in three ways that take turns:

- the **reference**, `bench/reference/Dockerfile`: two stages, everything fetched in `RUN` steps, the whole Python
  environment copied as one layer; `docker buildx build --push` with its defaults. It holds the same packages and
  distributions in the same versions, removes what apt and pip leave behind, and orders its steps from what changes
  least to what changes most.
- **this program**: `rocm-images build sglang-debian --publish …`.
- **bake**: `docker buildx bake` of the Dockerfile that this program renders, over the folder that it laid out.

A round starts with an empty engine, an empty registry and nothing fetched, and walks the changes one after the
other, each made on top of the one before. Locks are made before the clock starts: the commit of a bot has them.
The reference's base is in the registry from the start, while this program bootstraps its own on the clock.

Time runs to the digest that is published **and tested**. The reference is held to the same smoke tests, by
`rocm-images test REFERENCE --recipe …`; what only a lock can promise (its set, budgets, labels) is not asked, nor
what the engine's own metadata requires, which is the CUDA set.

Bytes uploaded are those of the blobs that the registry's folder gained, bills of materials and records included.
Bytes pulled are those that the registry sent to a second store, which began empty and holds the images before.
Size on disk is what that store gained, packed and unpacked.
"""


def page(results: Mapping[str, Any]) -> str:
    """Return the page about performance."""
    scenarios = [name for name in TITLES if {"reference", "program"} <= results["scenarios"].get(name, {}).keys()]
    machine = results["machine"]
    sections = [_HEAD, _WAYS]
    sections.append(
        _filled(
            f"The machine had {machine['cores']} processors and {machine['memory'] / 2**30:.0f} GiB of memory. "
            f"Medians of {_fewest(results, scenarios)} runs or more; in brackets the smallest and the largest "
            "ratio of two runs of one round."
        )
    )
    sections += [_times(results, scenarios), _bytes(results, scenarios), _overhead(results), _targets(results)]
    if set(_YEAR) <= set(scenarios):
        sections.append(year_section(results))
    if "scale" in results:
        sections.append(scale_section(results))
    return "\n".join(section for section in sections if section)


def _fewest(results: Mapping[str, Any], scenarios: list[str]) -> int:
    return min(
        len(results["scenarios"][name][way]["seconds"]) for name in scenarios for way in ("reference", "program")
    )


def _times(results: Mapping[str, Any], scenarios: list[str]) -> str:
    rows = []
    for name in scenarios:
        ways = results["scenarios"][name]
        spread = " | ".join(_spread(ways[way]["seconds"]) for way in ("reference", "program"))
        rows.append(
            f"| {TITLES[name]} | {_times_of(faster(results, name))} | {spread} | {_longest(ways['program'])} |"
        )
    table = "\n".join(rows)
    return f"""\
## Time to the published, tested digest

![Time and bytes in ratio to the reference](performance.svg)

*Spread* is how far the fastest and the slowest run are from the median. Parts are shares of this program's time,
and may run side by side.

| what changed | times faster | spread, reference | spread, this program | its longest parts |
| --- | ---: | ---: | ---: | --- |
{table}
"""


def _bytes(results: Mapping[str, Any], scenarios: list[str]) -> str:
    rows = []
    for name in scenarios:
        ways = results["scenarios"][name]
        cells = [_fewer(fewer(results, name, what)) for what in ("uploaded", "pulled", "disk")]
        reused = [f"{ways[way]['layers_reused']} of {ways[way]['layers']}" for way in ("reference", "program")]
        rows.append(f"| {TITLES[name]} | {' | '.join(cells)} | {' | '.join(reused)} |")
    cold = results["scenarios"].get("cold", {})
    size = ""
    if "cold" in scenarios:
        times = cold["program"]["compressed"] / cold["reference"]["compressed"]
        size = f"\nCompressed, the image has {times:.2f} times the bytes of the reference.\n"
    table = "\n".join(rows)
    return f"""\
## Bytes

How many times fewer, *all* where none at all; below 1 more.

| what changed | uploaded | pulled | on disk | layers reused, reference | layers reused, this program |
| --- | ---: | ---: | ---: | ---: | ---: |
{table}
{size}"""


def _overhead(results: Mapping[str, Any]) -> str:
    found = overheads(results)
    if not found:
        return ""
    rows = "\n".join(
        f"| {TITLES[name]} | {share:+.1%} |" for name, (_, share) in found.items() if name != "no-change"
    )
    return f"""\
## Beside bake

What this program takes for the same steps, without the time in which it only fetches, tests or publishes, in ratio
to bake's:

| what changed | overhead |
| --- | ---: |
{rows}
"""


def _targets(results: Mapping[str, Any]) -> str:
    found = verdicts(results)
    rows = "\n".join(
        f"| {each.what} | {each.value:.3g} | {'≥' if each.at_least else '≤'} {each.limit:g} | {_met(each)} "
        f"| {each.held if not each.met else ''} |"
        for each in found
    )
    return f"""\
## Targets

| target | measured | wanted | | what holds it |
| --- | ---: | ---: | --- | --- |
{rows}
"""


def _met(verdict: Verdict) -> str:
    if verdict.met:
        return "met"
    return f"missed by {verdict.missed_by:.2f} times" if verdict.missed_by != float("inf") else "missed"


def _times_of(ratio: Ratio) -> str:
    return f"{ratio.value:.3g} ({ratio.low:.3g}–{ratio.high:.3g})"  # noqa: RUF001


def _spread(seconds: list[float]) -> str:
    middle = median(seconds)
    return f"{min(seconds) / middle - 1:+.0%} {max(seconds) / middle - 1:+.0%}"


def _longest(step: Mapping[str, Any]) -> str:
    """Return the longest parts of the program's time, at most three, of those that are a tenth or more."""
    whole = median(step["seconds"])
    shares = sorted(((median(took) / whole, part) for part, took in step.get("parts", {}).items()), reverse=True)
    return ", ".join(f"{part} {share:.0%}" for share, part in shares[:3] if share >= 0.1) or "its own start"


def _fewer(times: float | None) -> str:
    return "all" if times is None else f"{times:.3g}"


def _filled(text: str) -> str:
    return fill(text, WIDTH, break_on_hyphens=False) + "\n"


def rows_of(results: Mapping[str, Any]) -> list[Row]:
    """Return the rows of the chart: this program's time and bytes, the reference's being 1."""
    found = []
    for name, title in TITLES.items():
        ways = results["scenarios"].get(name, {})
        if {"reference", "program"} <= ways.keys():
            reference, program = ways["reference"], ways["program"]
            found.append(
                Row(
                    label=title,
                    values=(
                        median(program["seconds"]) / median(reference["seconds"]),
                        program["pulled"] / reference["pulled"] if reference["pulled"] else 1.0,
                    ),
                )
            )
    return found


def main() -> None:
    """Write the page and its charts into a folder."""
    parser = argparse.ArgumentParser(description="Write the page about performance.")
    parser.add_argument("results", type=Path, help="the file with what was measured")
    parser.add_argument("folder", type=Path, help="where the page and its charts go")
    given = parser.parse_args()
    results = json.loads(given.results.read_text(encoding="utf-8"))
    files = {
        "performance.md": page(results),
        "performance.svg": rows_chart(("Time to the tested digest", "Bytes a node pulls"), rows_of(results)),
    }
    if set(_YEAR) <= results["scenarios"].keys():
        files["performance-year.svg"] = year_chart(results)
    for name, text in files.items():
        (given.folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
