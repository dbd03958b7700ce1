"""Which Debian or Ubuntu package brings a header, a library, a program or a Python module.

The knowledge is data (`data/providers.toml`); this module looks things up in it and must not ask a machine,
an archive or an image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Literal

import tomli

Kind = Literal["header", "library", "program", "module"]
_TABLES: dict[Kind, str] = {
    "header": "headers", "library": "libraries", "program": "programs", "module": "modules",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What brings `need`: the first of `packages` is the one to advise, every other one brings it as well.

    `also` holds patterns of further package names that count, for example `g++-[0-9]*`.
    """

    need: str
    kind: Kind
    packages: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The package to advise."""
        return self.packages[0]

    def among(self, listed: Iterable[str]) -> str | None:
        """Return the first package of a recipe's list that brings the need, without its version."""
        for entry in listed:
            name = package_name(entry)
            if name in self.packages or any(fnmatchcase(name, pattern) for pattern in self.also):
                return name
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    pattern: str
    packages: tuple[str, ...]
    also: tuple[str, ...]

    @property
    def rank(self) -> tuple[bool, int]:
        """How well a match of this pattern describes: exact names first, then the longest pattern."""
        return ("*" not in self.pattern, len(self.pattern))


def for_header(name: str) -> Provider | None:
    """Return what brings a header, named as between `<` and `>`: `openssl/sha.h`, `cmath`."""
    return _look_up(name, "header")


def for_library(name: str) -> Provider | None:
    """Return what brings a library for linking, named as after `-l`: `crypto`."""
    return _look_up(name, "library")


def for_program(name: str) -> Provider | None:
    """Return what brings a program, named as it is looked up on PATH: `ninja`."""
    return _look_up(name, "program")


def for_module(name: str) -> Provider | None:
    """Return what brings a Python module; a submodule is looked up by its top-level name."""
    return _look_up(name.partition(".")[0], "module")


def package_name(entry: str) -> str:
    """Return the name in an apt list entry: `libssl-dev:amd64=3.5.1-1` is `libssl-dev`."""
    return re.split(r"[:=/ ]", entry.strip(), maxsplit=1)[0]


def _look_up(name: str, kind: Kind) -> Provider | None:
    fitting = [rule for rule in _rules()[kind] if fnmatchcase(name, rule.pattern)]
    if not fitting:
        return None
    best = max(fitting, key=lambda rule: rule.rank)
    return Provider(need=name, kind=kind, packages=best.packages, also=best.also)


@cache
def _rules() -> dict[Kind, tuple[_Rule, ...]]:
    text = (files("builder") / "data" / "providers.toml").read_text(encoding="utf-8")
    providers = tomli.loads(text)["provider"]
    return {
        kind: tuple(
            _Rule(pattern=pattern, packages=tuple(entry["packages"]), also=tuple(entry.get("also", ())))
            for entry in providers
            for pattern in entry.get(table, ())
        )
        for kind, table in _TABLES.items()
    }
