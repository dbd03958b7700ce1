"""Says in words which inputs of an image changed: all of them for programs, few and grouped for people."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_PACKAGES = {"deb": "Debian packages", "wheel": "Python distributions"}
# What this program makes of the inputs, by hash: another version of it may make something else of the same ones.
DERIVED = ("dockerfile", "manifest")
_LONGEST_TOLD = 160
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST = 8  # lines
_NAMED = 4  # packages of a group


def changes(new: Mapping[str, str], old: Mapping[str, str]) -> tuple[str, ...]:
    """Return, in words, which inputs differ between two tables; what is made of inputs only if none does."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    told = []
    for key in sorted(changed - set(DERIVED) or changed):
        if key not in old:
            told.append(f"{key} is new")
        elif key not in new:
            told.append(f"{key} is gone")
        else:
            told.append(f"{key}: {_difference(_value(old[key]), _value(new[key]))}")
    return tuple(told)


def in_short(reasons: Sequence[str]) -> tuple[str, ...]:
    """Return reasons for people: packages in a group where they are many, and no more than fit on a screen."""
    kinds = {kind: [line for line in reasons if line.startswith(f"{kind}.")] for kind in _PACKAGES}
    grouped = {kind for kind, lines in kinds.items() if len(lines) > 1}
    told = [line for line in reasons if line.partition(".")[0] not in grouped]
    more = len(told) - _MOST
    if more > 1:
        told = [*told[:_MOST], f"and {more} more inputs"]
    for kind in sorted(grouped):
        lines = [line.removeprefix(f"{kind}.") for line in kinds[kind]]
        rest = len(lines) - _NAMED
        named = ", ".join(lines[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        told.append(f"{len(lines)} {_PACKAGES[kind]}: {named}")
    return tuple(told)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:  # from a record of another version
        return text


def _difference(old: object, new: object) -> str:
    """Return how one value became another; of tables the parts that differ, a hash only if nothing else does."""
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [part for part in sorted(old.keys() | new.keys()) if old.get(part) != new.get(part)]
        parts = [part for part in parts if part not in ("sha256", "file")] or parts
        told = (f"{part} {_difference(old.get(part, 'none'), new.get(part, 'none'))}" for part in parts)
        return ", ".join(told)
    words = [value if isinstance(value, str) else json.dumps(value) for value in (old, new)]
    tables = [isinstance(value, list) and any(isinstance(each, dict) for each in value) for value in (old, new)]
    if any(tables) or any(len(word) > _LONGEST_TOLD or _HASH.fullmatch(word) for word in words):
        return "changed"
    return " -> ".join(words)
