"""Edits by exact text and exact count, and whole files in the place of known ones: what they come to, or why not.

Standard library only and for Python 3.10 and later: it lies beside the program of a build step, and the command
line imports it as well. It reads, it never writes. Nothing is guessed: what is not exactly as declared is told
apart and left alone.
"""

from __future__ import annotations

import hashlib
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

State = Literal["applies", "redundant", "conflicts", "target-missing"]
_MOST_LINES = 12


class Refused(Exception):
    """A path or file that a patch must not touch. `message` names the file."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A text that is there exactly `count` times and is replaced there."""

    name: str
    file: str
    find: str
    replace: str
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A whole file, in the place of one with the sha256 `replaces`, or of none."""

    name: str
    file: str
    content: bytes
    replaces: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a patch comes to on a file. `data` is the file after it where the state is 'applies'.

    `reason` says why it is anything else; `expected` are lines that should be there, `actual` numbered lines that
    are. `line` are the lines where it applies, counted from 1.
    """

    state: State
    data: bytes | None = None
    reason: str = ""
    expected: tuple[str, ...] = ()
    actual: tuple[tuple[int, str], ...] = ()
    lines: tuple[int, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the patch can neither be applied nor is it there already."""
        return self.state in ("conflicts", "target-missing")

    def told(self) -> list[str]:
        """Return what was expected and what is there, in lines for people."""
        told = [f"expected        {line}".rstrip() for line in self.expected]
        return told + [f"actual {number:>7}  {line}".rstrip() for number, line in self.actual]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What patches come to together: an outcome for each, in order, and the changed files."""

    outcomes: tuple[tuple[Edit | Overlay, Outcome], ...]
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        """Whether one of them is refused; then none may be applied."""
        return any(outcome.refused for _, outcome in self.outcomes)

    def told(self) -> list[str]:
        """Return every refusal in lines for people, each with the patch and the file it is about."""
        lines: list[str] = []
        for patch, outcome in self.outcomes:
            if outcome.refused:
                lines.append(f"patch {patch.name}: {patch.file}: {outcome.reason}")
                lines += [f"  {line}" for line in outcome.told()]
        return lines


def plan(patches: Iterable[Edit | Overlay], read: Callable[[str], bytes | None]) -> Plan:
    """Say what patches come to, one after the other; one that is refused is left out for those after it.

    `read` returns a file of the tree, None where there is none, and raises `Refused` for what must not be read. A
    Python file that could be compiled before and cannot after them all is the refusal of the patch that broke it.
    """
    files: dict[str, bytes] = {}
    before: dict[str, bytes | None] = {}
    steps: list[tuple[Edit | Overlay, Outcome]] = []
    for patch in patches:
        try:
            file = checked_path(patch.file)
            if file not in before:
                before[file] = read(file)
            outcome = judge(patch, files.get(file, before[file]))
        except Refused as refusal:
            outcome = Outcome(state="conflicts", reason=refusal.message.removeprefix(f"{patch.file}: "))
        if outcome.data is not None:
            files[file] = outcome.data
        steps.append((patch, outcome))
    for file, data in files.items():
        old = before[file]
        if why_broken(file, data) is not None and (old is None or why_broken(file, old) is None):
            steps = [_broke(file, *step) for step in steps]
    return Plan(outcomes=tuple(steps), files={file: data for file, data in files.items() if data != before[file]})


def judge(patch: Edit | Overlay, data: bytes | None) -> Outcome:
    """Say what one patch comes to on a file, None where there is none. Whether it compiles is `plan`'s to say."""
    return _edit(patch, data) if isinstance(patch, Edit) else _overlay(patch, data)


def checked_path(file: str) -> str:
    """Return the path of a file of a tree. Raises `Refused` for one that does not stay in it."""
    parts = file.split("/")
    if file.startswith("/"):
        raise Refused(f"{file}: the path is absolute, it has to be relative to the tree")
    if ".." in parts:
        raise Refused(f"{file}: the path leaves the tree")
    if not file or "" in parts or "." in parts or not file.isprintable():
        raise Refused(f"{file!r}: this is no normal path of a file")
    return file


def real_file(root: Path, file: str) -> Path | None:
    """Return where a file of a tree really is, None where there is none. A new file has no link above it either.

    Raises `Refused` where a link leads out of the tree, and for what is no plain file.
    """
    top = root.resolve()
    path = top / checked_path(file)
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:
        raise Refused(f"{file}: its links lead nowhere: {error}") from error
    if not real.is_relative_to(top):
        link = next(
            (
                each
                for each in (*reversed(path.parents), path)
                if not each.resolve().is_relative_to(top) and each.is_symlink()
            ),
            path,
        )
        leads = link.readlink()
        raise Refused(f"{file}: {link.relative_to(top)} is a link that leads out of the tree, to {leads}")
    try:
        kind = real.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise Refused(f"{file}: this is a link that leads nowhere, to {path.readlink()}") from None
        return None
    if not stat.S_ISREG(kind):
        raise Refused(f"{file}: this is {'a folder' if stat.S_ISDIR(kind) else 'no plain file'}")
    return real


def why_broken(file: str, data: bytes) -> tuple[str, int] | None:
    """Return why a Python file cannot be compiled, and in which line (0: unknown); None where it can."""
    if not file.endswith(".py"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(data, file, "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"{error.msg} (Python {sys.version_info.major}.{sys.version_info.minor})", error.lineno or 0
        except (ValueError, RecursionError, MemoryError) as error:
            return f"it cannot be compiled: {error}", 0
    return None


def _broke(file: str, patch: Edit | Overlay, outcome: Outcome) -> tuple[Edit | Overlay, Outcome]:
    """Return a step of a plan, refused where the file it leaves cannot be compiled."""
    wrong = why_broken(file, outcome.data) if patch.file == file and outcome.data is not None else None
    if wrong is None or outcome.data is None:
        return patch, outcome
    reason, line = wrong
    around = _numbered(outcome.data, range(max(1, line - 2), line + 3)) if line else ()
    told = f"it applies, but the file is no Python any more: line {line}: {reason}"
    return patch, Outcome(state="conflicts", reason=told, actual=around)


def _overlay(overlay: Overlay, data: bytes | None) -> Outcome:
    if data == overlay.content:
        return Outcome(state="redundant", reason="the file is there already, with the same content")
    if data is None:
        if overlay.replaces is None:
            return Outcome(state="applies", data=overlay.content)
        return Outcome(
            state="target-missing", reason=f"there is no such file to replace, expected {_sha(overlay)}"
        )
    found = hashlib.sha256(data).hexdigest()
    if overlay.replaces is None:
        reason = (
            f"expected no such file, found one with sha256 {found}; it is replaced only if 'replaces' names it"
        )
        return Outcome(state="conflicts", reason=reason)
    if found != overlay.replaces:
        reason = f"expected the file to replace with {_sha(overlay)}, found sha256 {found}"
        return Outcome(state="conflicts", reason=reason)
    return Outcome(state="applies", data=overlay.content)


def _sha(overlay: Overlay) -> str:
    return f"sha256 {overlay.replaces}"


def _edit(edit: Edit, data: bytes | None) -> Outcome:
    if data is None:
        return Outcome(state="target-missing", reason="there is no such file")
    find, replace = edit.find.encode(), edit.replace.encode()
    if not find or find == replace:
        return Outcome(
            state="conflicts", reason="the edit changes nothing: it needs a text, and another one for it"
        )
    new = _places(replace, data) if replace else []
    # A replacement may contain the text, for instance with a line added; then nothing is left to do.
    old = [
        at for at in _places(find, data) if not any(n <= at and at + len(find) <= n + len(replace) for n in new)
    ]
    if len(old) == edit.count:
        if any(second - first < len(find) for first, second in pairwise(old)):
            return _refusal(edit, data, "the places where the text is overlap", old)
        return Outcome(state="applies", data=_replaced(data, old, find, replace), lines=_lines_at(data, old))
    if old:
        outside = [n for n in new if not any(at <= n < at + len(find) for at in old)]
        if len(old) + len(outside) == edit.count:
            done = f"the replacement {_times(len(outside))} already"
            reason = f"half patched: the text is there {_times(len(old))}, {done}"
            return _refusal(edit, data, reason, sorted(old + outside))
        reason = f"the text is there {_times(len(old))}, expected {_times(edit.count)}"
        return _refusal(edit, data, reason, old)
    if len(new) == edit.count:
        return Outcome(state="redundant", reason="the replacement is there already", lines=_lines_at(data, new))
    if new:
        half = "half patched: " if len(new) < edit.count else ""
        reason = (
            f"{half}the text is gone, the replacement is there {_times(len(new))}, expected {_times(edit.count)}"
        )
        return _refusal(edit, data, reason, new)
    return _absent(edit, data)


def _absent(edit: Edit, data: bytes) -> Outcome:
    """Say why neither the text nor its replacement is there."""
    for text, what in ((edit.find, "text"), (edit.replace, "replacement")):
        spaced = _other_whitespace(text.encode(), data)
        if spaced:
            ends = "; the lines of the file end with CR LF" if b"\r\n" in data and "\r\n" not in text else ""
            reason = f"the {what} is there only with other whitespace{ends}"
            return Outcome(
                state="conflicts", reason=reason, expected=_shown_lines(text), actual=_numbered(data, spaced)
            )
    lines = {line: number for number, line in reversed(list(enumerate(data.splitlines(), 1)))}
    before, after = edit.find.encode().splitlines(), edit.replace.encode().splitlines()
    added = [line for line in after if line.strip() and line not in before]
    removed = [line for line in before if line.strip() and line not in after]
    there = [line for line in added if line in lines]
    if there and any(line not in lines for line in removed):
        reason = (
            f"half patched: the text is gone, and of the replacement {len(there)} of {len(added)} lines are there"
        )
        return Outcome(
            state="conflicts", reason=reason, expected=_shown_lines(edit.find),
            actual=_numbered(data, sorted(lines[line] for line in there)),
        )  # fmt: skip
    return Outcome(
        state="conflicts", reason=f"the text is there zero times, expected {_times(edit.count)}",
        expected=_shown_lines(edit.find), actual=_numbered(data, _alike(edit.find, data)),
    )  # fmt: skip


def _refusal(edit: Edit, data: bytes, reason: str, places: Sequence[int]) -> Outcome:
    lines = _lines_at(data, places)
    where = f" (line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))})"
    return Outcome(
        state="conflicts", reason=reason + where, expected=_shown_lines(edit.find), actual=_numbered(data, lines)
    )


def _places(text: bytes, data: bytes) -> list[int]:
    """Return where a text begins in a file, also where it overlaps with itself."""
    found, at = [], data.find(text)
    while at >= 0:
        found.append(at)
        at = data.find(text, at + 1)
    return found


def _replaced(data: bytes, places: Sequence[int], find: bytes, replace: bytes) -> bytes:
    parts, end = [], 0
    for at in places:
        parts += [data[end:at], replace]
        end = at + len(find)
    return b"".join([*parts, data[end:]])


def _other_whitespace(text: bytes, data: bytes) -> list[int]:
    """Return the lines of the first place where a text is but for its whitespace."""
    wanted = b"".join(text.split())
    if not wanted:
        return []
    at = b"".join(data.split()).find(wanted)
    if at < 0:
        return []
    solid = [match.start() for match in re.finditer(rb"\S", data)]
    first, last = _lines_at(data, [solid[at], solid[at + len(wanted) - 1]] if len(wanted) > 1 else [solid[at]] * 2)
    return list(range(first, last + 1))


def _alike(text: str, data: bytes) -> list[int]:
    """Return the lines of a file that have the most words in common with the longest line of a text."""
    words = set(re.findall(rb"\w+", max(text.splitlines() or [text], key=len).encode()))
    common = [
        (len(words & set(re.findall(rb"\w+", line))), number) for number, line in enumerate(data.splitlines(), 1)
    ]
    most = max((count for count, _ in common), default=0)
    return [number for count, number in common if count == most][:3] if 2 * most > len(words) else []


def _lines_at(data: bytes, places: Iterable[int]) -> tuple[int, ...]:
    return tuple(data.count(b"\n", 0, at) + 1 for at in places)


def _numbered(data: bytes, numbers: Iterable[int]) -> tuple[tuple[int, str], ...]:
    lines = data.removesuffix(b"\n").split(b"\n")
    chosen = [number for number in dict.fromkeys(numbers) if 1 <= number <= len(lines)]
    return tuple((number, _shown(lines[number - 1])) for number in chosen[:_MOST_LINES])


def _shown_lines(text: str) -> tuple[str, ...]:
    return tuple(_shown(line.encode()) for line in text.removesuffix("\n").split("\n")[:_MOST_LINES])


def _shown(line: bytes) -> str:
    """Return a line as messages show it, with what is no text and what hides at its end escaped."""
    text = line.decode("utf-8", "backslashreplace")
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return shown[:-1] + "\\x20" if shown.endswith(" ") else shown


def _times(count: int) -> str:
    return {0: "zero times", 1: "once", 2: "twice"}.get(count, f"{count} times")
