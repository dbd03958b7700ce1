"""Where the reading of a Dockerfile is: stages, variables, folders and trees, and the draft that it fills."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from builder.adopt.draft import Draft, Entry, Mark
from builder.adopt.shell import Word
from builder.adopt.words import Filled, fill, fill_text, without_secrets

Role = Literal["build", "runtime"]
BOTH: frozenset[Role] = frozenset(("build", "runtime"))
SITE = "/site-packages"
UNKNOWN = "/.unknown"  # the folder that a command changed to, where that is not known; no tree is in it
# What scripts ask Python in order to find the folder of a package.
_ASKS_PYTHON = re.compile(r"^\$\((?:\S*/)?python3?[0-9.]* -c ['\"](?P<code>.*)['\"]\)$", re.DOTALL)
_PACKAGE = re.compile(
    r"\b(?P<name>[A-Za-z_][A-Za-z0-9_]*)\.__(?:path|file)__|find_spec\(['\"](?P<spec>\w+)['\"]\)"
)
_INSTALLED = re.compile(r"/(?:site|dist)-packages/(?P<path>.+)$")


@dataclass(kw_only=True)
class Stage:
    """A stage: its name, what it starts from, and for which stages of the recipe it counts; none if unused."""

    number: int
    name: str | None
    image: str
    parent: int | None
    roles: frozenset[Role]
    line: int
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = "/"
    trees: dict[str, str] = field(default_factory=dict)
    copied: dict[str, str] = field(default_factory=dict)
    installed: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Checkout:
    """A name or commit that a clone was set to, and the variable it came from."""

    ref: str
    entry: Entry
    variable: str | None
    unknown: bool = False


@dataclass(kw_only=True)
class State:
    """Everything known so far.

    A stage's `trees` are the folders that hold the tree of a source, its `copied` what came from the build
    context, each by its path in the stage's file system.
    """

    file: str
    draft: Draft
    stages: list[Stage]
    entries: list[Entry] = field(default_factory=list)
    stage: Stage | None = None
    scope: dict[str, str] = field(default_factory=dict)
    globals: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, list[Entry]] = field(default_factory=dict)
    used: dict[str, list[Entry]] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    entry: Entry | None = None
    checkouts: dict[str, list[Checkout]] = field(default_factory=dict)
    cloned: dict[str, Entry] = field(default_factory=dict)
    last_run: int = 0  # the line of the last command of the stages that build
    given: dict[str, str] = field(default_factory=dict)
    counts: list[tuple[Entry, str, str, int]] = field(default_factory=list)
    renovate: dict[str, str] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    guards: list[tuple[Entry, str]] = field(default_factory=list)
    no_deps: dict[str, Entry] = field(default_factory=dict)
    tools: list[tuple[str, Entry]] = field(default_factory=list)
    build_env: dict[str, str] = field(default_factory=dict)
    gfx_variables: list[str] = field(default_factory=list)
    gfx_values: list[tuple[Entry, str, list[str]]] = field(default_factory=list)
    workdirs: list[tuple[str, Entry]] = field(default_factory=list)
    users: list[tuple[str, Entry]] = field(default_factory=list)
    made_users: dict[str, tuple[str | None, Entry]] = field(default_factory=dict)
    served: dict[str, Entry] = field(default_factory=dict)

    @property
    def roles(self) -> frozenset[Role]:
        """What the current stage counts for."""
        return self.stage.roles if self.stage is not None else frozenset()

    @property
    def trees(self) -> dict[str, str]:
        """The folders of the current stage that hold the tree of a source, with its name."""
        return self.stage.trees if self.stage is not None else {}

    @property
    def installed(self) -> list[str]:
        """What builds of the current stage find installed, of what images protect."""
        return self.stage.installed if self.stage is not None else []

    @property
    def copied(self) -> dict[str, str]:
        """What came from the build context into the current stage, by its path there."""
        return self.stage.copied if self.stage is not None else {}

    @property
    def cwd(self) -> str:
        """The folder that commands run in."""
        return self.stage.cwd if self.stage is not None else "/"

    @cwd.setter
    def cwd(self, path: str) -> None:
        if self.stage is not None:
            self.stage.cwd = path

    def begin(self, text: str, first: int, last: int, *, comment: bool = False) -> Entry:
        """Open the account of a part of the input."""
        entry = Entry(text=" ".join(text.split()), first=first, last=last, comment=comment)
        self.entries.append(entry)
        self.entry = entry
        return entry

    def mark(self, text: str) -> Mark:
        """Return a new open point of the current part of the input; the caller puts it where its value belongs."""
        entry = self.account
        mark = Mark(text=text, line=entry.first)
        entry.marks.append(mark)
        return mark

    def undecided(self, text: str) -> None:
        """Note a point that no key is known for."""
        mark = self.mark(text)
        self.draft.undecided.append(mark)

    def leave(self, why: str) -> None:
        """Note why the current part of the input is not in the draft."""
        self.account.left = why

    def into(self, *keys: str) -> None:
        """Note the keys that the current part of the input became."""
        self.account.into(*keys)

    def note_gfx_variable(self, name: str) -> None:
        """Note that builds are told the GPU targets by a variable."""
        if name not in self.gfx_variables:
            self.gfx_variables.append(name)

    @property
    def account(self) -> Entry:
        """The part of the input that is read."""
        if self.entry is None:
            raise AssertionError("nothing is read")
        return self.entry

    def _use(self, name: str) -> None:
        users = self.used.setdefault(name, [])
        if self.entry is not None and self.entry not in users:
            users.append(self.entry)

    def expand(self, word: Word) -> Filled:
        """Return the text of a word, with the folder of a package where Python is asked for one."""
        pieces = tuple((_folder_of(text) if expands else text, expands) for text, expands in word.pieces)
        return fill(Word(pieces=pieces, raw=word.raw), self.scope, self._use)

    def expand_all(self, words: Iterable[Word]) -> list[Filled]:
        """Return the texts of words; one that is variables without quotes is as many words as its value has."""
        found: list[Filled] = []
        for word in words:
            filled = self.expand(word)
            bare = "$" in word.raw and all(expands for _, expands in word.pieces)
            found += map(Filled, filled.text.split()) if bare and not filled.unknown else [filled]
        return found

    def expand_text(self, text: str) -> Filled:
        """Return a text with its variables filled in."""
        return fill_text(text, self.scope, self._use)

    def shown(self, text: str) -> str:
        """Return a text of the input without secrets."""
        return without_secrets(text, frozenset(self.secrets))

    def path(self, text: str) -> str:
        """Return a path as seen from the current folder."""
        return posixpath.normpath(posixpath.join(self.cwd, text))

    def tree_of(self, path: str) -> tuple[str, str] | None:
        """Return the source whose tree a path is in, and the path in the tree, '.' for its root."""
        below = [folder for folder in self.trees if path == folder or path.startswith(f"{folder.rstrip('/')}/")]
        if not below:
            return None
        folder = max(below, key=len)
        return self.trees[folder], posixpath.relpath(path, folder)

    def origin_of(self, path: str) -> str | None:
        """Return which path of the build context was copied to a path of the image."""
        for folder in sorted(self.copied, key=len, reverse=True):
            if path == folder:
                return self.copied[folder]
            if path.startswith(f"{folder.rstrip('/')}/"):
                return posixpath.normpath(posixpath.join(self.copied[folder], posixpath.relpath(path, folder)))
        return None


def installed_path(path: str) -> str | None:
    """Return a path below `site-packages`, None for others."""
    found = _INSTALLED.search(path)
    return found["path"] if found is not None else None


def _folder_of(text: str) -> str:
    asked = _ASKS_PYTHON.match(text)
    if asked is None:
        return text
    package = _PACKAGE.search(asked["code"])
    if package is not None:
        return f"{SITE}/{package['name'] or package['spec']}"
    return SITE if "getsitepackages" in asked["code"] or "purelib" in asked["code"] else text


def named(text: str) -> str:
    """Return a text as the name of a source or patch."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:56].strip("-") or "unnamed"


def free_name(wanted: str, taken: list[str]) -> str:
    """Return a name that is not taken: with a number at its end where it has to be."""
    number, name = 2, wanted
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name
