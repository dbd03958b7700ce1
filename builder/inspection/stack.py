"""Whose every layer of an image of this program is, told from what the image says of itself. Looks nothing up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from builder import foreign
from builder.audit.contents import COMPONENTS, MANIFEST
from builder.patchledger import FILE as LEDGER

# What a step of the history has in it that made a layer between the base and the components.
_STEPS = (
    ("install-debs.sh", "packages"), ("/run/secrets/ca-bundle", "packages"), ("make-user.sh", "user"),
    ("adopt-user.sh", "user"), ("WORKDIR ", "workdir"),
)  # fmt: skip
_IN_EDITS = ("edit", "overlay")


def owners(
    texts: Mapping[str, str], layer_of: Mapping[str, int], history: Sequence[str | None]
) -> tuple[str | None, ...]:
    """Return the owner of every layer, bottom first; None for one that nothing tells of.

    The layer with the manifest lies on those of the components, which it lists in order; what is below them is
    told by the steps of the history.
    """
    count = len(history)
    place = layer_of.get(MANIFEST)
    if place is None:
        return (None,) * count
    stacked = _stacked(texts)
    if len(stacked) > place:
        return (None,) * count
    below = place - len(stacked)
    named: list[str | None] = [None] * below + [*stacked, "manifest"]
    named += ["patches" if layer_of.get(LEDGER) == number else None for number in range(place + 1, count)]
    for number in range(below - 1, -1, -1):
        owner = next((owner for word, owner in _STEPS if word in (history[number] or "")), None)
        if owner is None or owner in named[number:below]:
            named[: number + 1] = ["base"] * (number + 1)
            break
        named[number] = owner
    return tuple(named)


def _stacked(texts: Mapping[str, str]) -> list[str]:
    """Return the names of the layers that components and patches are, bottom first."""
    names = list(table(texts, COMPONENTS))
    said = table(texts, MANIFEST)
    here = {entry.get("name") for entry in said.get("components", []) if "apt" in entry or "base" in entry}
    edited = [p for p in said.get("patches", []) if p.get("kind") in _IN_EDITS and p.get("target") in here]
    if edited:
        names.insert(len(names) - ("hooks" in names[-1:]), "edits")
    return names


def table(texts: Mapping[str, str], path: str) -> dict[str, Any]:
    """Return a JSON file of an image as a table, empty where it is not there or none."""
    try:
        found = foreign.loads(texts.get(path, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
