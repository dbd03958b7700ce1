"""The draft while it grows: a recipe with open points in it, and what became of each part of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True, eq=False)
class Mark:
    """A point that the input does not decide. It stands in the draft where its value belongs.

    `line` is that of the input. `number` is given when the draft is written, `key` is where it stands then.
    """

    text: str
    line: int
    number: int = 0
    key: str = ""

    @property
    def placeholder(self) -> str:
        """What stands for its value; no recipe that has it is accepted."""
        return f"<adopt {self.number}>"


@dataclass(kw_only=True, eq=False)
class Entry:
    """A part of the input, an instruction or a command, and what became of it: at least one of the three."""

    text: str
    first: int
    last: int
    became: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    left: str | None = None
    comment: bool = False

    def into(self, *keys: str) -> None:
        """Note the keys that it became."""
        self.became += [key for key in keys if key not in self.became]


@dataclass(kw_only=True)
class Draft:
    """The tables of the recipe, by their keys, in the order they are written in."""

    name: str
    top: dict[str, Any] = field(default_factory=dict)
    undecided: list[Mark] = field(default_factory=list)
    build: dict[str, Any] = field(default_factory=dict)
    runtime: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    components: list[dict[str, Any]] = field(default_factory=list)
    patches: list[dict[str, Any]] = field(default_factory=list)
    image: dict[str, Any] = field(default_factory=dict)
    env: dict[str, Any] = field(default_factory=dict)
    kv_cache: dict[str, Any] = field(default_factory=dict)
    smoke: dict[str, Any] = field(default_factory=dict)

    def component(self, name: str) -> dict[str, Any] | None:
        """Return the component of this name."""
        return next((component for component in self.components if component["name"] == name), None)

    def forbid(self, name: str) -> None:
        """Refuse a distribution."""
        add(self.top, "forbid", [name])


def add(table: dict[str, Any], key: str, items: Sequence[Any]) -> None:
    """Append to a list of a table what is not in it."""
    present = table.setdefault(key, [])
    present += [item for place, item in enumerate(items) if item not in present and item not in items[:place]]
