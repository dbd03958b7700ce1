"""Trees as patches see them: files by path, read when they are asked for, and changes on top of them.

It knows paths, modes and bytes. Where the bytes come from, and what is done with them, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

FILE, PROGRAM, LINK = 0o100644, 0o100755, 0o120000

Kind = Literal["file", "link", "folder"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file, a program or a link, by git's mode of it. The data of a link is where it leads."""

    mode: int
    data: bytes

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode == LINK


class Tree(Protocol):
    """Files below one folder. Paths are relative, with `/`; bytes that are no UTF-8 are escaped as Python does."""

    def read(self, path: str) -> Entry | None:
        """Return the file or link at a path, None where there is a folder or nothing. Links are not followed."""
        ...

    def kind(self, path: str) -> Kind | None:
        """Return what is at a path; '' is the tree's own folder."""
        ...


class Held:
    """A tree whose files are all in memory."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = dict(entries)
        self._folders = {parent for path in entries for parent in parents(path)} | {""}

    @classmethod
    def of(cls, texts: Mapping[str, bytes]) -> Held:
        """Return a tree of plain files."""
        return cls({path: Entry(mode=FILE, data=data) for path, data in texts.items()})

    def read(self, path: str) -> Entry | None:
        """See `Tree.read`."""
        return self.entries.get(path)

    def kind(self, path: str) -> Kind | None:
        """See `Tree.kind`."""
        return kind_of(self.entries.get(path)) or ("folder" if path in self._folders else None)


class Layer:
    """A tree with changes on top; a path whose change is None is deleted."""

    def __init__(self, below: Tree, changes: Mapping[str, Entry | None]) -> None:
        self.below: Tree = below.below if isinstance(below, Layer) else below
        self.changes: dict[str, Entry | None] = {
            **(below.changes if isinstance(below, Layer) else {}),
            **changes,
        }
        self._folders: set[str] | None = None

    def read(self, path: str) -> Entry | None:
        """See `Tree.read`."""
        return self.changes[path] if path in self.changes else self.below.read(path)

    def kind(self, path: str) -> Kind | None:
        """See `Tree.kind`. A folder whose files are all deleted still counts as one."""
        if path in self.changes:
            return kind_of(self.changes[path]) or ("folder" if path in self._made() else None)
        return self.below.kind(path) or ("folder" if path in self._made() else None)

    def _made(self) -> set[str]:
        """Return the folders of what was added; worked out when first asked, as most patches add nothing."""
        if self._folders is None:
            added = (path for path, entry in self.changes.items() if entry is not None)
            self._folders = {parent for path in added for parent in parents(path)}
        return self._folders


def parents(path: str) -> list[str]:
    """Return the folders above a path, outermost first, without the tree's own."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def kind_of(entry: Entry | None) -> Kind | None:
    """Return what an entry is."""
    if entry is None:
        return None
    return "link" if entry.is_link else "file"


def why_outside(path: str) -> str | None:
    """Return why a path does not stay in its tree, or must not be touched there; None for one that does."""
    parts = path.split("/")
    if path.startswith("/"):
        return "is an absolute path"
    if ".." in parts:
        return "leaves the tree"
    if not path or "" in parts or "." in parts or "\0" in path:
        return "is no path of a file"
    if any(part.lower() == ".git" for part in parts):
        return "belongs to git, not to the tree"
    return None


def leads_outside(link: str, target: str) -> bool:
    """Return whether a link at a path of the tree leads out of it, judged by its text alone."""
    if target.startswith("/"):
        return True
    depth = link.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False


def shown(data: bytes) -> str:
    """Return a line of a file as messages show it: without its end, what is no text escaped."""
    text = data.removesuffix(b"\n").decode("utf-8", "backslashreplace")
    return text.replace("\r", "\\r")
