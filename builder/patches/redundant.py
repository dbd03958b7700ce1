"""Proves from contents that a tree has what a patch would bring. A reverse apply is no proof, and is not tried.

New lines have to be there exactly once and in order, old ones nowhere; whole files have to be identical.
"""

from __future__ import annotations

from builder.patches.binary import matches
from builder.patches.diff import FileChange, PatchFile
from builder.patches.places import find, lines_of, occurrences, place, replaced
from builder.patches.tree import Entry, Tree, parents


def already_there(patch: PatchFile, tree: Tree) -> tuple[str, ...] | None:
    """Return the proof, one line for each change, None where one of them cannot be proven."""
    proofs = []
    for change in patch.changes:
        proof = _proof(change, tree)
        if proof is None:
            return None
        proofs.append(f"{change.path}: {proof}")
    return tuple(proofs)


def _proof(change: FileChange, tree: Tree) -> str | None:
    if any(tree.kind(folder) not in ("folder", None) for path in change.paths for folder in parents(path)):
        return None
    entry = tree.read(change.path)
    if change.action == "delete":
        folder = change.path.rpartition("/")[0]
        gone = tree.kind(change.path) is None and tree.kind(folder) == "folder"
        return "the file it deletes is gone" if gone else None
    if entry is None or (change.mode is not None and entry.mode != change.mode):
        return None
    if change.binary is not None:
        return "its contents are the new ones" if matches(entry.data, change.binary.new) else None
    match change.action:
        case "create":
            new = b"".join(line for hunk in change.hunks for line in hunk.new)
            return "the file is there, identical" if entry.data == new else None
        case "rename" if tree.kind(str(change.source)) is not None or not change.hunks:
            return None
        case "copy":
            made = _copied(change, tree)
            return "the file is there, identical" if made is not None and entry.data == made else None
        case _:
            return _lines_there(change, entry) if change.hunks else "it has that mode"


def _lines_there(change: FileChange, entry: Entry) -> str | None:
    lines = lines_of(entry.data)
    end, numbers = 0, []
    for hunk in change.hunks:
        there = tuple(find(hunk.new, lines))
        if len(there) != 1 or there[0] < end or next(occurrences(hunk, lines), None) is not None:
            return None
        end = there[0] + len(hunk.new)
        numbers.append(str(there[0] + 1))
    return f"its new lines are there once, at line {', '.join(numbers)}, its old ones nowhere"


def _copied(change: FileChange, tree: Tree) -> bytes | None:
    source = tree.read(str(change.source))
    if source is None:
        return None
    lines = lines_of(source.data)
    places = [at for at in place(change.hunks, lines) if isinstance(at, int)]
    return replaced(lines, change.hunks, places) if len(places) == len(change.hunks) else None
