"""YAML, and JSON as a part of it, as trees that know where their texts stand.

Nothing is constructed: a tag makes nothing happen. An alias is the node it names, merged keys count where they are
merged to, and YAML inside a block of text, as in an Argo CD Application or a ConfigMap for Flux, is read as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import yaml

from builder.deploy.tree import Items, Node, Other, Table, Text
from builder.errors import RecipeError

_NULL = "tag:yaml.org,2002:null"
_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_READ_AS_OTHER = re.compile(
    r"[-+]?(0[xob][0-9a-f_]+|[0-9][0-9_]*(\.[0-9_]*)?(e[-+]?[0-9]+)?|\.[0-9_]+(e[-+]?[0-9]+)?)"
    r"|~|null|true|false|yes|no|on|off|y|n|\.nan|[-+]?\.inf",
    re.IGNORECASE,
)
_RESOLVER = yaml.resolver.Resolver()


def read_yaml(text: str, *, file: str, at: int = 0) -> list[Node]:
    """Return the documents of a text that begins at character `at` of a file.

    Raises `RecipeError` naming line and column where it is no YAML.
    """
    try:
        return _documents(text.replace("\t", " ") if file.endswith(".json") else _without_tabs(text), at=at)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RecipeError(f"{file}:{line}: this is no YAML: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        template = "{{" in text
        raise RecipeError(
            f"{where}: this is no YAML: {error.problem or error.context}",
            hint="a template is pinned by what fills it in, such as its values.yaml" if template else None,
        ) from error
    except RecursionError as error:
        raise RecipeError(f"{file}: nested too deeply to be a deployment") from error


def _without_tabs(text: str) -> str:
    """Return a text with spaces for tabs between words and at ends of lines, where YAML allows both.

    The parser takes tabs in texts alone. Those that indent stay, since they are an error, or part of a text.
    """
    if "\t" not in text:
        return text
    return "\n".join(
        line if line.lstrip(" ").startswith("\t") and line.strip() else line.replace("\t", " ")
        for line in text.split("\n")
    )


def plain_or_quoted(value: str) -> str:
    """Return how to write a value that stood without quotes: with them where readers would take it for no text."""
    text = _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)) == _TEXT  # type: ignore[no-untyped-call]
    return value if text and value and not _READ_AS_OTHER.fullmatch(value) else f'"{value}"'


def _quoted(value: str) -> str:
    return f'"{value}"'


def _documents(text: str, *, at: int) -> list[Node]:
    return [
        _Reader(text=text, at=at).node(root)
        for root in yaml.compose_all(text, Loader=yaml.SafeLoader)
        if root is not None
    ]


@dataclass
class _Reader:
    """Turns the nodes of one document into a tree; `at` is where its text begins in the file."""

    text: str
    at: int
    seen: dict[int, Node] = field(default_factory=dict)

    def node(self, node: yaml.Node, *, json: bool = False) -> Node:
        if id(node) not in self.seen:
            start = self.at + node.start_mark.index
            self.seen[id(node)] = Other(start=start)  # what an alias inside itself is
            match node:
                case yaml.MappingNode():
                    made: Node = Table(entries=tuple(self.entries(node, frozenset())), start=start)
                case yaml.SequenceNode():
                    made = Items(items=tuple(self.node(item) for item in node.value), start=start)
                case yaml.ScalarNode():
                    made = self.scalar(node, json=json)
                case _:
                    made = self.seen[id(node)]
            self.seen[id(node)] = made
        return self.seen[id(node)]

    def entries(self, node: yaml.MappingNode, above: frozenset[int]) -> list[tuple[str, Node]]:
        """Return the keys of a table, then those merged into it that it does not have itself."""
        own: list[tuple[str, Node]] = []
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == _MERGE:
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
            elif isinstance(key, yaml.ScalarNode):
                own.append((key.value, self.node(value, json=key.style == '"')))
        names = {key for key, _ in own}
        for part in merged:
            if isinstance(part, yaml.MappingNode) and id(part) not in above:
                more = [e for e in self.entries(part, above | {id(node)}) if e[0] not in names]
                names |= {key for key, _ in more}
                own += more
        return own

    def scalar(self, node: yaml.ScalarNode, *, json: bool) -> Node:
        start, end = node.start_mark.index, node.end_mark.index
        raw, value = self.text[start:end], node.value
        if node.tag == _NULL or (node.style is None and (node.tag != _TEXT or not value)):
            return self.bare(node, raw, json=json)
        quote = node.style if node.style in ("'", '"') else ""
        if node.style in ("|", ">"):
            nested = self.nested(node, raw) if node.style == "|" else None
            if nested is not None:
                return nested
            value = value.strip()
            header = raw.find("\n") + 1
            inner = start + raw.index(value, header) if raw.count(value, header) == 1 and value else None
        else:
            verbatim = raw.endswith(f"{quote}{value}{quote}")
            inner = end - len(quote) - len(value) if verbatim else None
        written = (_quoted if json else plain_or_quoted) if node.style is None else None
        first = end - len(value) if node.style is None and inner is not None else start
        return Text(
            value=value, start=self.at + first, end=self.at + end,
            inner=None if inner is None else self.at + inner, write=written,
        )  # fmt: skip

    def bare(self, node: yaml.ScalarNode, raw: str, *, json: bool) -> Text:
        """Return what stands without quotes and reads as a number, a date, true or nothing at all."""
        end = self.at + node.end_mark.index
        word = raw[raw.rfind(node.value) :] if node.value else ""
        begun = self.text[: node.end_mark.index].endswith((" ", "\t", "\n")) or bool(word)

        def write(value: str) -> str:
            plain = _quoted(value) if json else plain_or_quoted(value)
            return plain if begun else f" {plain}"

        value = "" if node.tag == _NULL else node.value
        return Text(value=value, start=end - len(word), end=end, inner=None, write=write)

    def nested(self, node: yaml.ScalarNode, raw: str) -> Node | None:
        """Return the table that a block of text is, None where it is only text."""
        if ":" not in node.value or "\n" not in raw:
            return None
        body = raw.index("\n") + 1
        try:
            inside = _documents(raw[body:], at=self.at + node.start_mark.index + body)
        except (yaml.YAMLError, RecursionError):
            return None
        tables = tuple(each for each in inside if isinstance(each, Table | Items))
        return Items(items=tables, start=self.at + node.start_mark.index) if tables else None
