"""Reads TOML whose bulk is long lists of plain tables, as locks are, several times as fast as the general way.

Only what this program's own writer makes of such tables is read here; everything else is left to tomli, so that
the outcome, and every error, is the same whoever wrote the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from builder import foreign

# Escapes, and what no line of a plain table holds: such a file is read the general way.
_UNPLAIN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\\]")
_KEY = re.compile(r"[A-Za-z0-9_-]+")


def loads(text: str, lists: Collection[str], *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the content of `text`. `lists` names the arrays of tables at its end. Raises as `tomli.loads`."""
    starts = [place for name in lists if (place := text.find(f"\n[[{name}]]\n")) >= 0]
    if starts:
        cut = min(starts) + 1
        found = _tables(text[cut:], lists)
        if found is not None:
            try:
                head = foreign.toml(text[:cut], parse_float=parse_float)
            except ValueError:  # said below with the lines of the whole file
                head = dict.fromkeys(found)
            if not head.keys() & found.keys():
                return head | found
    return foreign.toml(text, parse_float=parse_float)


def _tables(text: str, lists: Collection[str]) -> dict[str, list[dict[str, Any]]] | None:
    """Return the arrays of tables `text` consists of, None when it is written in another way than expected."""
    if _UNPLAIN.search(text):
        return None
    headers = {f"[[{name}]]": name for name in lists}
    found: dict[str, list[dict[str, Any]]] = {}
    keys: set[str] = set()
    for block in text.removesuffix("\n").split("\n\n"):
        header, *lines = block.split("\n")
        table: dict[str, Any] = {}
        for line in lines:
            key, _, value = line.partition(" = ")
            if key not in keys:
                if not _KEY.fullmatch(key):
                    return None
                keys.add(key)
            if value[:1] == '"' and value[-1:] == '"' and value.count('"') == 2:
                table[key] = value[1:-1]
            elif value.isascii() and value.isdigit() and (value[0] != "0" or value == "0"):
                table[key] = int(value)
            else:
                return None
        if header not in headers or len(table) != len(lines):
            return None
        found.setdefault(headers[header], []).append(table)
    return found
