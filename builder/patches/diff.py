"""Patches as values: unified diffs, and the files that `git diff` and `git format-patch` write.

Bytes come in, values or a `PatchError` with the line go out. What other programs pass over is refused here: text
after a hunk that is longer than its header says, binary changes without their contents, names that leave the tree.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from builder.errors import PatchError
from builder.patches import quoting
from builder.patches.binary import BinaryHunk, Broken, read_binary
from builder.patches.quoting import Unreadable, as_text
from builder.patches.tree import FILE, LINK, PROGRAM, why_outside

Action = Literal["modify", "create", "delete", "rename", "copy"]

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: ([0-7]+))?")
_MOST_DIGITS = 15
_LONGEST_NAMES = 2 * 4096 + 64  # two paths and their quotes; no system has longer ones
_MAIL = re.compile(rb"From [0-9a-f]{40,64} ")
_SIGNATURE = (b"-- ", b"--")
_ENDS_IN_CR = "its own lines end in CR LF, so that what the lines of the tree end in cannot be told"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hunk:
    """Lines that stand together, before and after, each with its end.

    `at` is the index of the first old line as the header states it, and `agrees` whether the header's other side
    says the same. `leading` and `trailing` count the lines of context around the change. `line` is where in the
    patch it starts.
    """

    number: int
    line: int
    at: int
    agrees: bool
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    leading: int
    trailing: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """What a patch does to one file. `source` is where its contents come from, None for a new file.

    `mode` is the one it has afterwards, None where it stays; `was` is the one it is said to have before.
    """

    action: Action
    path: str
    source: str | None
    was: int | None
    mode: int | None
    hunks: tuple[Hunk, ...]
    binary: BinaryHunk | None
    line: int

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths it touches or reads."""
        return (self.path,) if self.source in (None, self.path) else (str(self.source), self.path)


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchFile:
    """A patch file. `parts` are the mails of a mailbox, one after the other; other patches have one part."""

    name: str
    sha256: str
    parts: tuple[tuple[FileChange, ...], ...]

    @property
    def changes(self) -> Iterator[FileChange]:
        """All changes, in order."""
        return (change for part in self.parts for change in part)

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths it touches or reads, in order, each once."""
        return tuple(dict.fromkeys(path for change in self.changes for path in change.paths))

    @property
    def hunks(self) -> int:
        """How many hunks it has, binary ones included."""
        return sum(len(change.hunks) + (change.binary is not None) for change in self.changes)


def parse_patch(data: bytes, *, name: str) -> PatchFile:
    """Read a patch file; `name` is for messages.

    Raises `PatchError`, with the line, for one that is malformed, incomplete, or names a path outside its tree.
    """
    reader = _Reader(data, name)
    try:
        parts = reader.parts()
    except (Unreadable, Broken) as error:
        raise reader.wrong(str(error)) from error
    if not parts:
        raise PatchError(
            f"{name}: there is no change in it", hint="expected the output of git diff or format-patch"
        )
    return PatchFile(name=name, sha256=hashlib.sha256(data).hexdigest(), parts=tuple(parts))


@dataclass(kw_only=True, slots=True)
class _Header:
    """What the lines before the hunks of one file say."""

    line: int
    name: str | None = None
    action: Action | None = None
    source: str | None = None
    target: str | None = None
    was: int | None = None
    mode: int | None = None
    index: tuple[str, str] | None = None


class _Reader:
    """Goes through the lines of a patch once."""

    def __init__(self, data: bytes, name: str) -> None:
        self._lines = data.split(b"\n")
        self._whole = self._lines[-1] == b""
        if self._whole:
            self._lines.pop()
        self._name = name
        self._at = 0

    def wrong(self, message: str, *, line: int | None = None) -> PatchError:
        at = min(self._at, len(self._lines) - 1) + 1 if line is None else line
        return PatchError(f"{self._name}: line {at}: {message}")

    def parts(self) -> list[tuple[FileChange, ...]]:
        parts: list[tuple[FileChange, ...]] = []
        current: list[FileChange] = []
        in_diff = False
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(b"diff --git "):
                current.append(self._git())
                in_diff = True
            elif line.startswith(b"--- ") and self._peek(1).startswith(b"+++ ") and _HUNK.match(self._peek(2)):
                current.append(self._plain())
                in_diff = True
            elif _MAIL.match(line) and not self._peek(-1):
                parts += self._part(current)
                current, in_diff = [], False
                self._at += 1
            else:
                self._between(line, in_diff=in_diff)
                in_diff = in_diff and line not in _SIGNATURE
                self._at += 1
        return [*parts, *self._part(current)]

    def _part(self, changes: list[FileChange]) -> list[tuple[FileChange, ...]]:
        seen: dict[str, FileChange] = {}
        for change in changes:
            before = seen.get(change.path)
            if before is not None and (before.action, change.action) != ("delete", "create"):
                raise self.wrong(
                    f"it changes {change.path!r} a second time; what was meant first cannot be told",
                    line=change.line,
                )
            seen[change.path] = change
        for change in changes:
            if change.action == "rename" and (other := seen.get(str(change.source))) and other.action == "modify":
                raise self.wrong(f"it renames {change.source!r} and changes it as well", line=other.line)
        return [tuple(changes)] if changes else []

    def _between(self, line: bytes, *, in_diff: bool) -> None:
        """Refuse what stands between the diffs and looks as if it belonged to one."""
        if line.startswith((b"diff --cc ", b"diff --combined ", b"@@@ ")):
            raise self.wrong("it is the diff of a merge; make it against one parent")
        if _HUNK.match(line) or line == b"GIT binary patch":
            raise self.wrong("a hunk without the lines that name its file")
        if not in_diff or line in _SIGNATURE:
            return
        if line[:1] in (b"+", b"-", b" ", b"\\"):
            raise self.wrong("the hunk goes on behind the number of lines that its header says")
        if line.startswith((b"Binary files ", b"Only in ")):
            raise self.wrong("it names a file without what is in it", line=self._at + 1)

    def _peek(self, by: int) -> bytes:
        at = self._at + by
        return self._lines[at] if 0 <= at < len(self._lines) else b""

    # One file

    def _git(self) -> FileChange:
        line = self._lines[self._at]
        if line.endswith(b"\r"):
            raise self.wrong(_ENDS_IN_CR)
        if len(line) > _LONGEST_NAMES:
            raise self.wrong(f"it names files in {len(line)} bytes, which no path has")
        header = _Header(line=self._at + 1, name=quoting.both(line.removeprefix(b"diff --git ")))
        self._at += 1
        while self._extended(header, self._peek(0)):
            self._at += 1
        action: Action = header.action or "modify"
        source = header.source if header.source is not None else header.name
        path = header.target if header.target is not None else header.name
        if path is None or source is None:
            raise self.wrong("it names two files and does not say what becomes of them", line=header.line)
        binary, hunks = None, []
        if self._peek(0) == b"GIT binary patch":
            binary = self._binary(header)
        elif self._peek(0).startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
            self._require_sides(
                None if action == "create" else source, None if action == "delete" else path, line=self._at + 1
            )
            hunks = self._hunks()
            if not hunks:
                raise self.wrong("a file without hunks")
        elif self._peek(0).startswith(b"Binary files "):
            raise self.wrong(f"the binary change of {path!r} is without its contents; use git diff --binary")
        if not hunks and binary is None and action == "modify" and header.mode is None:
            raise self.wrong(f"it names {path!r} and changes nothing in it", line=header.line)
        mode = header.mode
        if action == "create" and mode is None:
            mode = FILE
        return self._change(
            FileChange(
                action=action, path=path, source=None if action == "create" else source, was=header.was,
                mode=mode, hunks=tuple(hunks), binary=binary, line=header.line,
            )
        )  # fmt: skip

    def _extended(self, header: _Header, line: bytes) -> bool:
        """Take one line of git's own header; False for a line that is none."""
        key, value = next(((key, line[len(key) :]) for key in _EXTENDED if line.startswith(key)), (b"", b""))
        match key:
            case b"":
                return False
            case b"old mode ":
                header.was = self._mode(value)
            case b"new mode ":
                header.mode = self._mode(value)
            case b"new file mode ":
                header.action, header.mode = "create", self._mode(value)
            case b"deleted file mode ":
                header.action, header.was = "delete", self._mode(value)
            case b"rename from " | b"copy from ":
                header.action = "rename" if key.startswith(b"rename") else "copy"
                header.source = as_text(quoting.plain(value))
            case b"rename to " | b"copy to ":
                header.target = as_text(quoting.plain(value))
            case b"index ":
                if (found := _INDEX.fullmatch(line)) is None:
                    raise self.wrong("expected 'index OLD..NEW MODE'")
                header.index = found[1].decode(), found[2].decode()
                if found[3] is not None:
                    header.was = self._mode(found[3])
            case _:
                pass
        return True

    def _mode(self, text: bytes) -> int:
        try:
            mode = int(text, 8)
        except ValueError:
            mode = 0
        if mode >> 12 == 0o10:
            return PROGRAM if mode & 0o100 else FILE
        if mode == LINK:
            return LINK
        if mode == 0o160000:
            raise self.wrong("it changes the commit of a submodule; pin that in the source")
        raise self.wrong(f"mode {as_text(text)!r} is that of no file")

    def _require_sides(self, source: str | None, path: str | None, *, line: int) -> None:
        """Make sure that `---` and `+++` name what git's header names."""
        for wanted, text, mark in ((source, self._peek(0), "---"), (path, self._peek(1), "+++")):
            found = quoting.side(text[4:])
            if found != wanted:
                raise self.wrong(
                    f"'{mark}' names {found or '/dev/null'!r}, the header above {wanted or '/dev/null'!r}",
                    line=line,
                )
        self._at += 2

    def _plain(self) -> FileChange:
        line = self._at + 1
        old, new = self._peek(0)[4:], self._peek(1)[4:]
        if old.endswith(b"\r") or new.endswith(b"\r"):
            raise self.wrong(_ENDS_IN_CR)
        source, path = quoting.side(old), quoting.side(new)
        if source is not None and path is not None and source in (f"{path}.orig", f"{path}~"):
            source = path
        self._at += 2
        hunks = tuple(self._hunks())
        if source is None and path is None:
            raise self.wrong("both sides are no file", line=line)
        if source is not None and path is not None and source != path:
            raise self.wrong(f"it is about two files, {source!r} and {path!r}", line=line)
        name = path if path is not None else str(source)
        action: Action = "create" if source is None else "delete" if path is None else "modify"
        return self._change(
            FileChange(
                action=action, path=name, source=source, was=None, mode=FILE if source is None else None,
                hunks=hunks, binary=None, line=line,
            )
        )  # fmt: skip

    def _change(self, change: FileChange) -> FileChange:
        """Return a change after proving that it is one."""
        for path in change.paths:
            if (reason := why_outside(path)) is not None:
                raise self.wrong(f"{path!r} {reason}", line=change.line)
        if change.action == "create" and any(hunk.old for hunk in change.hunks):
            raise self.wrong(f"{change.path!r} is new, and yet lines of it are to be there", line=change.line)
        if change.action == "delete" and any(hunk.new for hunk in change.hunks):
            raise self.wrong(f"{change.path!r} is deleted, and yet lines of it are to stay", line=change.line)
        if change.action in ("create", "delete") and len(change.hunks) > 1:
            raise self.wrong(f"{change.path!r} is {change.action}d in more than one hunk", line=change.line)
        return change

    # Hunks

    def _hunks(self) -> list[Hunk]:
        hunks: list[Hunk] = []
        end = shift = 0
        while (found := _HUNK.match(self._peek(0))) is not None:
            line = self._at + 1
            if any(n is not None and len(n) > _MOST_DIGITS for n in found.groups()):
                raise self.wrong(f"the hunk's header has a number of more than {_MOST_DIGITS} digits")
            start, old_count, new_start, new_count = (int(n) if n is not None else 1 for n in found.groups())
            self._at += 1
            body = self._body(old_count, new_count, line)
            at = start if old_count == 0 else start - 1
            new_at = new_start if new_count == 0 else new_start - 1
            if at < end or new_at < 0:
                raise self.wrong("the hunk starts before the one above it ends", line=line)
            hunks.append(
                Hunk(
                    number=len(hunks) + 1, line=line, at=at, agrees=new_at == at + shift,
                    old=tuple(text for mark, text in body if mark != "+"),
                    new=tuple(text for mark, text in body if mark != "-"),
                    leading=_context(mark for mark, _ in body),
                    trailing=_context(mark for mark, _ in reversed(body)),
                )
            )  # fmt: skip
            end = at + old_count
            shift += new_count - old_count
        return hunks

    def _body(self, old: int, new: int, line: int) -> list[tuple[str, bytes]]:
        """Return the marked lines of a hunk with so many old and new lines."""
        body: list[tuple[str, bytes]] = []
        while old or new:
            last = self._at == len(self._lines) - 1
            if self._at >= len(self._lines) or (last and not self._whole):
                raise self.wrong("the patch ends inside this hunk", line=line)
            text = self._lines[self._at]
            mark = text[:1].decode("latin-1") or " "  # a line of context that lost its blank is an empty one
            if mark == "\\":
                self._cut(body)
            elif mark in " +-":
                old -= mark != "+"
                new -= mark != "-"
                body.append((mark, text[1:] + b"\n"))
            if mark not in " +-\\" or old < 0 or new < 0:
                raise self.wrong(f"the hunk of line {line} does not have the lines that its header says")
            self._at += 1
        if self._peek(0).startswith(b"\\ "):
            self._cut(body)
            self._at += 1
        if all(mark == " " for mark, _ in body):
            raise self.wrong("the hunk changes nothing", line=line)
        for marks in (" -", " +"):
            side = [text for mark, text in body if mark in marks]
            if any(not text.endswith(b"\n") for text in side[:-1]):
                raise self.wrong("a line without an end is followed by others", line=line)
        return body

    def _cut(self, body: list[tuple[str, bytes]]) -> None:
        if not body or not self._lines[self._at].startswith(b"\\ ") or not body[-1][1].endswith(b"\n"):
            raise self.wrong("a remark that belongs to no line")
        mark, text = body[-1]
        body[-1] = mark, text[:-1]

    def _binary(self, header: _Header) -> BinaryHunk:
        if header.index is None or any(len(name) not in (40, 64) for name in header.index):
            raise self.wrong("a binary change without the full names of both contents; use git diff --binary")
        if any(len(name) == 64 for name in header.index):
            raise self.wrong("it is of a repository that names contents by sha256, which is not supported")
        method, data, self._at = read_binary(self._lines, self._at + 1)
        if self._peek(0).startswith((b"literal ", b"delta ")):  # the way back
            _, _, self._at = read_binary(self._lines, self._at)
        return BinaryHunk(method=method, data=data, old=header.index[0], new=header.index[1])


_EXTENDED = (
    b"old mode ", b"new mode ", b"new file mode ", b"deleted file mode ", b"rename from ", b"rename to ",
    b"copy from ", b"copy to ", b"similarity index ", b"dissimilarity index ", b"index ",
)  # fmt: skip


def _context(marks: Iterator[str]) -> int:
    count = 0
    for mark in marks:
        if mark != " ":
            break
        count += 1
    return count
