"""TOML as a tree that knows where its strings stand. What is TOML, the parser of the project says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import tomli

from builder.deploy.tree import Items, Node, Table, Text
from builder.errors import RecipeError

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^\s,\]}#]+(?: [0-9][0-9:.Z+-]*)?")
_STRING = re.compile(
    r'"""(?P<mb>(?:[^\\]|\\.)*?"{0,2})"""(?!")|\'\'\'(?P<ml>.*?\'{0,2})\'\'\'(?!\')'
    r'|"(?P<b>(?:[^"\\\n]|\\.)*)"|\'(?P<l>[^\'\n]*)\'',
    re.DOTALL,
)


def read_toml(text: str, *, file: str) -> list[Node]:
    """Return the tables of a file as one document. Raises `RecipeError` naming line and column."""
    body = text.removeprefix("\ufeff")
    try:
        tomli.loads(body)
    except tomli.TOMLDecodeError as error:
        raise RecipeError(f"{file}: this is no TOML: {error}") from error
    except RecursionError as error:
        raise RecipeError(f"{file}: nested too deeply to be a deployment") from error
    return [_Reader(text=text, at=len(text) - len(body)).document()]


@dataclass
class _Open:
    """A table, or a list of tables, that later lines may add to."""

    start: int
    entries: list[tuple[str, _Open | list[_Open] | Node]] = field(default_factory=list)

    def below(self, key: str, start: int, *, another: bool = False) -> _Open:
        """Return the table under a key, the last one of a list; `another` begins a new one in a list."""
        there = next((value for name, value in self.entries if name == key), None)
        if isinstance(there, list):
            if another:
                there.append(_Open(start=start))
            return there[-1]
        if isinstance(there, _Open):
            return there
        made = _Open(start=start)
        self.entries.append((key, [made] if another else made))
        return made

    def closed(self) -> Table:
        entries: list[tuple[str, Node]] = []
        for key, value in self.entries:
            match value:
                case _Open():
                    entries.append((key, value.closed()))
                case list():
                    entries.append((key, Items(items=tuple(v.closed() for v in value), start=value[0].start)))
                case _:
                    entries.append((key, value))
        return Table(entries=tuple(entries), start=self.start)


@dataclass
class _Reader:
    """Reads a text that is known to be TOML."""

    text: str
    at: int

    def document(self) -> Table:
        root = here = _Open(start=0)
        self.skip(_SPACE)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                start, many = self.at, self.text.startswith("[[", self.at)
                self.at += 2 if many else 1
                *outer, last = self.key()
                here = root
                for part in outer:
                    here = here.below(part, start)
                here = here.below(last, start, another=many)
                self.at += 2 if many else 1
            else:
                self.pair(here)
            self.skip(_SPACE)
        return root.closed()

    def skip(self, what: re.Pattern[str]) -> None:
        found = what.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def key(self) -> list[str]:
        parts = []
        while True:
            self.skip(_BLANK)
            if self.text[self.at] in "\"'":
                parts.append(self.string().value)
            else:
                found = _BARE_KEY.match(self.text, self.at)
                parts.append(found[0] if found else "")
                self.skip(_BARE_KEY)
            self.skip(_BLANK)
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def pair(self, table: _Open) -> None:
        start = self.at
        *outer, last = self.key()
        for part in outer:
            table = table.below(part, start)
        self.at += 1  # the equals sign
        self.skip(_BLANK)
        table.entries.append((last, self.value()))

    def value(self) -> Node:
        start = self.at
        match self.text[start]:
            case '"' | "'":
                return self.string()
            case "[":
                return Items(items=tuple(self.parts("]")), start=start)
            case "{":
                made = _Open(start=start)
                self.inline(made)
                return made.closed()
            case _:
                found = _BARE_VALUE.match(self.text, start)
                self.at = found.end() if found else start + 1
                word = self.text[start : self.at]
                return Text(value=word, start=start, end=self.at, inner=start, write=lambda new: f'"{new}"')

    def parts(self, end: str) -> list[Node]:
        found: list[Node] = []
        self.at += 1
        while True:
            self.skip(_SPACE)
            if self.text[self.at] == end:
                self.at += 1
                return found
            if self.text[self.at] == ",":
                self.at += 1
            else:
                found.append(self.value())

    def inline(self, table: _Open) -> None:
        self.at += 1
        while True:
            self.skip(_SPACE)
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
            else:
                self.pair(table)

    def string(self) -> Text:
        found = _STRING.match(self.text, self.at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"no string at character {self.at}")
        raw, inner = found[found.lastgroup], found.start(found.lastgroup)
        self.at = found.end()
        if found.lastgroup in ("mb", "ml") and (line := re.match(r"\r?\n", raw)):
            raw, inner = raw[line.end() :], inner + line.end()
        escaped = found.lastgroup in ("b", "mb") and "\\" in raw
        value = str(tomli.loads(f"v = {found[0]}")["v"]) if escaped else raw
        return Text(value=value, start=found.start(), end=found.end(), inner=None if escaped else inner)
