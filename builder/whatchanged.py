"""Says in words which inputs of an image changed: all of them for programs, few and grouped for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

_PACKAGES = {"deb": "Debian packages", "wheel": "Python distributions"}
_MOST = 8  # lines
_NAMED = 4  # packages of a group


def changes(new: Mapping[str, str], old: Mapping[str, str]) -> tuple[str, ...]:
    """Return, in words, every input that differs between two tables of inputs, each starting with its name."""
    told = []
    for key in sorted(new.keys() | old.keys()):
        if key not in old:
            told.append(f"{key} is new")
        elif key not in new:
            told.append(f"{key} is gone")
        elif new[key] != old[key]:
            told.append(f"{key} {_difference(key, new[key], old[key])}")
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


def _difference(key: str, new: str, old: str) -> str:
    if key.partition(".")[0] in _PACKAGES:
        (version, sha256, place), (version_before, sha256_before, place_before) = json.loads(new), json.loads(old)
        if version != version_before:
            return f"changed from {version_before} to {version}"
        if sha256 != sha256_before:
            return f"{version} is another file: {sha256[:12]} instead of {sha256_before[:12]}"
        return f"moved from {place_before} to {place}"
    return f"changed from {_short(old)} to {_short(new)}"


def _short(value: str) -> str:
    return value if len(value) <= 80 else f"{value[:77]}..."
