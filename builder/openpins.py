"""Open pins: what a recipe says it does not pin yet, why, and how it is closed.

A recipe with an open pin can be read and judged, and is neither locked nor built. What is read has a stand-in in
the place of the missing value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any

from pydantic import Field

from builder.errors import LockError
from builder.grammar import Sentence, shown
from builder.problems import Problem
from builder.tables import Table
from builder.view import View

LOCK = "lock"  # the pin of a recipe that has all its own, and could not be locked where it was written
# What stands for a value while a recipe is read. No repository has this commit, and no engine this version.
STAND_INS = {"commit": "0" * 40, "version": "0"}
_PINS = re.compile(r"(?P<table>source|component)\.(?P<name>.+)\.(?P<key>commit|version)")
_CLOSE = "missing; expected how it is closed, best a command"
_KEYS = {"source": "commit", "component": "version"}


class OpenPin(Table):
    """One pin that is not known yet."""

    pin: Annotated[
        Sentence, Field(description="'source.NAME.commit', 'component.NAME.version' of a 'base' one, or 'lock'.")
    ]
    reason: Annotated[Sentence, Field(description="Why it is open.")]
    close: Annotated[
        Sentence | None, Field(description="How it is closed, best a command; of a lock it is known.")
    ] = None


def may_be_open(text: str) -> bool:
    """Whether the text of a recipe can have open pins, for whoever has hundreds of them to look through."""
    return "open" in text


def with_stand_ins(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a recipe's table with a stand-in wherever it says that a value is open, and has none."""
    filled: Mapping[str, Any] = table
    for name in (opened for entry in View(table).tables("open") if (opened := entry.text("pin"))):
        for place, key in _places(filled, name):
            if key not in place:
                filled = filled if filled is not table else deepcopy(dict(table))
                for copied, _ in _places(filled, name):
                    copied[key] = STAND_INS[key]
    return filled


def open_disagreements(table: Mapping[str, Any]) -> Iterator[Problem]:
    """Return what is wrong with the open pins of a recipe as it is written."""
    seen: set[str] = set()
    for number, entry in enumerate(View(table).tables("open")):
        name, where = entry.text("pin"), f"open[{number}].pin"
        if name is None:
            continue
        if name in seen:
            yield Problem(where, f"expected every pin once, got {shown(name)} again")
        seen.add(name)
        if (name == LOCK) == ("close" in entry):
            what = "expected no key here; it is closed by 'rocm-images lock'" if name == LOCK else _CLOSE
            yield Problem(f"open[{number}].close", what)
        if name == LOCK:
            continue
        places = list(_places(table, name))
        if not places:
            yield Problem(
                where,
                "expected 'source.NAME.commit' of a git source, 'component.NAME.version' of a component of kind "
                f"'base', or 'lock', got {shown(name)}",
            )
        elif any(key in place for place, key in places):
            yield Problem(where, f"{shown(name)} is given; drop this entry, or the value")


def _places(table: Mapping[str, Any], name: str) -> Iterator[tuple[Any, str]]:
    """Return the table that has, or is to have, the value of a pin, with its key."""
    found = _PINS.fullmatch(name)
    if found is None or _KEYS[found["table"]] != found["key"]:
        return
    if found["table"] == "source":
        sources = table.get("source")
        source = sources.get(found["name"]) if isinstance(sources, Mapping) else None
        if isinstance(source, Mapping) and "git" in source:
            yield source, found["key"]
        return
    components = table.get("component")
    for component in components if isinstance(components, list) else ():
        if isinstance(component, Mapping) and component.get("name") == found["name"] and "base" in component:
            yield component, found["key"]


def require_closed(pins: Sequence[OpenPin], *, file: str) -> None:
    """Raise `LockError` with every pin of a recipe that is open; that the lock is, is none of them."""
    left = [each for each in pins if each.pin != LOCK]
    if left:
        raise LockError(
            "\n".join(f"{file}: {each.pin}: open: {each.reason}" for each in left),
            hint="; ".join(each.close or "" for each in left),
        )
