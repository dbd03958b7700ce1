"""What the `[[patch]]` tables of a recipe must agree on: with themselves, their target and its source.

Looks at the table as written, like `agreement`. Whether a patch fits the tree it is for is not asked here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from builder.grammar import shown
from builder.problems import Problem, key_path, nearest
from builder.view import View

_KINDS = ("series", "edit", "overlay", "hook")
_PAIRS = (("value", "expect"), ("call", "expect-source"))
_OWN_FOLDER = "patches"
# By the key that a source has: what its pin looks like, and how that is called.
_PINS = {
    "git": (re.compile("[0-9a-f]{40}"), "the 40 hex digits of a commit"),
    "archive": (re.compile("[0-9a-f]{64}"), "the sha256 of an archive, 64 hex digits"),
    "path": (re.compile("[0-9a-f]{64}"), "the tree of a folder as the lock has it, 64 hex digits"),
}


def patch_disagreements(recipe: View) -> Iterator[Problem]:
    """Return where the patches of a recipe do not agree with one another or with what they are for."""
    components = {name: c for c in recipe.tables("component") if (name := c.text("name")) is not None}
    names: list[str] = []
    for place, patch in enumerate(recipe.tables("patch")):
        where = key_path(["patch", place], recipe.whole)
        name, target = patch.text("name"), patch.text("target")
        if name is not None and name in names:
            yield Problem(f"{where}.name", f"expected every name once, got {shown(name)} again")
        names += [name] if name is not None else []
        yield from _kind(patch, where)
        if target is not None and target not in components:
            others = nearest(target, components) or "; this recipe has no components"
            yield Problem(f"{where}.target", f"no component is called {shown(target)}{others}")
        component = components.get(target or "", View(None))
        if "series" in patch:
            yield from _series(patch.table("series"), component, where, recipe)
        if "edit" in patch:
            yield from _edit(patch.table("edit"), where)
        if "hook" in patch:
            yield from _hook(patch.table("hook"), where)
        if "probe" in patch:
            yield from _probe(patch.table("probe"), where)


def _kind(patch: View, where: str) -> Iterator[Problem]:
    given = [kind for kind in _KINDS if kind in patch]
    if len(given) != 1:
        got = " and ".join(map(repr, given)) or "none"
        yield Problem(where, f"expected exactly one of 'series', 'edit', 'overlay' and 'hook', got {got}")


def _series(series: View, component: View, where: str, recipe: View) -> Iterator[Problem]:
    where = f"{where}.series"
    source, directory = series.text("source"), series.text("directory")
    sources = recipe.table("source")
    if source is not None and source not in sources:
        yield Problem(f"{where}.source", f"no source is called {shown(source)}{nearest(source, sources.keys())}")
    if "source" not in series:
        if "directory" not in series:
            yield Problem(where, "expected 'directory', a folder of this project, or 'source', got neither")
        elif directory is not None and directory.partition("/")[0] != _OWN_FOLDER:
            yield Problem(f"{where}.directory", f"expected a folder below 'patches', got {shown(directory)}")
    if component.keys() and "source" not in component:
        target = component.text("name")
        yield Problem(
            where,
            f"expected a target that is built from a source, {shown(target)} is installed as it is; "
            "edits, overlays and hooks change that",
        )
    made_for, patched = series.text("made-for"), component.text("source") or ""
    if source is not None and source == patched:
        yield Problem(f"{where}.source", f"expected another source than the one it changes, got {shown(source)}")
    if made_for is not None and patched in sources:
        yield from _made_for(made_for, sources.table(patched), f"{where}.made-for")


def _made_for(made_for: str, source: View, where: str) -> Iterator[Problem]:
    kind = next((kind for kind in ("git", "sdist", "archive", "path") if kind in source), None)
    if kind == "sdist":
        try:
            Version(made_for)
        except InvalidVersion:
            yield Problem(where, f"expected the version of an sdist, got {shown(made_for)}")
    elif kind is not None and not _PINS[kind][0].fullmatch(made_for):
        yield Problem(where, f"expected {_PINS[kind][1]}, got {shown(made_for)}")


def _edit(edit: View, where: str) -> Iterator[Problem]:
    find, replace = edit.text("find"), edit.text("replace")
    if find is not None and find == replace:
        yield Problem(f"{where}.edit.replace", "expected another text than 'find'; this edit changes nothing")


def _hook(hook: View, where: str) -> Iterator[Problem]:
    where = f"{where}.hook"
    given = [key for key, _ in _PAIRS if key in hook]
    if len(given) != 1:
        yield Problem(
            where, f"expected exactly one of 'value' and 'call', got {' and '.join(map(repr, given)) or 'none'}"
        )
    for new, old in _PAIRS:
        if given == [new] and old not in hook:
            yield Problem(f"{where}.{old}", f"missing; {new!r} alone would override whatever is there")
        if given != [new] and len(given) == 1 and old in hook:
            yield Problem(f"{where}.{old}", f"expected it beside {new!r}, which is missing")
    if given == ["value"] and "expect" in hook and same(hook.get("value"), hook.get("expect")):
        yield Problem(f"{where}.value", "expected another value than 'expect'; this hook changes nothing")


def _probe(probe: View, where: str) -> Iterator[Problem]:
    where = f"{where}.probe"
    expression = probe.text("expression")
    if expression is not None:
        try:
            ast.parse(expression, mode="eval")
        except (SyntaxError, ValueError):
            yield Problem(f"{where}.expression", f"expected a Python expression, got {shown(expression)}")
    if "before" in probe and "after" in probe and same(probe.get("before"), probe.get("after")):
        yield Problem(f"{where}.after", "expected another value than 'before'; this probe would prove nothing")


def same(one: object, other: object) -> bool:
    """Whether two values of a TOML file are the same, by type as well: `1` is not `true`, and not `1.0`."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other
    if type(one) is not type(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other
