"""Where a Dockerfile names an image: in FROM, in the ARG that a FROM takes it from, and in what it copies from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from builder.deploy.names import Named, Target, named_in
from builder.deploy.places import Found, Near, Place, unique
from builder.deploy.tree import Edit

_ESCAPE = re.compile(r"#[ \t]*escape[ \t]*=[ \t]*(?P<char>[\\`])[ \t]*\r?$", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#[ \t]*[A-Za-z]+[ \t]*=")
_FROM = re.compile(
    r"[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(?P<image>\S+)(?:[ \t]+AS[ \t]+(?P<stage>\S+))?", re.IGNORECASE
)
_ARG = re.compile(r"[ \t]*ARG[ \t]+(?P<words>.*)", re.IGNORECASE | re.DOTALL)
_DEFAULT = re.compile(
    r"""(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:=(?:"(?P<d>[^"]*)"|'(?P<s>[^']*)'|(?P<p>[^\s"']*)))?(?=\s|$)"""
)
_VARIABLE = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?::?-[^{}]*)?\})"
)
_COPIES = re.compile(
    r"[ \t]*(?:COPY|ADD)[ \t].*?--from=(?P<copy>[^\s,]+)|--mount=\S*?\bfrom=(?P<mount>[^\s,]+)", re.IGNORECASE
)
_HEREDOC = re.compile(r"<<(?P<dash>-?)[\"']?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[\"']?")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Instruction:
    """An instruction on one line: its text, and for each character of it where that stands in the file."""

    text: str
    at: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """A part of a reference: what it says, where that stands, and the ARG whose default it is."""

    text: str
    at: tuple[int, ...]
    arg: str | None


@dataclass
class _Args:
    """The defaults of the ARGs before the first FROM, and which lines use them for another image."""

    defaults: dict[str, _Piece] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)


def find_in_dockerfile(text: str, target: Target) -> Found:
    """Return where a Dockerfile names the image of `target`."""
    args = _Args()
    places: list[Place] = []
    near: list[Near] = []
    froms: list[tuple[str, list[_Piece]]] = []
    for instruction in _instructions(text):
        if found := _FROM.match(instruction.text):
            key = f"FROM … AS {found['stage']}" if found["stage"] else "FROM"
            froms.append((key, _pieces(instruction, *found.span("image"), args)))
        elif (found := _ARG.match(instruction.text)) and not froms:
            _take(instruction, found.start("words"), args)
        else:
            for copied in _COPIES.finditer(instruction.text):
                group = "copy" if copied["copy"] else "mount"
                start, end = copied.span(group)
                piece = _Piece(text=copied[group], at=instruction.at[start:end], arg=None)
                key = "COPY --from" if group == "copy" else "RUN --mount from"
                places += _places(key, [piece], target, _Args())
    for _, pieces in froms:
        if not isinstance(_named(pieces, target), Named):
            args.elsewhere |= {piece.arg: piece.at[0] for piece in pieces if piece.arg and piece.at}
    for key, pieces in froms:
        places += _places(key, pieces, target, args)
        if _named(pieces, target) is None and any("$" in piece.text for piece in pieces):
            why = f"{key} takes its image from a variable without a default"
            near.append(Near(start=pieces[0].at[0], why=why, hint="give the ARG before the first FROM a default"))
    return Found(places=unique(places), near=tuple(near))


def _named(pieces: list[_Piece], target: Target) -> Named | str | None:
    return named_in("".join(piece.text for piece in pieces), target.spellings)


def _places(key: str, pieces: list[_Piece], target: Target, args: _Args) -> Iterator[Place]:
    named, start = _named(pieces, target), pieces[0].at[0]
    if named is None:
        return
    if isinstance(named, str):
        yield Place(key=key, start=start, way="", blocked=named)
        return
    edits: list[Edit] = []
    for begin, end, new in named.parts(target):
        piece, at = _holding(pieces, begin, end)
        if piece is None:
            yield Place(key=key, start=start, way="", blocked="its version is put together from several parts")
            return
        if piece.arg in args.elsewhere:
            why = f"the ARG {piece.arg} decides the version of another image as well"
            yield Place(key=key, start=start, way="", blocked=why)
            return
        if piece.text[begin - at : end - at] != new:
            edits.append(_edit(piece, begin - at, end - at, new))
    yield Place(key=key, start=start, way=f"one text, {named.version}", edits=tuple(edits))


def _holding(pieces: list[_Piece], begin: int, end: int) -> tuple[_Piece | None, int]:
    """Return the piece that a part of the reference is in, and where it begins."""
    at = 0
    for piece in pieces:
        if at <= begin and end <= at + len(piece.text) and (begin < at + len(piece.text) or begin == end):
            whole = piece.at[-1] - piece.at[0] == len(piece.at) - 1 if piece.at else False
            return (piece if whole else None), at
        at += len(piece.text)
    return None, 0


def _edit(piece: _Piece, begin: int, end: int, new: str) -> Edit:
    first = piece.at[0]
    return Edit(start=first + begin, end=first + end, new=new)


def _take(instruction: _Instruction, start: int, args: _Args) -> None:
    """Note the defaults that an ARG gives."""
    for word in _DEFAULT.finditer(instruction.text, start):
        group = next((group for group in ("d", "s", "p") if word[group] is not None), None)
        if group is not None:
            begin, end = word.span(group)
            piece = _Piece(text=word[group], at=instruction.at[begin:end], arg=word["name"])
            args.defaults[word["name"]] = piece


def _pieces(instruction: _Instruction, start: int, end: int, args: _Args) -> list[_Piece]:
    """Return what a reference is made of, with the defaults of the variables in it."""
    found, done = [], start
    for variable in _VARIABLE.finditer(instruction.text, start, end):
        begin, stop = variable.span()
        default = args.defaults.get(variable["plain"] or variable["braced"])
        if default is None or "$" in default.text or not default.text:
            continue
        if done < begin:
            found.append(_Piece(text=instruction.text[done:begin], at=instruction.at[done:begin], arg=None))
        found.append(default)
        done = stop
    if done < end or not found:
        found.append(_Piece(text=instruction.text[done:end], at=instruction.at[done:end], arg=None))
    return found


def _instructions(text: str) -> Iterator[_Instruction]:
    """Return the instructions of a file: lines put together, without comments and without heredocs."""
    escape, offset, directives = "\\", 0, True
    words: list[str] = []
    at: list[int] = []
    waiting: list[tuple[str, bool]] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+$", text):
        start, offset = offset, offset + len(line)
        body = line.rstrip("\n").removesuffix("\r")
        if start == 0 and body.startswith("\ufeff"):
            body, start = body[1:], 1
        if directives and (found := _ESCAPE.match(body)):
            escape = found["char"]
        directives = directives and bool(_DIRECTIVE.match(body))
        if waiting:
            name, dash = waiting[0]
            if (body.lstrip("\t") if dash else body) == name:
                waiting.pop(0)
            continue
        if body.lstrip(" \t").startswith("#") or (words and not body.strip()):
            continue
        open_ended = body.rstrip(" \t").endswith(escape)
        kept = body.rstrip(" \t")[:-1] if open_ended else body
        words.append(kept)
        at += range(start, start + len(kept))
        if open_ended:
            continue
        whole = _Instruction(text="".join(words), at=tuple(at))
        words, at = [], []
        if re.match(r"[ \t]*(?:RUN|COPY|ADD)\b", whole.text, re.IGNORECASE):
            waiting = [(found["name"], bool(found["dash"])) for found in _HEREDOC.finditer(whole.text)]
        if whole.text.strip():
            yield whole
    if words:
        yield _Instruction(text="".join(words), at=tuple(at))
