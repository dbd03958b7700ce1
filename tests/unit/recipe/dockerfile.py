"""Reads a Dockerfile back as BuildKit does, as far as rendered ones go, to compare with what was meant.

Written after the Dockerfile reference: line continuation, comments, exec form, and the words of ENV and LABEL in
double quotes, where a backslash protects a quote, a dollar sign and itself, and a bare dollar sign expands.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_WORD = re.compile(r'([A-Za-z0-9_.-]+)=((?:"(?:[^"\\]|\\.)*"|\\.)+)(?:\s+|$)', re.DOTALL)


@dataclass(frozen=True)
class Instruction:
    """One instruction: its keyword in capitals, and all that follows as one line."""

    keyword: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The list of an exec form, whatever flags stand before it."""
        return list(json.loads(self.rest[self.rest.index('["') :]))

    @property
    def pairs(self) -> dict[str, str]:
        """The pairs of ENV or LABEL with what they expand to where nothing is defined."""
        found, at = {}, 0
        while at < len(self.rest):
            match = _WORD.match(self.rest, at)
            assert match is not None, f"not words in quotes: {self.rest[at:]!r}"
            value = "".join(_plain(part) for part in re.findall(r"\\.|[^\\]", match[2], re.DOTALL))
            found[match[1]] = value
            at = match.end()
        return found


def _plain(part: str) -> str:
    """Return what one character, or a backslash and one, stands for in a word."""
    assert part != "$", "a bare dollar sign would expand"
    if len(part) == 1:
        return "" if part == '"' else part
    return part[1] if part[1] in '"$\\' else part


def parse(text: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile."""
    found: list[Instruction] = []
    pending = ""
    for number, line in enumerate(text.split("\n")):
        if number == 0:
            assert not re.match(r"#\s*[A-Za-z]+\s*=", line), "a parser directive"
        if line.lstrip().startswith("#") or not line.strip():
            continue
        assert not re.search(r"[\r\v\f\x85\u2028\u2029]", line), f"a line break of another kind: {line!r}"
        continued = re.fullmatch(r"(.*)\\[ \t]*", line, re.DOTALL)
        pending += continued[1] if continued else line
        if continued is None:
            keyword, _, rest = pending.strip().partition(" ")
            found.append(Instruction(keyword=keyword.upper(), rest=rest))
            pending = ""
    assert not pending, "ends in the middle of an instruction"
    return found


def only(text: str, keyword: str, *, last: bool = False) -> Instruction:
    """Return the instruction of a kind, the last one with `last`."""
    found = [instruction for instruction in parse(text) if instruction.keyword == keyword]
    assert found if last else len(found) == 1, f"{len(found)} times {keyword}"
    return found[-1]
