"""The lock beside a recipe: everything the recipe leaves open, as values, and its TOML form.

Only `rocm-images lock` writes locks. A lock remembers what it was asked for, so that one that no longer fits its
recipe can say what differs. It names files by hash and by the index they come from as the recipe calls it,
never by the address they happened to be fetched from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Literal

import tomli
import tomli_w
from packaging.utils import canonicalize_name
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from builder.errors import LockError
from builder.recipe import BUILD_SUFFIX, Base, Component, Recipe, Source, type_tuple

SCHEMA: Literal[1] = 1
DEPENDENCIES = "dependencies"  # the layer of every resolved distribution that is not a component of its own
# Patterns rather than functions: a lock has hundreds of them, and people wait for `plan` and `check`.
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
DEFAULT_INDEX = "default"  # how the lock writes the client's own index


SORTED_JSON = json.JSONEncoder(sort_keys=True).encode


class _Table(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
        populate_by_name=True,
    )


class DebianPackage(_Table):
    """One binary package of the bootstrapped base, or of the stages on it. `file` is its path in the archive."""

    name: str
    version: str
    file: str
    size: int
    sha256: Sha256
    stage: Literal["base", "build", "runtime", "both"]


def _named_index(value: object) -> object:
    return None if value == DEFAULT_INDEX else value


IndexName = Annotated[str | None, BeforeValidator(_named_index)]


class PythonFile(_Table):
    """One file of the resolved set. `index` is the recipe's address of its index, None for the client's default.

    The layer `NAME.build` is what component NAME is built with; it is in no image.
    """

    project: str
    version: str
    file: str
    size: int | None = None
    sha256: Sha256
    layer: str
    index_kind: Literal["simple", "flat"] = "simple"
    index: IndexName = None


class LockedSubmodule(_Table):
    """A repository inside a git source: its path in the tree, its address, its commit."""

    path: str
    url: str
    commit: Commit


class LockedSource(_Table):
    """The content of a source: a tree, or the file it is unpacked from.

    `tree` is the sha256 over names, modes and contents of a path, or git's id of the tree of `commit`. An sdist
    and an archive have `size` and `sha256`, an sdist its `file` and the `index` that lists it as well.
    """

    tree: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")] | None = None
    commit: Commit | None = None
    submodule: Annotated[tuple[LockedSubmodule, ...], type_tuple] = ()
    file: str | None = None
    size: int | None = None
    sha256: Sha256 | None = None
    index_kind: Literal["simple", "flat"] = "simple"
    index: IndexName = None

    @property
    def content(self) -> object:
        """What says which bytes it has, as a value for JSON."""
        if self.commit is not None:
            return [self.commit, self.tree, [[module.path, module.commit] for module in self.submodule]]
        return self.tree or self.sha256


class LockedBase(_Table):
    """What an image that this one is built on had when the lock was made, as the hash of `provided`."""

    provides: Sha256


class LockedInventory(_Table):
    """What the engine compiles while it serves, in short: call sites per kind, and what they need."""

    sites: dict[str, int] = {}
    headers: Annotated[tuple[str, ...], type_tuple] = ()
    cuda_headers: int = 0
    libraries: Annotated[tuple[str, ...], type_tuple] = ()
    programs: Annotated[tuple[str, ...], type_tuple] = ()
    unparsed: Annotated[tuple[str, ...], type_tuple] = ()


class Lock(_Table):
    """Everything a build takes from outside, by content. `epoch` is the time stamp of every file it makes."""

    schema_: Literal[1]
    image: str
    epoch: Annotated[int, Field(ge=0, description="Seconds since 1970: when the Debian suite was published.")]
    asked: dict[str, str]
    source: dict[str, LockedSource] = {}
    base: dict[str, LockedBase] = {}
    inventory: LockedInventory | None = None
    deb: Annotated[tuple[DebianPackage, ...], type_tuple] = ()
    python: Annotated[tuple[PythonFile, ...], type_tuple] = ()

    def packages(self, stage: Literal["base", "build", "runtime"]) -> tuple[DebianPackage, ...]:
        """Return the Debian packages of the base, or those a stage adds to it."""
        wanted = ("base",) if stage == "base" else (stage, "both")
        return tuple(package for package in self.deb if package.stage in wanted)

    def wheels(self, layer: str) -> tuple[PythonFile, ...]:
        """Return the wheels of one layer."""
        return tuple(file for file in self.python if file.layer == layer)

    @property
    def served(self) -> tuple[PythonFile, ...]:
        """The wheels that end up in the image."""
        return tuple(file for file in self.python if not file.layer.endswith(BUILD_SUFFIX))


def provided(recipe: Recipe, lock: Lock, below: Mapping[str, str]) -> dict[str, str]:
    """Return what an image offers to one that is built on it: `deb NAME` and `python NAME`, by version.

    `below` is what its own base offers.
    """
    debs = {f"deb {p.name}": p.version for p in lock.deb if p.stage != "build"}
    own = {
        f"python {canonicalize_name(component.distribution)}": component.version
        for component in recipe.component
        if component.distribution is not None
    }
    return dict(below) | debs | own | {f"python {f.project}": f.version for f in lock.served}


def provided_hash(offered: Mapping[str, str]) -> str:
    """Return the hash of what an image offers."""
    return hashlib.sha256(canonical(offered)).hexdigest()


def asked(recipe: Recipe) -> dict[str, str]:
    """Return what a recipe asks its lock for, by key path, each value as canonical JSON."""
    wanted: dict[str, object] = {"python": recipe.python, "forbid": sorted(recipe.forbid)}
    for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime)):
        wanted |= _base(stage, base)
    for component in recipe.component:
        wanted[f"component.{component.name}"] = _component(component)
    for name, source in recipe.source.items():
        wanted[f"source.{name}"] = _source(source)
    return {key: SORTED_JSON(value) for key, value in sorted(wanted.items())}


def _base(stage: str, base: Base) -> dict[str, object]:
    wanted: dict[str, object] = {f"base.{stage}.apt": sorted(base.apt)}
    if base.debian is not None:
        wanted[f"base.{stage}.debian"] = base.debian.model_dump(by_alias=True)
    if base.recipe is not None:
        wanted[f"base.{stage}.recipe"] = base.recipe
    return wanted


# What a component's share of the lock depends on. `gfx`, `build-env` and commands change bytes, not the lock.
_ASKED = {
    "wheel", "source", "apt", "base", "version", "index", "extras", "requires", "requires_files", "subdirectory",
    "build_requires", "needs",
}  # fmt: skip


def _component(component: Component) -> dict[str, object]:
    table = component.model_dump(by_alias=True, include=_ASKED, exclude_none=True, mode="json")
    wanted = {key: value for key, value in table.items() if value != [] or key == "requires"}
    if component.index is not None:
        wanted["index"] = component.index.url if component.index.kind == "simple" else table["index"]
    if component.is_python_build:
        wanted["python"] = True
    return wanted


def _source(source: Source) -> dict[str, object]:
    table = source.model_dump(by_alias=True, exclude_none=True, mode="json")
    if source.git is None:
        del table["submodules"]
    return table


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
    for file in table["python"]:
        file.setdefault("index", DEFAULT_INDEX)
        if file["index-kind"] == "simple":
            del file["index-kind"]
    for name, source in table["source"].items():
        if not source["submodule"]:
            del source["submodule"]
        if lock.source[name].file is not None:
            source.setdefault("index", DEFAULT_INDEX)
        if source["index-kind"] == "simple":
            del source["index-kind"]
    if not table["base"]:
        del table["base"]
    return (
        "# Written by `rocm-images lock`; do not edit. What the recipe leaves open, by content.\n\n"
        + tomli_w.dumps(table)
    )


def parse_lock(text: str, *, file: str) -> Lock:
    """Return the lock in `text`; `file` is how messages call it. Raises `LockError`."""
    remedy = "make it again with: rocm-images lock"
    try:
        return Lock.model_validate(tomli.loads(text))
    except tomli.TOMLDecodeError as error:
        raise LockError(f"{file}: not a TOML file, it may have been cut short: {error}", hint=remedy) from error
    except ValidationError as error:
        details = tuple(
            f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()[:10]
        )
        raise LockError(f"{file}: not a lock this version can read", details=details, hint=remedy) from error


def require_fit(
    recipe: Recipe, lock: Lock, *, file: str, offered: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Raise `LockError` with every difference when `lock` was made for another recipe, or on another base.

    `offered` is what each image that this one is built on offers, as `provided` returns it.
    """
    found = differences(recipe, lock)
    remedy = f"rocm-images lock {recipe.name}"
    if found:
        raise LockError(f"{file}: made for another recipe than the one beside it", details=found, hint=remedy)
    for name, packages in (offered or {}).items():
        now, then = provided_hash(packages), lock.base[name].provides if name in lock.base else "nothing"
        if now != then:
            raise LockError(
                f"{file}: base.{name}: the packages of that image changed since this lock was made",
                details=(f"locked {then}", f"now    {now}"), hint=remedy,
            )  # fmt: skip


def canonical(table: Mapping[str, object]) -> bytes:
    """Return canonical JSON: sorted keys, no spaces, UTF-8. What content keys are hashes of."""
    return json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
