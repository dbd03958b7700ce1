"""Which files of a tree a source leaves out of what is built from it, by path. Knows no tree, no disk, no recipe.

A pattern is a path in the tree, of a file or of a folder with all that is in it; `*` stands for any text within a
name, `**` for any folders, also none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def ignoring(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether a path, relative to the root of its tree, is left out by one of these patterns."""
    if not patterns:
        return lambda _path: False
    whole = re.compile("|".join(f"(?:{_expression(pattern)})" for pattern in patterns), re.DOTALL)
    return lambda path: whole.fullmatch(path) is not None


def _expression(pattern: str) -> str:
    *folders, last = pattern.split("/")
    parts = [_ANY_FOLDERS if name == "**" else f"{_name(name)}/" for name in folders]
    parts.append(r"[^/]+" if last == "**" else _name(last))
    return "".join(parts) + r"(?:/.*)?"


_ANY_FOLDERS = r"(?:[^/]+/)*"


def _name(text: str) -> str:
    return "[^/]*".join(re.escape(part) for part in text.split("*"))
