"""Writes a draft as a recipe: the open points with a number and a comment each, and a value no recipe may have."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import tomli_w

from builder.adopt.draft import Draft, Mark

_WIDTH = 110
_TOP = ("description", "engine", "gfx", "python", "rocm", "forbid")
_COMPONENT = ("name", "wheel", "source", "base", "apt", "version", "index", "protected", "extras", "subdirectory",
              "requires", "requires-files", "reason", "build-requires", "build-env", "needs", "build")  # fmt: skip
_SOURCE = ("git", "tag", "branch", "commit")
_PATCH = ("name", "target", "reason", "upstream", "drop-when")
_IMAGE = ("user", "uid", "workdir", "entrypoint", "cmd", "expose", "writable", "groups")


def write_draft(draft: Draft, *, file: str) -> str:
    """Return the recipe. Gives the marks their numbers, in the order of the lines they come from, and keys."""
    for number, mark in enumerate(sorted(_all_marks(draft), key=lambda each: each.line), start=1):
        mark.number = number
    lines = _Lines()
    lines.comment(
        f"Drafted from {file}. Every '<adopt N>' is a point to decide; until then rocm-images check refuses it."
    )
    lines.pair("", "schema", 1)
    lines.pair("", "name", draft.name)
    lines.table("", draft.top, _TOP)
    _undecided(lines, draft)
    for role, table in (("build", draft.build), ("runtime", draft.runtime)):
        lines.header(f"[base.{role}]")
        lines.table(f"base.{role}", table, ("image", "apt"))
        if table.get("env"):
            lines.header(f"[base.{role}.env]")
            lines.table(f"base.{role}.env", table["env"], tuple(table["env"]))
    for name, source in draft.sources.items():
        lines.header(f"[source.{name}]")
        lines.table(f"source.{name}", source, _SOURCE)
    for component in draft.components:
        lines.header("[[component]]")
        lines.table(f"component.{component['name']}", component, _COMPONENT)
    for patch in draft.patches:
        where = f"patch.{patch['name']}"
        lines.header("[[patch]]")
        lines.table(where, patch, _PATCH)
        for kind in ("series", "edit", "overlay"):
            if kind in patch:
                lines.header(f"[patch.{kind}]")
                lines.table(f"{where}.{kind}", patch[kind], tuple(patch[kind]))
    for name, table, keys in (
        ("kv-cache", draft.kv_cache, tuple(draft.kv_cache)),
        ("image", draft.image, _IMAGE), ("image.env", draft.env, tuple(draft.env)),
        ("smoke", draft.smoke, ("imports", "paths")),
    ):  # fmt: skip
        if table:
            lines.header(f"[{name}]")
            lines.table(name, table, keys)
    return lines.text


def _undecided(lines: _Lines, draft: Draft) -> None:
    if not draft.undecided:
        return
    lines.text += "\n"
    lines.comment(
        "What no key was found for. Decide each: write it as keys, or not at all; then delete this list."
    )
    for mark in draft.undecided:
        mark.key = "adopt"
    points = [
        f"{mark.placeholder} line {mark.line}: {mark.text}"
        for mark in sorted(draft.undecided, key=lambda m: m.number)
    ]
    lines.text += _rendered("adopt", points)


class _Lines:
    """The text of the recipe as it grows."""

    def __init__(self) -> None:
        self.text = ""

    def comment(self, text: str) -> None:
        for line in textwrap.wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False):
            self.text += f"# {line}\n"

    def header(self, text: str) -> None:
        self.text += f"\n{text}\n"

    def table(self, where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        for key in keys:
            if key in table:
                self.pair(where, key, table[key])

    def pair(self, where: str, key: str, value: Any) -> None:  # noqa: ANN401 -- a value of a TOML file
        for mark in _marks_in(value):
            if not mark.key:
                mark.key = f"{where}.{key}" if where else key
                self.comment(f"adopt {mark.number} (line {mark.line}): {mark.text}")
        self.text += _rendered(key, _placed(value))


def _rendered(key: str, value: Any) -> str:  # noqa: ANN401 -- a value of a TOML file
    if isinstance(value, dict):
        pairs = ", ".join(_rendered(each, value[each]).removesuffix("\n") for each in value)
        quoted = _rendered(key, "").partition(" = ")[0]
        return f"{quoted} = {{ {pairs} }}\n"
    if isinstance(value, list):
        quoted = _rendered(key, "").partition(" = ")[0]
        items = [_rendered(key, each).partition(" = ")[2].removesuffix("\n") for each in value]
        line = f"{quoted} = [{', '.join(items)}]\n"
        return (
            line
            if len(line) <= _WIDTH
            else f"{quoted} = [\n{''.join(f'    {item},{chr(10)}' for item in items)}]\n"
        )
    return tomli_w.dumps({key: value}, multiline_strings=isinstance(value, str) and "\n" in value)


def _placed(value: Any) -> Any:  # noqa: ANN401 -- a value of a TOML file
    if isinstance(value, Mark):
        return value.placeholder
    if isinstance(value, dict):
        return {key: _placed(each) for key, each in value.items()}
    return [_placed(each) for each in value] if isinstance(value, list) else value


def _marks_in(value: Any) -> Iterator[Mark]:  # noqa: ANN401 -- a value of a TOML file
    if isinstance(value, Mark):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _marks_in(each)


def _all_marks(draft: Draft) -> list[Mark]:
    parts = (
        draft.top, draft.undecided, draft.build, draft.runtime, draft.sources, draft.components, draft.patches,
        draft.image, draft.env, draft.smoke,
    )  # fmt: skip
    return list(dict.fromkeys(mark for part in parts for mark in _marks_in(part)))
