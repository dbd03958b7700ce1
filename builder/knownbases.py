"""What published base images carry, as far as it is known (`data/bases.toml`, `data/glibc.toml`).

Asks no registry.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

import tomli


def carried(image: str) -> tuple[str, ...] | None:
    """Return the packages of a base, named `host/path:tag@digest`; None for a base nothing is known of."""
    name = image.partition("@")[0]
    fitting = [(pattern, packages) for pattern, packages in _bases() if fnmatchcase(name, pattern)]
    return max(fitting, key=lambda entry: len(entry[0]))[1] if fitting else None


def glibc(image: str) -> int | None:
    """Return the minor version of a base's glibc 2; None for a base nothing is known of."""
    name = image.partition("@")[0]
    text = (files("builder") / "data" / "glibc.toml").read_text(encoding="utf-8")
    fitting = [entry for entry in tomli.loads(text)["base"] if fnmatchcase(name, entry["image"])]
    return int(max(fitting, key=lambda entry: len(entry["image"]))["glibc"]) if fitting else None


@cache
def _bases() -> tuple[tuple[str, tuple[str, ...]], ...]:
    text = (files("builder") / "data" / "bases.toml").read_text(encoding="utf-8")
    return tuple((entry["image"], tuple(entry["packages"])) for entry in tomli.loads(text)["base"])
