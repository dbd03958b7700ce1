"""The lock beside a recipe: everything the recipe leaves open, as values, and its TOML form.

Only `rocm-images lock` writes locks. A lock remembers what it was asked for, so that one that no longer fits its
recipe can say what differs. It names files by hash and by the index they come from as the recipe calls it,
never by the address they happened to be fetched from.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal

import tomli
import tomli_w
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.errors import LockError
from builder.grammar import Between, Number, only
from builder.problems import problems
from builder.recipe import Component, Recipe, Sha256, type_tuple

SCHEMA = 1
_LAST_SECOND = 253402300799  # of the year 9999, which dates of images are written with
DEPENDENCIES = "dependencies"  # the layer of every resolved distribution that is not a component of its own


class _Table(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=lambda name: name.rstrip("_").replace("_", "-")
    )


class DebianPackage(_Table):
    """One binary package of the bootstrapped base, or of the stages on it."""

    name: Annotated[str, Field(description="Name of the binary package.")]
    version: Annotated[str, Field(description="Version with epoch and revision.")]
    file: Annotated[str, Field(description="Path in the archive.")]
    size: Annotated[int, Field(description="Size in bytes.")]
    sha256: Annotated[Sha256, Field(description="Hash of the file.")]
    stage: Annotated[
        Literal["base", "build", "runtime", "both"],
        Field(description="Whether it is in the base, or which stage adds it."),
    ]


class PythonFile(_Table):
    """One wheel of the resolved set."""

    project: Annotated[str, Field(description="Normal name of the distribution.")]
    version: Annotated[str, Field(description="Version, with its local part.")]
    file: Annotated[str, Field(description="Name of the wheel.")]
    size: Annotated[int | None, Field(description="Size in bytes, where the index says it.")] = None
    sha256: Annotated[Sha256, Field(description="Hash of the file.")]
    index: Annotated[
        str | None, Field(description="Its index as the recipe calls it; the client's own when missing.")
    ] = None
    layer: Annotated[str, Field(description="The component it belongs to, or 'dependencies'.")]


class LockedSource(_Table):
    """The tree of a source."""

    tree: Annotated[Sha256, Field(description="Hash over names, modes and contents.")]


class Lock(_Table):
    """Everything a build takes from outside, by content."""

    schema_: Annotated[
        Literal[1],
        only(SCHEMA, "the only format this version reads"),
        Field(description="Version of this format."),
    ]
    image: Annotated[str, Field(description="Name of the image it was made for.")]
    epoch: Annotated[
        int,
        Between(0, _LAST_SECOND),
        Field(
            description="Seconds since 1970 when the suite was published: the time of every file a build makes."
        ),
    ]
    asked: Annotated[
        dict[str, str], Field(description="What the recipe asked for when it was made, as canonical JSON.")
    ]
    source: Annotated[dict[str, LockedSource], Field(description="Trees of the recipe's sources by name.")] = {}
    deb: Annotated[tuple[DebianPackage, ...], type_tuple, Field(description="Debian packages.")] = ()
    python: Annotated[tuple[PythonFile, ...], type_tuple, Field(description="Python distributions.")] = ()

    def packages(self, stage: Literal["base", "build", "runtime"]) -> tuple[DebianPackage, ...]:
        """Return the Debian packages of the base, or those a stage adds to it."""
        wanted = ("base",) if stage == "base" else (stage, "both")
        return tuple(package for package in self.deb if package.stage in wanted)

    def wheels(self, layer: str) -> tuple[PythonFile, ...]:
        """Return the wheels of one layer."""
        return tuple(file for file in self.python if file.layer == layer)


def asked(recipe: Recipe) -> dict[str, str]:
    """Return what a recipe asks its lock for, by key path, each value as canonical JSON."""
    wanted: dict[str, object] = {"python": recipe.python, "forbid": sorted(recipe.forbid)}
    for stage in ("build", "runtime"):
        base = recipe.base.build if stage == "build" else recipe.base.runtime
        if base.debian is not None:
            wanted[f"base.{stage}.debian"] = base.debian.model_dump(by_alias=True)
        wanted[f"base.{stage}.apt"] = sorted(base.apt)
    for component in recipe.component:
        wanted[f"component.{component.name}"] = _component(component)
    for name, source in recipe.source.items():
        wanted[f"source.{name}"] = source.model_dump(by_alias=True)
    return {key: json.dumps(value, sort_keys=True) for key, value in sorted(wanted.items())}


def _component(component: Component) -> dict[str, object]:
    keys = {"wheel", "source", "apt", "version", "index", "requires"}
    return component.model_dump(by_alias=True, include=keys, exclude_none=True, mode="json")


def differences(recipe: Recipe, lock: Lock) -> tuple[str, ...]:
    """Return, in words, where a lock was made for another recipe than this one; empty when it fits."""
    new, old = asked(recipe), lock.asked
    return tuple(
        f"{key}: locked for {old.get(key, 'nothing')}, the recipe says {new.get(key, 'nothing')}"
        for key in sorted(new.keys() | old.keys())
        if new.get(key) != old.get(key)
    )


def dump_lock(lock: Lock) -> str:
    """Return the lock as TOML; the same lock gives the same text."""
    table = lock.model_dump(by_alias=True, exclude_none=True, mode="json")
    return (
        "# Written by `rocm-images lock`; do not edit. What the recipe leaves open, by content.\n\n"
        + tomli_w.dumps(table)
    )


def parse_lock(text: str, *, file: str) -> Lock:
    """Return the lock in `text`; `file` is how messages call it. Raises `LockError`."""
    remedy = "make it again with: rocm-images lock"
    try:
        table = tomli.loads(text, parse_float=Number)
        return Lock.model_validate(table)
    except tomli.TOMLDecodeError as error:
        raise LockError(f"{file}: not a TOML file, it may have been cut short: {error}", hint=remedy) from error
    except ValidationError as error:
        details = tuple(sorted({str(problem) for problem in problems(error, table, Lock)}))
        raise LockError(f"{file}: not a lock this version can read", details=details[:10], hint=remedy) from error


def gaps(recipe: Recipe, lock: Lock) -> tuple[str, ...]:
    """Return, in words, what a recipe asks for and its lock does not hold, although it was made for it."""
    found = [f"image: made for {lock.image}, the recipe is {recipe.name}"] if lock.image != recipe.name else []
    for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime)):
        if base.debian is not None:
            held = {package.name for package in lock.deb if package.stage in ("base", "both", stage)}
            found += [
                f"base.{stage}.apt: no package {name} for this stage" for name in base.apt if name not in held
            ]
    wheels = {(file.layer, file.project) for file in lock.python}
    found += [
        f"component.{component.name}: no wheel of {component.wheel}"
        for component in recipe.wheels
        if (component.name, str(canonicalize_name(component.wheel or ""))) not in wheels
    ]
    found += [f"source.{name}: no tree" for name in recipe.source if name not in lock.source]
    entries = Counter([f"deb.{package.name}" for package in lock.deb])
    entries.update(f"python.{file.project}" for file in lock.python)
    found += [f"{entry}: more than once" for entry, count in entries.items() if count > 1]
    return tuple(sorted(found))


def require_fit(recipe: Recipe, lock: Lock, *, file: str) -> None:
    """Raise `LockError` with every difference when `lock` was made for another recipe, or is not whole."""
    hint = f"rocm-images lock {recipe.name}"
    if found := differences(recipe, lock):
        raise LockError(f"{file}: made for another recipe than the one beside it", details=found, hint=hint)
    if found := gaps(recipe, lock):
        raise LockError(f"{file}: not whole, it was cut short or edited", details=found, hint=hint)


def canonical(table: Mapping[str, object]) -> bytes:
    """Return canonical JSON: sorted keys, no spaces, UTF-8. What content keys are hashes of."""
    return json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
