"""What compatibility rules are about: the pins of one image, as plain values.

Names of components are the recipe's; `amd-aiter` and `aiter` are one thing here. Nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_SAME = {"amd-aiter": "aiter"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesFact:
    """A patch series: its name for messages, the source it is for, the commit it was made for, the one pinned."""

    name: str
    target: str
    made_for: str
    commit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """The pins of one image. `where` is what messages start with, best the recipe's path.

    `rocm` and `python` are versions; `base` is a distribution as `ubuntu-24.04`; `gfx` are plain processors.
    `versions`, `kinds` (wheel, source, apt, base), `tags` and `commits` are by component. `env` is the image's
    environment. `asks` is what a component's metadata asks of others, `{"torch": {"triton": "==3.6.0"}}`.
    `glibcxx` is the newest GLIBCXX version each component's libraries need, `mirrored` the components whose files
    are kept where they cannot vanish.
    """

    where: str
    rocm: str | None = None
    python: str | None = None
    base: str | None = None
    gfx: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    series: tuple[SeriesFact, ...] = ()
    glibcxx: Mapping[str, str] = field(default_factory=dict)
    mirrored: frozenset[str] = frozenset()

    def version(self, name: str) -> str | None:
        """Return the version of a component, or of `rocm` or `python`; None when there is none."""
        match name:
            case "rocm":
                return self.rocm
            case "python":
                return self.python
            case _:
                return by_name(self.versions, name)


def by_name(table: Mapping[str, str], name: str) -> str | None:
    """Return the entry of a component, whatever spelling of its name either side uses."""
    wanted = same_name(name)
    return next((value for key, value in table.items() if same_name(key) == wanted), None)


@lru_cache(maxsize=10_000)
def same_name(name: str) -> str:
    """Return the one spelling of a component's name."""
    normal = canonicalize_name(name)
    return _SAME.get(normal, normal)


def parsed(text: str | None) -> Version | None:
    """Return a version, None for what is none, for example the name of a branch."""
    try:
        return Version(text) if text is not None else None
    except InvalidVersion:
        return None


def satisfies(version: str, specifiers: tuple[str, ...]) -> bool | None:
    """Return whether a version is in one of the sets, None when it is no version. `*` is any version."""
    number = parsed(version)
    if "*" in specifiers:
        return True
    if number is None:
        return None
    return any(SpecifierSet(text).contains(number, prereleases=True) for text in specifiers)
