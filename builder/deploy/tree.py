"""What every kind of deployment file is read into: tables, lists and texts that know where they stand.

A text is changed where it stands and nowhere else, so that comments, quotes, anchors and line ends stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Edit:
    """Text that replaces what stands from `start` to `end`, counted in characters from the file's beginning."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A value without parts. `start` to `end` is how it is written, `inner` where its value begins in there.

    `inner` is None where the value is written otherwise than it reads: with escapes, or over several lines.
    `write` makes a value of this kind anew where the old one had no quotes and the new one may need them.
    """

    value: str
    start: int
    end: int
    inner: int | None
    write: Callable[[str], str] | None = None

    def edits(self, parts: Iterable[tuple[int, int, str]]) -> tuple[Edit, ...]:
        """Return how to replace parts of the value (from, to, new); nothing where that changes nothing."""
        new, wanted = self.value, []
        for start, end, part in sorted(parts, reverse=True):
            new = new[:start] + part + new[end:]
            if self.value[start:end] != part:
                wanted.append((start, end, part))
        if self.write is not None:
            written = self.write(new)
            if written != new or self.inner is None:
                return (Edit(start=self.start, end=self.end, new=written),)
        if self.inner is None:
            raise ValueError(f"{self.value!r} is not written as it reads")
        at = self.inner
        return tuple(Edit(start=at + start, end=at + end, new=part) for start, end, part in reversed(wanted))


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Keys and their values in the order of the file; a key that is there twice is there twice."""

    entries: tuple[tuple[str, Node], ...]
    start: int

    def get(self, *names: str) -> list[tuple[str, Node]]:
        """Return the entries under any of these names, both as `plain_key` writes them."""
        return [(key, node) for key, node in self.entries if plain_key(key) in names]

    def text(self, name: str) -> str | None:
        """Return the text under a key, None where there is none or something else."""
        return next((n.value for key, n in self.entries if key == name and isinstance(n, Text)), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Items:
    """A list, or what an expression is made of."""

    items: tuple[Node, ...]
    start: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Other:
    """What is no text and has no parts that could name an image."""

    start: int


Node = Text | Table | Items | Other


def plain_key(key: str) -> str:
    """Return a key without what is only a habit of writing: imageTag, image_tag and image.tag are one."""
    return re.sub(r"[^a-z0-9]", "", key.lower())


def line_of(text: str, at: int) -> int:
    """Return the number of the line that a character is in, from 1."""
    return text.count("\n", 0, at) + 1


def changed(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits made. Raises `ValueError` where two of them are for the same place."""
    parts: list[str] = []
    done = 0
    for edit in sorted(set(edits)):
        if edit.start < done or (parts and edit.start == done == edit.end):
            raise ValueError(f"two edits at character {edit.start}")
        parts += [text[done : edit.start], edit.new]
        done = edit.end
    return "".join([*parts, text[done:]])
