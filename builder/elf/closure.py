"""Follows what programs and libraries need, as glibc's loader does, and tells what it would not find.

The order is the loader's own (ld.so(8), "Rpath token expansion" and the order of the search): a library that the
process has already; DT_RPATH of the one that asks and of those that loaded it, unless they have a DT_RUNPATH;
LD_LIBRARY_PATH; DT_RUNPATH of the one that asks; the cache; the default directories. Standard library only: it
runs in images as well. Files are seen through two functions; nothing here opens one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import dirname, join

from builder.elf.dynamic import Dynamic

_TOKENS = ("ORIGIN", "LIB", "PLATFORM")


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A file in a process: under which path it was found, what it tells, and who asked for it."""

    path: str
    told: Dynamic
    by: Loaded | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a loader looks in an image, and how files are seen.

    `cache` maps names to the paths that ld.so.cache has for them. `lib` and `platform` are what `$LIB` and
    `$PLATFORM` mean. `read` returns what the file at a path tells, None where none can be loaded; `same` returns
    what is equal for two paths of one file.
    """

    read: Callable[[str], Dynamic | None]
    same: Callable[[str], object]
    library_path: tuple[str, ...] = ()
    cache: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default: tuple[str, ...] = ()
    lib: str = "lib"
    platform: str = "x86_64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A library that `asks` needs and a process that starts with `root` does not find."""

    root: str
    asks: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unversioned:
    """A symbol version that `asks` needs from `library`, the file that is found, and that is not in it."""

    root: str
    asks: str
    library: str
    version: str


@dataclass(slots=True, kw_only=True)
class Closure:
    """What a process that starts with a file loads: in order, with what is missing."""

    loaded: list[Loaded]
    missing: list[Missing]
    unversioned: list[Unversioned]


class Loader:
    """Loads in thought. It remembers what it found, so that many files of one image take seconds."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._in = surroundings
        self._found: dict[tuple[str, tuple[str, ...], bool, int], str | None] = {}

    def closure(self, path: str, process: Iterable[Loaded] = ()) -> Closure | None:
        """Return what is loaded for a file, into a process that has some already; None for no such file.

        The first of `process` is its program, which asks for the file.
        """
        told = self._in.read(path)
        if told is None:
            return None
        already = list(process)
        root = Loaded(path, told, already[0] if already else None)
        result = Closure(loaded=[root], missing=[], unversioned=[])
        names = {name: each for each in already for name in _names(each)}
        places = {self._in.same(each.path): each for each in already}
        names.update((name, root) for name in _names(root))
        places[self._in.same(path)] = root
        waiting = deque([root])
        while waiting:
            each = waiting.popleft()
            for name in each.told.needed:
                known = names.get(name)
                if known is None:
                    before = len(places)
                    known = self._load(name, each, names, places)
                    if known is None:
                        result.missing.append(Missing(root=path, asks=each.path, name=name))
                        continue
                    if len(places) > before:
                        result.loaded.append(known)
                        waiting.append(known)
                result.unversioned.extend(_unversioned(path, each, name, known))
        return result

    def find(self, name: str, asks: Loaded) -> str | None:
        """Return the path under which a file finds a library by name; None when it does not."""
        if "/" in name:
            path = self._expanded(name, asks.path)
            return path if path is not None and self._in.read(path) is not None else None
        folders = (*self._inherited(asks), *self._in.library_path, *self._own(asks.told.runpath, asks.path))
        key = (name, folders, asks.told.no_default, asks.told.machine)
        if key not in self._found:
            self._found[key] = self._search(*key)
        return self._found[key]

    def _load(
        self, name: str, asks: Loaded, names: dict[str, Loaded], places: dict[object, Loaded]
    ) -> Loaded | None:
        path = self.find(name, asks)
        if path is None:
            return None
        known = places.get(self._in.same(path))
        if known is None:
            told = self._in.read(path)
            if told is None:
                return None
            known = Loaded(path, told, asks)
            places[self._in.same(path)] = known
            for other in _names(known):
                names.setdefault(other, known)
        names[name] = known
        return known

    def _search(self, name: str, folders: tuple[str, ...], no_default: bool, machine: int) -> str | None:  # noqa: FBT001 -- the key of the memory
        cached = () if no_default else self._in.cache.get(name, ())
        default = () if no_default else self._in.default
        for path in (
            *(join(folder, name) for folder in folders),
            *cached,
            *(join(each, name) for each in default),
        ):
            told = self._in.read(path)
            if told is not None and told.machine == machine:
                return path
        return None

    def _inherited(self, asks: Loaded) -> tuple[str, ...]:
        if asks.told.runpath:
            return ()
        folders: list[str] = []
        each: Loaded | None = asks
        while each is not None:
            folders.extend(self._own(each.told.rpath, each.path))
            each = each.by
        return tuple(folders)

    def _own(self, entries: tuple[str, ...], path: str) -> Iterator[str]:
        for entry in entries:
            folder = self._expanded(entry, path)
            if folder is not None and folder.startswith("/"):  # a relative one depends on where a process starts
                yield folder

    def _expanded(self, text: str, path: str) -> str | None:
        for token, value in zip(_TOKENS, (dirname(path), self._in.lib, self._in.platform), strict=True):
            text = text.replace("${" + token + "}", value).replace("$" + token, value)
        return None if "$" in text else text


def _names(loaded: Loaded) -> Iterator[str]:
    if loaded.told.soname is not None:
        yield loaded.told.soname


def _unversioned(root: str, asks: Loaded, name: str, library: Loaded) -> Iterator[Unversioned]:
    """Yield what the loader dies of; a library without any version is only warned about."""
    if not library.told.defines:
        return
    for version in asks.told.requires.get(name, ()):
        if version not in library.told.defines:
            yield Unversioned(root=root, asks=asks.path, library=library.path, version=version)
