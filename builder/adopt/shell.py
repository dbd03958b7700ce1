"""Splits shell text into the commands it runs, each with its words and lines.

Knows quotes, operators and where loops and conditions begin and end. What it cannot take apart stays one command
that says why; nothing is executed, and nothing is expanded here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_OPENERS = {
    "if": "fi",
    "for": "done",
    "while": "done",
    "until": "done",
    "select": "done",
    "case": "esac",
    "{": "}",
}
_INNER = ("then", "else", "elif", "do", "!", "time")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLAIN = re.compile(r"[^ \t\n;|&()<>'\"\\$`]+")
_NAMED = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])?")
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|&()\n]")
_REDIRECT = re.compile(r"[0-9]*(?:<<<|<<-?|>>|>\||>&|<&|<>|>|<)|&>>?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """A word: pieces of text, each with whether variables in it are filled in, and how it is written."""

    pieces: tuple[tuple[str, bool], ...]
    raw: str

    @property
    def plain(self) -> str:
        """Its text without quotes, variables as they stand."""
        return "".join(text for text, _ in self.pieces)


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command, or a compound of several (`words` is empty then) with what it is in `compound`."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[tuple[str, Word], ...] = ()
    compound: str | None = None
    inner: tuple[int, int] = (0, 0)  # where the content of a compound begins and ends in the text
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Commands that belong together: a pipeline, or one with what happens when it fails. `joins` lie between."""

    parts: tuple[Command, ...]
    joins: tuple[str, ...]
    text: str
    first: int
    last: int

    @property
    def single(self) -> Command | None:
        """Its command, where it is one."""
        return self.parts[0] if len(self.parts) == 1 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    """A word, or an operator, with where it begins and ends."""

    start: int
    end: int
    operator: str | None = None
    redirect: str | None = None
    word: Word | None = None


def split_shell(text: str, lines: Sequence[int]) -> tuple[Unit, ...]:
    """Return the units of a shell text in their order. `lines` has the line of each character."""
    tokens = _tokens(text)
    units: list[Unit] = []
    parts: list[Command] = []
    joins: list[str] = []
    place = begun = 0

    def close(end: int) -> None:
        if parts:
            start = tokens[begun].start
            units.append(
                Unit(
                    parts=tuple(parts),
                    joins=tuple(joins[: len(parts) - 1]),
                    text=_on_one_line(text[start:end]),
                    first=lines[start],
                    last=lines[end - 1],
                )
            )
        parts.clear()
        joins.clear()

    while place < len(tokens):
        token = tokens[place]
        if token.operator is not None and token.operator not in ("(",):
            if token.operator in ("|", "||", "|&") and parts:
                joins.append(token.operator)
            elif token.operator == "\n" and len(joins) == len(parts) and parts:
                pass  # a line that ends with an operator goes on
            else:
                close(tokens[place - 1].end if place else token.end)
                begun = place + 1
            place += 1
            if not parts:
                begun = place
            continue
        command, place = _command(text, tokens, place)
        parts.append(command)
    if tokens:
        close(tokens[-1].end)
    return tuple(units)


def _on_one_line(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())


def _command(text: str, tokens: list[_Token], place: int) -> tuple[Command, int]:
    token = tokens[place]
    opener = "(" if token.operator == "(" else (token.word.raw if token.word is not None else "")
    if opener == "(" or opener in _OPENERS:
        end = _end_of_compound(tokens, place)
        while end < len(tokens) and tokens[end].redirect is not None:  # of the compound as a whole
            end += 2
        end = min(end, len(tokens))
        raw = _on_one_line(text[token.start : tokens[end - 1].end])
        inside = (token.end, max(tokens[end - 1].start, token.end))
        return Command(compound=opener, text=raw, inner=inside), end
    words: list[Word] = []
    assignments: list[tuple[str, Word]] = []
    redirects: list[tuple[str, Word]] = []
    start = place
    while place < len(tokens) and tokens[place].operator is None:
        token = tokens[place]
        if token.redirect is not None:
            target = tokens[place + 1].word if place + 1 < len(tokens) else None
            if target is not None:
                redirects.append((token.redirect, target))
                place += 1
        elif token.word is not None and not words and _ASSIGNMENT.match(token.word.raw):
            assignments.append(_assignment(token.word))
        elif token.word is not None:
            words.append(token.word)
        place += 1
    raw = _on_one_line(text[tokens[start].start : tokens[place - 1].end])
    return (
        Command(words=tuple(words), assignments=tuple(assignments), redirects=tuple(redirects), text=raw),
        place,
    )


def _assignment(word: Word) -> tuple[str, Word]:
    name, _, rest = word.pieces[0][0].partition("=")
    pieces = ((rest, word.pieces[0][1]), *word.pieces[1:])
    return name, Word(pieces=pieces, raw=word.raw.partition("=")[2])


def _end_of_compound(tokens: list[_Token], place: int) -> int:
    """Return the place after a compound that begins at `place`; the end of all where it has no end."""
    waiting: list[str] = []
    begins = True
    while place < len(tokens):
        token = tokens[place]
        word = token.word.raw if token.word is not None else ""
        in_case = bool(waiting) and waiting[-1] == "esac"
        if begins and word in _OPENERS:
            waiting.append(_OPENERS[word])
        elif token.operator == "(" and not in_case:
            waiting.append(")")
        elif waiting and ((begins and word == waiting[-1]) or (token.operator == waiting[-1])):
            waiting.pop()
        place += 1
        begins = token.operator is not None or word in (*_INNER, *_OPENERS) or word in _OPENERS.values()
        if not waiting:
            return place
    return place


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    place = 0
    while place < len(text):
        char = text[place]
        if char in " \t" or text.startswith("\\\n", place):
            place += 1 if char in " \t" else 2
        elif char == "#":
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        elif redirect := _REDIRECT.match(text, place):
            found.append(_Token(start=place, end=redirect.end(), redirect=redirect[0]))
            place = redirect.end()
        elif operator := _OPERATOR.match(text, place):
            found.append(_Token(start=place, end=operator.end(), operator=operator[0]))
            place = operator.end()
        else:
            end, word = _word(text, place)
            found.append(_Token(start=place, end=end, word=word))
            place = end
    return found


def _word(text: str, start: int) -> tuple[int, Word]:
    pieces: list[tuple[str, bool]] = []
    place = start
    while place < len(text) and text[place] not in " \t\n;|&()<>":
        char = text[place]
        if char == "'":
            end = _closing(text, place + 1, "'")
            pieces.append((text[place + 1 : end], False))
            place = end + 1
        elif char == '"':
            place = _quoted(text, place + 1, pieces)
        elif char == "\\":
            if text[place + 1 : place + 2] != "\n":
                pieces.append((text[place + 1 : place + 2], False))
            place += 2
        elif char in "$`":
            end = _variable(text, place)
            pieces.append((text[place:end], True))
            place = end
        else:
            found = _PLAIN.match(text, place)
            place += len(found[0]) if found else 1
            pieces.append((found[0] if found else char, True))
    return min(place, len(text)), Word(pieces=tuple(pieces) or (("", False),), raw=text[start:place])


def _quoted(text: str, place: int, pieces: list[tuple[str, bool]]) -> int:
    """Take the text between double quotes; return the place after them."""
    pieces.append(("", False))
    while place < len(text) and text[place] != '"':
        if text[place] == "\\" and text[place + 1 : place + 2] in ("$", "`", '"', "\\", "\n"):
            if text[place + 1] != "\n":
                pieces.append((text[place + 1], False))
            place += 2
        elif text[place] in "$`":
            end = _variable(text, place)
            pieces.append((text[place:end], True))
            place = end
        else:
            pieces.append((text[place], False))
            place += 1
    return place + 1


def _variable(text: str, place: int) -> int:
    """Return the place after `$NAME`, `${…}`, `$(…)` or a text between backticks."""
    if text[place] == "`":
        return _closing(text, place + 1, "`") + 1
    follows = text[place + 1 : place + 2]
    if follows in ("(", "{"):
        depth, close = 0, {"(": ")", "{": "}"}[follows]
        for end in range(place + 1, len(text)):
            depth += (text[end] == follows) - (text[end] == close)
            if depth == 0:
                return end + 1
        return len(text)
    found = _NAMED.match(text, place)
    return place + (len(found[0]) if found else 1)


def _closing(text: str, place: int, char: str) -> int:
    end = text.find(char, place)
    return end if end >= 0 else len(text)
