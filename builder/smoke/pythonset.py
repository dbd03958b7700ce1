"""What a recipe and its lock promise of the Python distributions of an image. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedDistribution:
    """A distribution that has to be there at one version.

    `file` and `sha256` are those of its wheel, `record` what `inside.records.identity` makes of the RECORD in it;
    None where the wheel is built here, or is not at hand.
    """

    project: str
    version: str
    layer: str
    file: str | None = None
    sha256: str | None = None
    record: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSet:
    """The Python distributions that an image has to have.

    `debian` maps those that a Debian package has to bring to the package. `requires` are the requirements that
    count for a distribution instead of what its metadata asks for, `extras` what is installed of its extras.
    `forbid` are patterns of names. `foreign_base` is the published image below, whose own distributions nobody
    listed. `edited` are files below `site-packages` that the recipe's patches change.
    """

    distributions: tuple[LockedDistribution, ...] = ()
    debian: Mapping[str, str] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    forbid: tuple[str, ...] = ()
    foreign_base: str | None = None
    edited: tuple[str, ...] = ()

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> PythonSet:
        """Read back what `dataclasses.asdict` made."""
        named = {name: tuple(table[name]) for name in ("protected", "forbid", "edited")}
        lists = {name: {key: tuple(each) for key, each in table[name].items()} for name in ("requires", "extras")}
        files = tuple(LockedDistribution(**entry) for entry in table["distributions"])
        return cls(**{**table, **named, **lists, "distributions": files})


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A finding that a recipe accepts: of which kind, about what ('*' for any text), why, and until when.

    `until` is a requirement such as `torch==2.11.0`: it lasts while the image fulfils it.
    """

    finding: str
    subject: str
    reason: str
    until: str
