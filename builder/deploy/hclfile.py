"""HCL (Terraform, OpenTofu, Nomad, Bake) as a tree that knows where its strings stand.

Expressions are not evaluated: the strings and objects in them are read, so that what a function or a condition is
given counts, and a heredoc that is YAML is read as YAML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.deploy.tree import Items, Node, Other, Table, Text
from builder.deploy.yamlfile import read_yaml
from builder.errors import RecipeError

_BLANK = re.compile(r"(?:[ \t\r\ufeff]|(?:#|//)[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]|(?:#|//)[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_.])")
_HEREDOC = re.compile(r"<<-?(?P<name>[A-Za-z_][A-Za-z0-9_-]*)[ \t]*\r?\n")
_SETS = re.compile(r"[ \t]*(?:=(?![=>])|:)")
_DEEP = 100


def read_hcl(text: str, *, file: str) -> list[Node]:
    """Return the body of a file as one document. Raises `RecipeError` naming the line that is no HCL."""
    reader = _Reader(text=text, file=file)
    body = reader.body(end="")
    return [body]


@dataclass
class _Reader:
    text: str
    file: str
    at: int = 0
    depth: int = 0

    def wrong(self, what: str) -> RecipeError:
        line = self.text.count("\n", 0, self.at) + 1
        return RecipeError(f"{self.file}:{line}: this is no HCL: {what}")

    def here(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, what: re.Pattern[str]) -> None:
        found = what.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def body(self, *, end: str) -> Table:
        """Read attributes and blocks up to the brace that ends them, or to the end of the file."""
        start = self.at
        self.enter()
        entries: list[tuple[str, Node]] = []
        groups: dict[str, list[Node]] = {}
        while True:
            self.skip(_SPACE)
            if self.here() == end:
                break
            word = _WORD.match(self.text, self.at)
            if not self.here():
                raise self.wrong("the '}' of a block is missing")
            if word is None:
                raise self.wrong(f"expected a name, got {self.text[self.at : self.at + 20].split(chr(10))[0]!r}")
            self.at = word.end()
            self.skip(_BLANK)
            if self.here() == "=":
                self.at += 1
                self.skip(_BLANK)
                entries.append((word[0], self.expression(ends="\n")))
            else:
                key, node = self.block(word[0])
                groups.setdefault(key, []).append(node)
                entries.append((key, node))
        self.depth -= 1
        self.at += len(end)
        sets = [Items(items=tuple(each), start=start) for each in groups.values() if len(each) > 1]
        return Table(entries=(*entries, *(("", node) for node in sets if _of_pairs(node))), start=start)

    def block(self, kind: str) -> tuple[str, Node]:
        """Read a block from its labels on. A variable's default is the value under the variable's name."""
        labels = []
        while self.here() != "{":
            if self.here() == '"':
                string = self.string()
                labels.append(string.value)
            elif word := _WORD.match(self.text, self.at):
                labels.append(word[0])
                self.at = word.end()
            else:
                raise self.wrong(f"expected '{{' of the block {kind!r}")
            self.skip(_BLANK)
        self.at += 1
        made = self.body(end="}")
        if kind == "variable" and len(labels) == 1:
            default = made.get("default")
            if default:
                return labels[0], default[0][1]
        return ".".join((kind, *labels)), made

    def enter(self) -> None:
        self.depth += 1
        if self.depth > _DEEP:
            raise self.wrong(f"nested more than {_DEEP} deep")

    def expression(self, *, ends: str) -> Node:
        """Read up to one of the characters `ends`, or to what closes the brackets around this."""
        start, other = self.at, False
        parts: list[Node] = []
        self.enter()
        while True:
            self.skip(_BLANK if "\n" in ends else _SPACE)
            char = self.here()
            if not char or char in ends or char in ",]})":
                break
            if char == '"':
                parts.append(self.string())
            elif char == "{":
                parts.append(self.object())
            elif char in "[(":
                parts.append(self.sequence("]" if char == "[" else ")"))
            elif heredoc := _HEREDOC.match(self.text, self.at):
                parts.append(self.heredoc(heredoc))
            else:
                word = _WORD.match(self.text, self.at) or _NUMBER.match(self.text, self.at)
                self.at = word.end() if word else self.at + 1
                other = True
        self.depth -= 1
        if len(parts) == 1 and not other:
            return parts[0]
        if not parts:
            return Other(start=start)
        return Items(items=tuple(parts), start=start)

    def sequence(self, end: str) -> Node:
        start = self.at
        items: list[Node] = []
        self.at += 1
        while True:
            self.skip(_SPACE)
            char = self.here()
            if char == end:
                self.at += 1
                return Items(items=tuple(items), start=start)
            if not char or char in "]})":
                raise self.wrong(f"expected {end!r}")
            if char == ",":
                self.at += 1
            else:
                items.append(self.expression(ends=""))

    def object(self) -> Node:
        start = self.at
        entries: list[tuple[str, Node]] = []
        self.at += 1
        while True:
            self.skip(_SPACE)
            char = self.here()
            if char == "}":
                self.at += 1
                return Table(entries=tuple(entries), start=start)
            if not char or char in "])":
                raise self.wrong("expected '}'")
            if char == ",":
                self.at += 1
                continue
            key = self.key()
            entries.append((key or "", self.expression(ends="\n")))

    def key(self) -> str | None:
        """Read a key and what follows it; None, and nothing is read, where there is none."""
        begun = self.at
        word = _WORD.match(self.text, self.at)
        if word:
            self.at, name = word.end(), word[0]
        elif self.here() == '"':
            name = self.string().value
        else:
            return None
        sets = _SETS.match(self.text, self.at)
        if sets is None:
            self.at = begun
            return None
        self.at = sets.end()
        self.skip(_BLANK)
        return name

    def string(self) -> Text:
        """Read a quoted string; `${…}` in it may hold strings of its own."""
        start, inner, depth = self.at, self.at + 1, 0
        self.at += 1
        while depth or self.here() != '"':
            char = self.here()
            if not char or (char == "\n" and not depth):
                self.at = start
                raise self.wrong("a string without its end")
            if char == "\\":
                self.at += 2
            elif self.text.startswith(("$${", "%%{"), self.at) and not depth:
                self.at += 3
            elif self.text.startswith(("${", "%{"), self.at):
                depth += 1
                self.at += 2
            elif depth and char == '"':
                self.enter()
                self.string()
                self.depth -= 1
            else:
                depth += (char == "{") - (char == "}") if depth else 0
                self.at += 1
        value = self.text[inner : self.at]
        self.at += 1
        return Text(value=value, start=start, end=self.at, inner=None if "\\" in value else inner)

    def heredoc(self, opened: re.Match[str]) -> Node:
        begin = opened.end()
        closed = re.compile(rf"^[ \t]*{re.escape(opened['name'])}[ \t]*\r?$", re.MULTILINE).search(
            self.text, begin
        )
        if closed is None:
            raise self.wrong(f"the end {opened['name']!r} of a text is missing")
        self.at = closed.end()
        body = self.text[begin : closed.start()]
        try:
            inside = read_yaml(body, file=self.file, at=begin)
        except RecipeError:
            inside = []
        tables = tuple(each for each in inside if isinstance(each, Table | Items))
        return Items(items=tables, start=begin) if tables else Other(start=begin)


def _of_pairs(node: Items) -> bool:
    return all(isinstance(item, Table) and item.text("name") is not None for item in node.items)
