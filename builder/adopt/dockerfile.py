"""Reads a Dockerfile into instructions and comments, each with its lines; no line of the file gets lost.

Knows the form of the file (continuations, heredocs, flags, the escape directive), not what an instruction means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.errors import RecipeError

_ESCAPE = re.compile(r"#[ \t]*escape[ \t]*=[ \t]*(?P<char>[\\`])[ \t]*$", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#[ \t]*[A-Za-z]+[ \t]*=")
_HEREDOC = re.compile(
    r"(?<!<)<<(?P<dash>-?)(?P<apart>[ \t]*)(?P<quote>[\"']?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)(?![<])"
)
_FLAG = re.compile(r"[ \t]*(--[a-z]+(?:=\S+)?)(?=[ \t]|$)")
_HEAD = re.compile(r"[ \t]*(?P<word>[A-Za-z]+)(?:[ \t]+|$)")
_WITH_HEREDOC = ("ADD", "COPY", "RUN")


@dataclass(frozen=True, kw_only=True, slots=True)
class Heredoc:
    """The text below an instruction. `first` is the number of its first line, `last` that of its end word."""

    name: str
    body: str
    first: int
    last: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Comment:
    """A line that is a comment, also one between the lines of an instruction."""

    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """An instruction: its word in capitals, its flags, its text on one line, and the line of each character."""

    keyword: str
    flags: tuple[str, ...]
    text: str
    lines: tuple[int, ...]
    first: int
    last: int
    heredocs: tuple[Heredoc, ...] = ()

    def flag(self, name: str) -> str | None:
        """Return the value of a flag such as `--from=build`, None where it is not given."""
        start = f"--{name}="
        return next((flag.removeprefix(start) for flag in self.flags if flag.startswith(start)), None)


def without_remark(text: str) -> str:
    """Return the text of a FROM or ARG without what follows a '#', which people take for a comment."""
    return re.sub(r"(?:^|[ \t]+)#.*$", "", text, flags=re.DOTALL)


def read_dockerfile(text: str, *, file: str) -> tuple[Instruction | Comment, ...]:
    """Return what stands in a Dockerfile, in its order. Raises `RecipeError` where it is none."""
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    escape, place = _escape(lines), 0
    found: list[Instruction | Comment] = []
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
        elif line.lstrip(" \t").startswith("#"):
            found.append(Comment(line=place + 1, text=line.strip()))
            place += 1
        else:
            instruction, comments, place = _instruction(lines, place, escape, file)
            found += [*comments, instruction]
    if not any(isinstance(each, Instruction) and each.keyword == "FROM" for each in found):
        raise RecipeError(f"{file}: not a Dockerfile: it has no FROM", hint="rocm-images adopt PATH/TO/Dockerfile")
    return tuple(found)


def _escape(lines: list[str]) -> str:
    for line in lines:
        if found := _ESCAPE.match(line):
            return found["char"]
        if not _DIRECTIVE.match(line):
            break
    return "\\"


def _instruction(lines: list[str], place: int, escape: str, file: str) -> tuple[Instruction, list[Comment], int]:
    """Return the instruction that begins at a line, the comments between its lines, and the line after it."""
    first, comments = place + 1, []
    words: list[str] = []
    at: list[int] = []
    while place < len(lines):
        line, place = lines[place], place + 1
        if line.lstrip(" \t").startswith("#") and words:
            comments.append(Comment(line=place, text=line.strip()))
            continue
        if not line.strip() and words:
            continue
        open_ended = line.rstrip(" \t").endswith(escape)
        kept = line.rstrip(" \t")[:-1] if open_ended else line.rstrip(" \t")
        words.append(kept)
        at += [place] * len(kept)
        if not open_ended:
            break
    whole, last = "".join(words), place
    heredocs: list[Heredoc] = []
    head = _HEAD.match(whole)
    keyword = head["word"].upper() if head is not None else " ".join(whole.split()[:1]).upper()
    start = head.end() if head is not None else 0
    if keyword in _WITH_HEREDOC:
        for opened in _HEREDOC.finditer(whole):
            if opened["apart"] and opened["name"] not in (line.lstrip("\t") for line in lines[place:]):
                continue  # a shift of numbers
            heredoc, place = _heredoc(lines, place, opened, file)
            heredocs.append(heredoc)
            last = heredoc.last
    flags: list[str] = []
    while flag := _FLAG.match(whole, start):
        flags.append(flag[1])
        start = flag.end()
    start += len(whole[start:]) - len(whole[start:].lstrip(" \t"))
    instruction = Instruction(
        keyword=keyword, flags=tuple(flags), text=whole[start:], lines=tuple(at[start:]), first=first, last=last,
        heredocs=tuple(heredocs),
    )  # fmt: skip
    return instruction, comments, place


def _heredoc(lines: list[str], place: int, opened: re.Match[str], file: str) -> tuple[Heredoc, int]:
    body: list[str] = []
    first = place + 1
    for number in range(place, len(lines)):
        line = lines[number].lstrip("\t") if opened["dash"] else lines[number]
        if line == opened["name"]:
            return Heredoc(name=opened["name"], body="\n".join(body), first=first, last=number + 1), number + 1
        body.append(line)
    raise RecipeError(
        f"{file}: line {place}: the text <<{opened['name']} has no end",
        hint=f"a line with nothing but {opened['name']} ends it",
    )
