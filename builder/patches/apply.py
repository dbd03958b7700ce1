"""Applies a patch to a tree, whole or not at all: no fuzz, no merging, no guesses.

It reads the files that the patch names and nothing else, and returns changes. Writing them is done elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from builder.patches.binary import Broken
from builder.patches.diff import FileChange, PatchFile
from builder.patches.nearest import explain
from builder.patches.places import Offset, Unplaced, lines_of, place, replaced
from builder.patches.tree import FILE, LINK, Entry, Kind, Layer, Tree, leads_outside, parents, shown

Problem = Literal["not-found", "already-there", "exists", "link", "kind", "contents", "syntax", "missing", "value"]
_MOST_LINES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Why a patch does not apply to a file. `hunk` counts from 1; `actual` are numbered lines that are there."""

    problem: Problem
    file: str
    reason: str
    hunk: int | None = None
    expected: tuple[str, ...] = ()
    actual: tuple[tuple[int, str], ...] = ()


@dataclass(kw_only=True, slots=True)
class Applied:
    """What a patch comes to: changed paths (None: deleted), hunks that were moved, and what is in the way."""

    changes: dict[str, Entry | None] = field(default_factory=dict)
    offsets: list[Offset] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)


def apply_patch(patch: PatchFile, tree: Tree) -> Applied:
    """Apply a patch. The changes count only where there is no conflict; all conflicts are found."""
    done = Applied()
    for part in patch.parts:
        _Part(Layer(tree, done.changes), part, done).run()
    return done


class _Part:
    """One diff: every change of it starts from the tree as it was before the diff."""

    def __init__(self, before: Tree, changes: tuple[FileChange, ...], done: Applied) -> None:
        self._before = before
        self._changes = changes
        self._done = done
        self._gone = {str(c.source) for c in changes if c.action in ("delete", "rename")}
        self._made: dict[str, Entry | None] = {}

    def run(self) -> None:
        for change in self._changes:
            self._one(change)
        after = Layer(self._before, self._made)
        for change in self._changes:
            if change.action != "delete":
                self._require_real(change.path, after)
                self._require_link_inside(change.path, after)
        self._done.changes.update(self._made)

    def _one(self, change: FileChange) -> None:
        entry = Entry(mode=change.mode or FILE, data=b"")
        if change.source is not None:
            found = self._found(change, change.source)
            if found is None:
                return
            entry = found
        if change.path != change.source and not self._is_free(change.path):
            return
        data = self._contents(change, entry)
        if data is None:
            return
        if change.action == "delete":
            if data:
                self._refuse("contents", change.path, "it is to be deleted, but holds more than the patch knows")
            else:
                self._made[change.path] = None
            return
        if change.action == "rename":
            self._made.setdefault(str(change.source), None)
        self._made[change.path] = Entry(mode=change.mode or entry.mode, data=data)

    def _found(self, change: FileChange, source: str) -> Entry | None:
        """Return the file that a change starts from."""
        if not self._require_real(source, self._before):
            return None
        entry = self._before.read(source)
        if entry is None:
            if self._before.kind(source) == "folder":
                self._refuse("kind", source, "it is a folder")
            else:
                self._refuse("missing", source, "there is no such file")
            return None
        expected = entry.is_link if change.was is None and not change.hunks else change.was == LINK
        if expected != entry.is_link:
            where = f" to {shown(entry.data)!r}{self._outside(source, entry)}" if entry.is_link else ""
            self._refuse(
                "link", source, f"it is a {'link' + where if entry.is_link else 'file'}, not what the patch says"
            )
            return None
        return entry

    def _contents(self, change: FileChange, entry: Entry) -> bytes | None:
        """Return the contents a change makes, None where it cannot."""
        if change.binary is not None:
            try:
                return change.binary.applied(entry.data)
            except Broken as error:
                self._refuse("contents", change.source or change.path, str(error))
                return None
        if not change.hunks:
            return entry.data
        lines = lines_of(entry.data)
        file = change.source or change.path
        placed: list[int] = []
        for hunk, at in zip(change.hunks, place(change.hunks, lines), strict=True):
            if isinstance(at, Unplaced):
                self._done.conflicts.append(unplaced(file, at, lines))
                continue
            placed.append(at)
            if at != hunk.at:
                self._done.offsets.append(Offset(file=file, hunk=hunk.number, lines=at - hunk.at))
        return replaced(lines, change.hunks, placed) if len(placed) == len(change.hunks) else None

    def _is_free(self, path: str) -> bool:
        kind = None if path in self._gone else self._before.kind(path)
        if kind is not None and self._require_real(path, self._before):
            self._refuse("exists", path, f"it is to be made, but there is a {kind} already")
        return kind is None

    def _require_real(self, path: str, tree: Tree) -> bool:
        """Refuse a path that goes through a link or a file."""
        for folder in parents(path):
            kind = tree.kind(folder)
            if kind == "folder":
                continue
            if kind is None:
                return True  # nothing below it either
            entry = tree.read(folder)
            if entry is not None and entry.is_link:
                where = f"the link {folder!r}, which leads to {shown(entry.data)!r}{self._outside(folder, entry)}"
            else:
                where = f"{folder!r}, which is a file"
            self._refuse("link", path, f"its path goes through {where}")
            return False
        return True

    def _require_link_inside(self, path: str, after: Tree) -> None:
        entry = self._made.get(path)
        if entry is not None and entry.is_link and leads_out(after, path, entry):
            self._refuse("link", path, f"it becomes a link that leads out of the tree, to {shown(entry.data)!r}")

    def _outside(self, path: str, entry: Entry) -> str:
        return ", outside the tree" if leads_out(self._before, path, entry) else ""

    def _refuse(self, problem: Problem, file: str, reason: str) -> None:
        conflict = Conflict(problem=problem, file=file, reason=reason)
        if conflict not in self._done.conflicts:
            self._done.conflicts.append(conflict)


def unplaced(file: str, hunk: Unplaced, lines: list[bytes]) -> Conflict:
    """Return the conflict of a hunk that has no place, with the lines that come nearest."""
    reason, at = explain(hunk, lines)
    length = max(1, min(len(hunk.hunk.old), _MOST_LINES))
    first = _first_difference(hunk.hunk.old, lines[at:])
    skip = max(0, min(first - length // 2, len(hunk.hunk.old) - length))
    return Conflict(
        problem="already-there" if hunk.there else "not-found",
        file=file, reason=reason, hunk=hunk.hunk.number,
        expected=tuple(shown(line) for line in hunk.hunk.old[skip : skip + length]),
        actual=tuple((at + skip + n + 1, shown(line)) for n, line in enumerate(lines[at + skip :][:length])),
    )  # fmt: skip


def _first_difference(wanted: tuple[bytes, ...], there: list[bytes]) -> int:
    return next((n for n, (a, b) in enumerate(zip(wanted, there, strict=False)) if a != b), 0)


def leads_out(tree: Tree, path: str, link: Entry) -> bool:
    """Return whether a link leads out of its tree, over other links of the tree as well."""
    return leads_outside(path, _target(link)) or not _stays(tree, path, _target(link), patience=40)


def _target(link: Entry) -> str:
    return link.data.decode("utf-8", "surrogateescape")


def _stays(tree: Tree, path: str, target: str, *, patience: int) -> bool:
    if target.startswith("/"):
        return False
    place = path.split("/")[:-1]
    for part in _steps(target):
        if part == "..":
            if not place:
                return False
            place.pop()
            continue
        place.append(part)
        here = "/".join(place)
        kind: Kind | None = tree.kind(here)
        entry = tree.read(here) if kind == "link" else None
        if entry is not None:
            if patience == 0:
                return True  # links in a circle lead nowhere
            if not _stays(tree, here, _target(entry), patience=patience - 1):
                return False
            place = _resolved(here, _target(entry))
    return True


def _steps(target: str) -> Iterator[str]:
    return (part for part in target.split("/") if part not in ("", "."))


def _resolved(path: str, target: str) -> list[str]:
    place = path.split("/")[:-1]
    for part in _steps(target):
        if part == "..":
            place = place[:-1]
        else:
            place.append(part)
    return place
