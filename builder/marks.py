"""The open points of a drafted recipe: how they look, and where a table still has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from builder.problems import Problem, key_path

LIST = "adopt"  # the key of what a draft has no other key for
_POINT = re.compile(r"<adopt (?P<number>[0-9]+)>")
_HINT = "decide the point, and write the value; docs/adopt.md says how"


def open_points(table: Mapping[str, object]) -> Iterator[Problem]:
    """Return where a recipe, as written, has points that nobody has decided."""
    for path, text in _texts(table, []):
        found = _POINT.search(text)
        if found is not None and path[0] == LIST:
            said = text.removeprefix(found[0]).strip()
            yield Problem(LIST, f"point {found['number']} of the draft is not decided: {said}", _HINT)
        elif found is not None:
            where = key_path(path, table)
            yield Problem(
                where, f"point {found['number']} of the draft is not decided; see the comment above", _HINT
            )


def _texts(value: object, path: list[str | int]) -> Iterator[tuple[list[str | int], str]]:
    match value:
        case str():
            yield path, value
        case Mapping():
            for key, each in value.items():
                yield from _texts(each, [*path, key])
        case list():
            for place, each in enumerate(value):
                yield from _texts(each, [*path, place])
