"""Reads what git prints: refs of a remote, submodules of a tree, their addresses. Text in, values out.

What git prints is what a repository says, and that may be anything. Nothing is asked for here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_OBJECT = re.compile(r"[0-9a-f]{40}")
_SCP = re.compile(r"([\w.-]+@)?([\w.-]+):(?![/:])(.+)")  # how ssh itself names a remote file


class Malformed(ValueError):
    """git's output is not what git writes. The message is a fact, in lower case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The tree of a commit: how many folders deep its deepest path lies, and its submodules, path to commit."""

    depth: int
    submodules: dict[str, str]


def refs_in(listed: str, wanted: Collection[str]) -> dict[str, str]:
    """Return the wanted refs of what `git ls-remote` lists, with the object of each. Raises `Malformed`."""
    pairs = (line.split("\t", 1) for line in listed.split("\n") if "\t" in line)
    found = {name: object_ for object_, name in pairs if name in wanted}
    for name, object_ in found.items():
        if not _OBJECT.fullmatch(object_):
            raise Malformed(f"{name} is told to be at {object_[:80]!r}, which is no commit of 40 hex digits")
    return found


def listing_in(listed: str) -> Listing:
    """Return what `git ls-tree -r -z` lists. Raises `Malformed`."""
    depth, submodules = 0, {}
    for entry in listed.split("\0"):
        if not entry:
            continue
        meta, tab, name = entry.partition("\t")
        words = meta.split(" ")
        if not tab or not name or len(words) != 3 or not _OBJECT.fullmatch(words[2]):
            raise Malformed(f"an entry of a tree reads {entry[:80]!r}")
        depth = max(depth, name.count("/"))
        if words[0] == "160000":
            submodules[name] = words[2]
    return Listing(depth=depth, submodules=submodules)


def addresses_in(listed: str) -> dict[str, str]:
    """Return the address of each submodule by its path, from what `git config --null --list` lists."""
    settings = dict(entry.split("\n", 1) for entry in listed.split("\0") if "\n" in entry)
    keys = [key for key in settings if key.startswith("submodule.") and key.endswith(".path")]
    names = [key.removeprefix("submodule.").removesuffix(".path") for key in keys]
    return {
        settings[f"submodule.{name}.path"]: settings[f"submodule.{name}.url"]
        for name in names
        if f"submodule.{name}.url" in settings
    }


def resolved(url: str, parent: str) -> str:
    """Return a submodule's address; a relative one starts from its parent's, as git has it."""
    if not url.startswith(("./", "../")):
        short = None if "://" in url else _SCP.fullmatch(url)
        return f"ssh://{short[1] or ''}{short[2]}/{short[3]}" if short else url
    base = parent.rstrip("/")
    while url.startswith(("./", "../")):
        if url.startswith("../"):
            base = base.rpartition("/")[0]
        url = url.split("/", 1)[1]
    return f"{base}/{url}"
