"""Judges a series of patches against a tree: every patch gets a state, and every state its evidence.

A patch that does not apply is left out, and those after it are judged without it, so that one run tells all. What
a tree is and where it comes from is not known here; nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import JsonValue

from builder.errors import PatchError
from builder.patches.apply import Conflict, apply_patch
from builder.patches.diff import PatchFile
from builder.patches.places import Offset, lines_of
from builder.patches.redundant import already_there
from builder.patches.syntax import why_broken
from builder.patches.tree import Entry, Layer, Tree, shown

PatchState = Literal["applies", "redundant", "conflicts", "target-missing"]
FAILING: tuple[PatchState, ...] = ("conflicts", "target-missing")
_AROUND = 2  # lines shown before and after a broken one


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What one patch comes to on a tree. `changes` are for a patch that applies; None deletes a path."""

    state: PatchState
    changes: Mapping[str, Entry | None]
    conflicts: tuple[Conflict, ...] = ()
    offsets: tuple[Offset, ...] = ()
    evidence: tuple[str, ...] = ()


class Patch(Protocol):
    """What can stand in a series beside a patch file, for example an edit."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def sha256(self) -> str:
        """The hash of what it consists of."""
        ...

    @property
    def hunks(self) -> int:
        """How many places it changes."""
        ...

    def attempt(self, tree: Tree) -> Attempt:
        """Say what it comes to on a tree, and change nothing."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEffect:
    """A file that a patch changes: before and after, None for no file."""

    path: str
    before: Entry | None
    after: Entry | None

    def plain(self) -> dict[str, JsonValue]:
        """Return it as JSON values, contents by sha256."""
        return {"path": self.path, "before": _sha256(self.before), "after": _sha256(self.after)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The state of one patch, with what proves it."""

    name: str
    sha256: str
    hunks: int
    state: PatchState
    conflicts: tuple[Conflict, ...] = ()
    offsets: tuple[Offset, ...] = ()
    files: tuple[FileEffect, ...] = ()
    evidence: tuple[str, ...] = ()

    def plain(self) -> dict[str, JsonValue]:
        """Return it as JSON values."""
        found: dict[str, JsonValue] = {
            "name": self.name, "sha256": self.sha256, "state": self.state, "hunks": self.hunks,
            "files": [file.plain() for file in self.files],
            "offsets": [{"file": o.file, "hunk": o.hunk, "lines": o.lines} for o in self.offsets],
        }  # fmt: skip
        if self.conflicts:
            found["conflicts"] = [plain(conflict) for conflict in self.conflicts]
        if self.evidence:
            found["evidence"] = list(self.evidence)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A verdict for every patch of a series, in order, and what those that apply change together."""

    verdicts: tuple[Verdict, ...]
    changes: Mapping[str, Entry | None]

    @property
    def fails(self) -> bool:
        """Whether a patch conflicts or has no target."""
        return any(verdict.state in FAILING for verdict in self.verdicts)

    def of(self, *states: PatchState) -> tuple[Verdict, ...]:
        """Return the verdicts with one of these states."""
        return tuple(verdict for verdict in self.verdicts if verdict.state in states)


def judge(series: Sequence[PatchFile | Patch], tree: Tree) -> Judged:
    """Judge patches one after the other on a tree."""
    broken: dict[int, Conflict] = {}
    while True:
        judged = _run(series, tree, broken)
        found = _broken(judged, tree)
        if not found:
            return judged
        broken |= found  # and once more: the others have to be judged without it


def attempt(patch: PatchFile, tree: Tree) -> Attempt:
    """Say what a patch file comes to on a tree."""
    done = apply_patch(patch, tree)
    conflicts = tuple(done.conflicts)
    same = not conflicts and all(tree.read(path) == entry for path, entry in done.changes.items())
    if conflicts or same:
        proof = already_there(patch, tree)
        if proof is not None:
            return Attempt(state="redundant", changes={}, evidence=proof)
    if not conflicts:
        return Attempt(state="applies", changes=done.changes, offsets=tuple(done.offsets))
    missing = all(conflict.problem == "missing" for conflict in conflicts)
    return Attempt(state="target-missing" if missing else "conflicts", changes={}, conflicts=conflicts)


def _run(series: Sequence[PatchFile | Patch], tree: Tree, broken: Mapping[int, Conflict]) -> Judged:
    changes: dict[str, Entry | None] = {}
    verdicts: list[Verdict] = []
    for number, patch in enumerate(series):
        if number in broken:
            tried = Attempt(state="conflicts", changes={}, conflicts=(broken[number],))
        else:
            now = Layer(tree, changes)
            tried = attempt(patch, now) if isinstance(patch, PatchFile) else patch.attempt(now)
        files = tuple(
            FileEffect(path=path, before=changes[path] if path in changes else tree.read(path), after=entry)
            for path, entry in sorted(tried.changes.items())
        )
        changes |= tried.changes
        verdicts.append(
            Verdict(
                name=patch.name, sha256=patch.sha256, hunks=patch.hunks, state=tried.state, files=files,
                conflicts=tried.conflicts, offsets=tried.offsets, evidence=tried.evidence,
            )
        )  # fmt: skip
    return Judged(verdicts=tuple(verdicts), changes=changes)


def _broken(judged: Judged, tree: Tree) -> dict[int, Conflict]:
    """Return the patches after which a Python file no longer compiles, although it did without them."""
    found: dict[int, Conflict] = {}
    for path, last in sorted(judged.changes.items()):
        if _wrong(path, last) is None or _wrong(path, tree.read(path)) is not None:
            continue  # what did not compile before is not a patch's doing, or newer syntax than this Python's
        for number, verdict in enumerate(judged.verdicts):
            after = next((file.after for file in verdict.files if file.path == path), None)
            if after is not None and (wrong := _wrong(path, after)) is not None:
                found.setdefault(number, _syntax(path, after.data, *wrong))
                break
    return found


def _wrong(path: str, entry: Entry | None) -> tuple[str, int] | None:
    is_python = entry is not None and not entry.is_link and path.endswith(".py")
    return why_broken(path, entry.data) if entry is not None and is_python else None


def _syntax(path: str, data: bytes, reason: str, line: int) -> Conflict:
    lines = lines_of(data)
    first = max(0, line - 1 - _AROUND)
    return Conflict(
        problem="syntax", file=path,
        reason=f"it applies, but the file is no Python any more: line {line}: {reason}",
        actual=tuple((first + n + 1, shown(text)) for n, text in enumerate(lines[first : line + _AROUND])),
    )  # fmt: skip


def require(judged: Judged, *, where: str) -> None:
    """Raise `PatchError` with all conflicts and missing targets, where there are any.

    `where` starts the message, for example `FILE: patch NAME`.
    """
    bad = judged.of(*FAILING)
    if not bad:
        return
    lines = [line for verdict in bad for line in told(verdict)]
    of = f" of {len(judged.verdicts)} patches" if len(judged.verdicts) > 1 else ""
    verb = "does" if len(bad) == 1 else "do"
    raise PatchError(f"{where}: {len(bad)}{of or ' patch'} {verb} not apply", details=tuple(lines))


def told(verdict: Verdict) -> list[str]:
    """Return a verdict in lines for people."""
    lines = [f"{verdict.name}: {verdict.state}"]
    lines += [f"  {o.file}: hunk {o.hunk} is {_distance(o)} its place" for o in verdict.offsets]
    lines += [f"  {line}" for line in verdict.evidence]
    lines += [f"  {line}" for conflict in verdict.conflicts for line in told_of(conflict)]
    return lines


def told_of(conflict: Conflict) -> list[str]:
    """Return a conflict in lines for people."""
    hunk = f"hunk {conflict.hunk}: " if conflict.hunk is not None else ""
    lines = [f"{conflict.file}: {hunk}{conflict.reason}"]
    lines += [f"  expected        {line}".rstrip() for line in conflict.expected]
    lines += [f"  actual {number:>7}  {line}".rstrip() for number, line in conflict.actual]
    return lines


def _distance(offset: Offset) -> str:
    lines = abs(offset.lines)
    return f"{lines} line{'s' if lines > 1 else ''} {'below' if offset.lines > 0 else 'above'}"


def plain(conflict: Conflict) -> JsonValue:
    """Return a conflict as JSON values."""
    found: dict[str, JsonValue] = {
        "problem": conflict.problem, "file": conflict.file, "hunk": conflict.hunk, "reason": conflict.reason,
        "expected": list(conflict.expected),
        "actual": [{"line": number, "text": text} for number, text in conflict.actual],
    }  # fmt: skip
    return found


def _sha256(entry: Entry | None) -> str | None:
    return hashlib.sha256(entry.data).hexdigest() if entry is not None else None
