"""Finds where the hunks of a patch belong in a file: exactly there or nowhere.

It compares lines byte for byte. A hunk that stands elsewhere than its header says is placed only when there is one
single place for it; what comes near is for the message alone (`builder.patches.nearest`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builder.patches.diff import Hunk


@dataclass(frozen=True, kw_only=True, slots=True)
class Offset:
    """A hunk that was found so many lines below (above, if negative) the place its header states."""

    file: str
    hunk: int
    lines: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Unplaced:
    """A hunk without a place: `found` are all places its old lines have, `there` those its new lines have."""

    hunk: Hunk
    found: tuple[int, ...]
    there: tuple[int, ...]


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of a file with their ends; only the last may have none. CR is no end of a line."""
    lines = data.split(b"\n")
    last = lines.pop()
    ended = [line + b"\n" for line in lines]
    return [*ended, last] if last else ended


def place(hunks: Sequence[Hunk], lines: list[bytes]) -> list[int | Unplaced]:
    """Return for every hunk the index its old lines start at, or that it has no place.

    A hunk without lines of context at one end belongs at that end of the file, as `git apply` has it. Once a hunk
    of a file stands elsewhere than stated, the others have to have one single place as well.
    """
    answers: list[int | Unplaced] = []
    touched: list[tuple[int, int]] = []
    end, moved = 0, False
    for hunk in hunks:
        at = hunk.at
        if not (hunk.agrees and not moved and at >= end and _fits(hunk, lines, at)):
            found = tuple(at for at in occurrences(hunk, lines) if _free(at, len(hunk.old), touched))
            adds = len(hunk.new) > hunk.leading + hunk.trailing
            there = tuple(find(hunk.new, lines)) if adds else ()
            if len(found) != 1 or found[0] < end or there:
                answers.append(Unplaced(hunk=hunk, found=found, there=there))
                continue
            (at,) = found
            moved = moved or at != hunk.at
        answers.append(at)
        end = at + len(hunk.old)
        touched.append((at, end))
    return answers


def occurrences(hunk: Hunk, lines: list[bytes]) -> Iterator[int]:
    """Yield every place that the old lines of a hunk have in a file."""
    return (at for at in find(hunk.old, lines) if _fits(hunk, lines, at))


def find(wanted: Sequence[bytes], lines: list[bytes]) -> Iterator[int]:
    """Yield every index at which some lines stand together in a file."""
    if not wanted:
        if not lines:
            yield 0
        return
    first, block, at = wanted[0], list(wanted), -1
    while True:
        try:
            at = lines.index(first, at + 1)
        except ValueError:
            return
        if lines[at : at + len(block)] == block:
            yield at


def replaced(lines: list[bytes], hunks: Sequence[Hunk], places: Sequence[int]) -> bytes:
    """Return a file with the old lines of all hunks replaced by the new ones."""
    made: list[bytes] = []
    done = 0
    for hunk, at in zip(hunks, places, strict=True):
        made += lines[done:at]
        made += hunk.new
        done = at + len(hunk.old)
    return b"".join([*made, *lines[done:]])


def _fits(hunk: Hunk, lines: list[bytes], at: int) -> bool:
    after = at + len(hunk.old)
    if (hunk.at == 0 and at != 0) or (hunk.trailing == 0 and after != len(lines)) or (not hunk.old and lines):
        return False
    return after <= len(lines) and lines[at:after] == list(hunk.old)


def _free(at: int, length: int, touched: list[tuple[int, int]]) -> bool:
    return all(at + length <= start or at >= end for start, end in touched)
