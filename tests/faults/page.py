"""Writes docs/faults.md: what is promised after a fault, how that was tried, and what became of every point."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from builder.workspace import write_atomic

from ..integration.project import REPOSITORY
from .survive import Result
from .table import KILLED, POINTS, Point

PAGE = REPOSITORY / "docs/faults.md"
RESULTS = REPOSITORY / "dist/faults"
_HEAD = "| what breaks | when | the run ends with | and says | then |\n| --- | --- | --- | --- | --- |\n"


def keep(result: Result) -> None:
    """Keep a result until every point has one."""
    write_atomic(_place(result.point), json.dumps(asdict(result), indent=2) + "\n")


def kept() -> Mapping[str, Result]:
    """Return the results of the points of the table that have been tried, by the point's id."""
    places = ((point.id, _place(point.id)) for point in POINTS)
    return {name: Result(**json.loads(place.read_text())) for name, place in places if place.exists()}


def forget(points: Iterable[Point]) -> None:
    """Remove the results of points that are tried again."""
    for point in points:
        _place(point.id).unlink(missing_ok=True)


def page(results: Mapping[str, Result]) -> str:
    """Return the page for the results of every point of the table."""
    return _TEXT.format(count=len(POINTS), table=_HEAD + "".join(_row(each, results[each.id]) for each in POINTS))


def row_begins(point: Point) -> str:
    """Return how the row of a point begins, which no other one does."""
    return f"| {point.fault} | {point.moment} | {_status(point.status)} | "


def _row(point: Point, result: Result) -> str:
    said = f"`{result.said.replace('|', chr(92) + '|')}`" if result.said else ""
    then = "the next run succeeds"
    if point.remedy:
        command = point.remedy.startswith(("rocm-images ", "rm "))
        then = f"after {f'`{point.remedy}`' if command else point.remedy} the next run succeeds"
    if point.area == "two runs":
        then = "the first run succeeds, and so does the next one"
    elif point.status == 0:
        then = "nothing is lost by it; the next run succeeds"
    return f"{row_begins(point)}{said} | {then} |\n"


def _status(status: int) -> str:
    return "its death" if status == KILLED else str(status)


def _place(point: str) -> Path:
    return RESULTS / f"{point.replace('/', '')}.json"


_TEXT = """\
# When something breaks

A run can be interrupted or killed, the engine or the registry can go away in the middle of it, a disk can be
full, a clock wrong, a file half there. Whatever it is, this holds afterwards:

- **No untested digest is published.** Only what passed its smoke tests is sent to a registry at all, the version
  tag is set last, and the record in `pins/` is written after that. A fault between the two leaves a tag that
  names a tested image and no record; the next run finds the image and writes the record.
- **No file is half written.** Locks, records, reports and kept files come to their place whole or not at all.
- **Nothing is left to clean up**: no process, no container, no mount, nothing in `TMPDIR`.
- **The run says what happened**, with the [exit code](exit-codes.md) of its class.
- **The next run succeeds**, and makes again only what is not whole. Where somebody has to act first, because a
  file that people keep is damaged, the message names the file and the remedy.

A program that is killed (`SIGKILL`, a machine out of memory) cannot clean up. What it had started ends with it,
and the next build removes its containers; what it had in `TMPDIR`, and a file that it was just writing beside
its place (`.NAME.…`), stay until somebody removes them, and nothing reads them.

## How it was tried

    python -m tests.faults

starts an engine and a registry of its own, on disks of their own, and breaks one thing at a time in a run that
makes a small image: locked, fetched, bootstrapped, built, tested, pushed, recorded. A run that is to be broken
at a moment is held there, so that the fault hits that moment and no other. After each fault it compares the exit
code and the message with what the table says, looks for processes, containers, mounts and files that were left,
reads every JSON and TOML file, compares what the registry serves with what was tested, mends what was broken,
and runs once more. It needs root, `strace` (for disks that fail or are slow) and `libfaketime` (for clocks that
are wrong; they are wrong for the program, not for the engine). `python -m tests.faults WORDS…` tries the points
of an area, or those whose names hold one of the words. The page is written by that command from what happened; a
point that does not hold is not written down, the command fails.

## The {count} points

All of them hold. Where two runs are beside each other, the row tells of the second one.

{table}"""
