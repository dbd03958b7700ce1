"""The account of an adoption: of every part of the input what it became, what is open, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.adopt.draft import Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """An open point of the draft: where it stands, the line it comes from, and the question."""

    number: int
    key: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """A part of the input, from its first to its last line, and what became of it."""

    first: int
    last: int
    text: str
    became: tuple[str, ...]
    points: tuple[int, ...]
    left: str | None

    @property
    def outcome(self) -> str:
        """What became of it, in words."""
        said = [f"became {', '.join(self.became)}"] if self.became else []
        said += [f"marked {', '.join(map(str, self.points))}"] if self.points else []
        if self.left is not None:
            said.append(f"left out: {self.left}")
        return "; ".join(said)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """All accounts, by line, and all open points, by number."""

    accounts: tuple[Account, ...]
    points: tuple[Point, ...]

    def plain(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "accounts": [
                {"first": each.first, "last": each.last, "text": each.text, "became": list(each.became),
                 "points": list(each.points), "left-out": each.left}
                for each in self.accounts
            ],
            "points": [
                {"number": each.number, "key": each.key, "line": each.line, "text": each.text}
                for each in self.points
            ],
        }  # fmt: skip

    def lines(self) -> list[str]:
        """Return it as text for people."""
        found = []
        for each in self.accounts:
            where = f"{each.first}" if each.first == each.last else f"{each.first}-{each.last}"
            found += [f"{where}: {each.text}", f"    {each.outcome}"]
        return [
            *found,
            *(f"{point.number}. line {point.line}, {point.key}: {point.text}" for point in self.points),
        ]


def report_of(entries: Sequence[Entry]) -> Report:
    """Return the report on all parts of the input; marks have their numbers."""
    marks = {mark.number: mark for entry in entries for mark in entry.marks if mark.number}
    return Report(
        accounts=tuple(
            Account(
                first=entry.first, last=entry.last, text=entry.text, became=tuple(entry.became),
                points=tuple(sorted({mark.number for mark in entry.marks if mark.number})), left=entry.left,
            )
            for entry in sorted(entries, key=lambda each: each.first)
        ),
        points=tuple(
            Point(number=number, key=mark.key, line=mark.line, text=mark.text)
            for number, mark in sorted(marks.items())
        ),
    )  # fmt: skip
