"""Measures how time and memory of the commands that read everything grow with the number of images.

    python -m bench.scale bench/results.json

Each command is started anew, as a shell does, over generated repositories, under `/usr/bin/time`. What was
measured goes into the results as `scale`; `scale_section` makes a page's section of it, in ratios.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

from bench.generated import PER_BASE, make_repository
from builder import process

COUNTS, RUNS = (25, 50, 100, 200, 500), 5
COMMANDS = {
    "plan": ("plan", "--json"),
    "check": ("check", "--json"),
    "lock --check": ("lock", "--check"),
}
PLAN_SECONDS, PLAN_BYTES, HELP_SECONDS = 3.0, 300_000_000, 0.3
WIDTH = 115  # of the page
_FORMAT = "%e %U %S %M"  # seconds on the clock, of the user and of the system; kilobytes at the peak
_PROGRAM = Path(sys.executable).with_name("rocm-images")
_TREE = Path(__file__).parents[1]  # what is measured, wherever the interpreter has this package from

Sample = dict[str, list[float]]


def measure(counts: Sequence[int] = COUNTS, runs: int = RUNS) -> dict[str, Any]:
    """Return what every command took: `commands` by number of images, and `help`."""
    commands: dict[str, dict[str, Sample]] = {name: {} for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            root = Path(folder) / str(count)
            make_repository(root, count)
            for name, words in COMMANDS.items():
                commands[name][str(count)] = sample(["--root", str(root), *words], runs)
        return {"runs": runs, "commands": commands, "help": sample(["--help"], runs)}


def sample(words: Sequence[str], runs: int) -> Sample:
    """Run the program some times after once for nothing; return seconds, processor seconds and peak bytes."""
    taken: Sample = {"seconds": [], "processor": [], "peak": []}
    with tempfile.NamedTemporaryFile() as report:
        for run in range(runs + 1):
            timed: list[str | Path] = ["/usr/bin/time", "-f", _FORMAT, "-o", report.name, _PROGRAM, *words]
            done = process.run(timed, env={"PYTHONPATH": str(_TREE)})
            if done.status:
                raise SystemExit("\n".join((f"{' '.join(words)} ended with {done.status}", *done.tail)))
            clock, user, system, kilobytes = Path(report.name).read_text().split()
            if run:
                taken["seconds"].append(float(clock))
                taken["processor"].append(round(float(user) + float(system), 2))
                taken["peak"].append(int(kilobytes) * 1024)
    return taken


def last_step(medians: Mapping[int, float]) -> float:
    """Return what one more image costs in the last step, in ratio to the steps before: 1 is a straight line.

    Differences are compared, so that the cost of the start, which is the same for every number, hides nothing.
    """
    counts = sorted(medians)
    first, before, last = counts[0], counts[-2], counts[-1]
    slope = (medians[before] - medians[first]) / (before - first)
    return (medians[last] - medians[before]) / (last - before) / slope


def scale_section(results: Mapping[str, Any]) -> str:
    """Return the section about many images of the page about performance; `results` has `scale`."""
    scale = results["scale"]
    commands = {name: {int(count): each for count, each in by.items()} for name, by in scale["commands"].items()}
    counts = sorted(next(iter(commands.values())))
    first, last = counts[0], counts[-1]
    rows = [
        _row(name, counts, {count: median(each["processor"]) for count, each in by.items()}, by)
        for name, by in commands.items()
    ]
    memory = [
        f"| `{name}` | "
        + " | ".join(f"{median(by[count]['peak']) / median(by[first]['peak']):.2f}" for count in counts)
        + " |"
        for name, by in commands.items()
    ]
    heads = " | ".join(str(count) for count in counts)
    rule = "| --- |" + " ---: |" * len(counts)
    plan, start = commands["plan"][last], scale["help"]
    targets = [
        ("`plan`, on the clock", median(plan["seconds"]) / PLAN_SECONDS),
        ("`plan`, processor time", median(plan["processor"]) / PLAN_SECONDS),
        ("`plan`, memory", median(plan["peak"]) / PLAN_BYTES),
        ("`--help`, on the clock", median(start["seconds"]) / HELP_SECONDS),
    ]
    how = fill(
        f"`python -m bench.scale` starts each command anew over up to {last} generated recipes on "
        f"{last // PER_BASE} shared bases, each with its lock: medians of {scale['runs']} runs, and in brackets "
        "how far the fastest and the slowest are from them.",
        WIDTH,
    )
    times, peaks = "\n".join(rows), "\n".join(memory)
    allowed = "\n".join(f"| {what} | {share:.0%}{'' if share <= 1 else ', missed'} |" for what, share in targets)
    return f"""\
## Many images

{how}

Processor time, {first} images being 1. The last column is what one more image costs in the last step, in ratio to
the steps before: 1 is a straight line, a square would give 3.

| images | {heads} | last step |
{rule} ---: |
{times}

Memory at its peak, {first} images being 1:

| images | {heads} |
{rule}
{peaks}

Of what the project allows itself, `plan` with {last} images:

| | share of the limit |
| --- | ---: |
{allowed}
"""


def _row(name: str, counts: Sequence[int], medians: Mapping[int, float], by: Mapping[int, Sample]) -> str:
    cells = []
    for count in counts:
        middle, all_of = medians[count], by[count]["processor"]
        low, high = min(all_of) / middle - 1, max(all_of) / middle - 1
        cells.append(f"{middle / medians[counts[0]]:.2f} ({low:+.0%} {high:+.0%})")
    return f"| `{name}` | {' | '.join(cells)} | {last_step(medians):.2f} |"


def main() -> None:
    """Measure, and put the outcome into the results."""
    parser = argparse.ArgumentParser(description="Measure the commands that read every recipe and lock.")
    parser.add_argument("results", type=Path, help="the file with the results, made where there is none")
    file = parser.parse_args().results
    results = json.loads(file.read_text()) if file.exists() else {}
    results["scale"] = measure()
    file.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
    sys.stdout.write(scale_section(results))


if __name__ == "__main__":
    main()
