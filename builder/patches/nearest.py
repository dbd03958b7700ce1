"""Says what a file has where a hunk was to find its lines: for people who have to redo the patch.

Nothing here decides whether a patch applies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from builder.patches.diff import Hunk
from builder.patches.places import Unplaced, find

_MOST_FUZZ = 3
_COMMON = 40  # a line that a file has more often than this tells nothing about a place


def explain(unplaced: Unplaced, lines: list[bytes]) -> tuple[str, int]:
    """Return in words why a hunk has no place, and the index of the lines that come nearest."""
    hunk, found = unplaced.hunk, unplaced.found
    if unplaced.there:
        what = "what it adds is already there, at line " + _numbers(unplaced.there)
        if found:
            what += f", and its old lines are at line {_numbers(found)}"
        return what, unplaced.there[0]
    if len(found) > 1:
        return f"its old lines are there {len(found)} times, at lines {_numbers(found)}: ambiguous", found[0]
    if found:
        return f"its old lines are only above the hunk before it, at line {_numbers(found)}", found[0]
    if not hunk.old:
        return "it has no line of context, and the file is not empty", 0
    if (twice := next(find(hunk.old, lines), None)) is not None:
        side = "start" if hunk.at == 0 and twice != 0 else "end"
        return f"its old lines are at line {twice + 1}, but have to be at the {side} of the file", twice
    if (at := _spaced(hunk.old, lines)) is not None:
        return f"its old lines are at line {at + 1} with other whitespace", at
    if (fuzzy := _fuzzy(hunk, lines)) is not None:
        at, fuzz = fuzzy
        return f"only with a fuzz of {fuzz} it would fit, at line {at + 1}", at
    at = _nearest(hunk, lines)
    same = sum(a == b for a, b in zip(hunk.old, lines[at : at + len(hunk.old)], strict=False))
    return f"its old lines are not there; nearest is line {at + 1} with {same} of {len(hunk.old)} lines", at


def _numbers(found: Sequence[int]) -> str:
    shown = ", ".join(str(at + 1) for at in found[:5])
    return shown + (", …" if len(found) > 5 else "")


def _spaced(wanted: Sequence[bytes], lines: list[bytes]) -> int | None:
    """Return where lines stand when whitespace does not count."""
    return next(find([_bare(line) for line in wanted], [_bare(line) for line in lines]), None)


def _bare(line: bytes) -> bytes:
    return b"".join(line.split())


def _fuzzy(hunk: Hunk, lines: list[bytes]) -> tuple[int, int] | None:
    """Return where a hunk would be put by a program that leaves lines of context out, and how many."""
    for fuzz in range(1, _MOST_FUZZ + 1):
        head, tail = min(fuzz, hunk.leading), min(fuzz, hunk.trailing)
        core = hunk.old[head : len(hunk.old) - tail]
        places = [at for at in find(core, lines) if core]
        if places:
            wanted = hunk.at + head
            return max(0, min(places, key=lambda at: abs(at - wanted)) - head), fuzz
    return None


def _nearest(hunk: Hunk, lines: list[bytes]) -> int:
    """Return the index at which most lines are equal; the stated one where none is."""
    where: dict[bytes, list[int]] = defaultdict(list)
    for at, line in enumerate(lines):
        where[line.strip()].append(at)
    votes: Counter[int] = Counter()
    for number, line in enumerate(hunk.old):
        places = where.get(line.strip(), [])
        if line.strip() and len(places) <= _COMMON:
            votes.update(at - number for at in places if at >= number)
    stated = max(0, min(hunk.at, len(lines) - len(hunk.old)))
    if not votes:
        return stated
    return max(votes, key=lambda at: (votes[at], -abs(at - stated)))
