"""The lock beside a recipe: everything the recipe leaves open, as values, and its TOML form.

Only `rocm-images lock` writes locks. A lock remembers what it was asked for, so that one that no longer fits its
recipe can say what differs. It names files by hash and by the index they come from as the recipe calls it,
never by the address they happened to be fetched from.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal

import tomli_w
from packaging.utils import canonicalize_name
from pydantic import BeforeValidator, Field, ValidationError

from builder import tomlfast
from builder.errors import LockError
from builder.grammar import HEX40, HEX40_OR_64, HEX64, Between, Number, only
from builder.locktables import LockedPatch, LockTable
from builder.patchset import asked_of, source_patches
from builder.problems import problems
from builder.recipe import BUILD_SUFFIX, Base, Component, Recipe, Source, type_tuple

SCHEMA: Literal[1] = 1
_LAST_SECOND = 253402300799  # of the year 9999, which dates of images are written with
DEPENDENCIES = "dependencies"  # the layer of every resolved distribution that is not a component of its own
# Patterns rather than functions: a lock has hundreds of them, and people wait for `plan` and `check`.
Sha256 = Annotated[str, Field(pattern=HEX64)]
Commit = Annotated[str, Field(pattern=HEX40)]
DEFAULT_INDEX = "default"  # how the lock writes the client's own index


SORTED_JSON = json.JSONEncoder(sort_keys=True).encode


class DebianPackage(LockTable):
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


def _named_index(value: object) -> object:
    return None if value == DEFAULT_INDEX else value


IndexName = Annotated[
    str | None,
    BeforeValidator(_named_index),
    Field(description="Its index as the recipe calls it; 'default' is the client's own."),
]
IndexKind = Annotated[Literal["simple", "flat"], Field(description="Kind of its index.")]


class PythonFile(LockTable):
    """One wheel of the resolved set.

    The layer `NAME.build` is what component NAME is built with; it is in no image.
    """

    project: Annotated[str, Field(description="Normal name of the distribution.")]
    version: Annotated[str, Field(description="Version, with its local part.")]
    file: Annotated[str, Field(description="Name of the wheel.")]
    size: Annotated[int | None, Field(description="Size in bytes, where the index says it.")] = None
    sha256: Annotated[Sha256, Field(description="Hash of the file.")]
    layer: Annotated[
        str, Field(description="The component it belongs to, 'dependencies', or 'NAME.build' of a build.")
    ]
    index_kind: IndexKind = "simple"
    index: IndexName = None


class LockedSubmodule(LockTable):
    """A repository inside a git source."""

    path: Annotated[str, Field(description="Its path in the tree.")]
    url: Annotated[str, Field(description="Its address.")]
    commit: Annotated[Commit, Field(description="Its commit.")]


class LockedSource(LockTable):
    """The content of a source: a tree, or the file it is unpacked from."""

    tree: Annotated[
        Annotated[str, Field(pattern=HEX40_OR_64)] | None,
        Field(description="Of a path the hash over names, modes and contents; of a commit git's id of its tree."),
    ] = None
    commit: Annotated[Commit | None, Field(description="The commit of a git source.")] = None
    submodule: Annotated[
        tuple[LockedSubmodule, ...], type_tuple, Field(description="The submodules of a git source.")
    ] = ()
    file: Annotated[str | None, Field(description="Name of the sdist.")] = None
    size: Annotated[int | None, Field(description="Size of the sdist or archive in bytes.")] = None
    sha256: Annotated[Sha256 | None, Field(description="Hash of the sdist or archive.")] = None
    index_kind: IndexKind = "simple"
    index: IndexName = None
    patched: Annotated[
        Annotated[str, Field(pattern=HEX40)] | None,
        Field(description="git's id of its tree with the patches of the recipe."),
    ] = None
    built: Annotated[
        Annotated[str, Field(pattern=HEX40)] | None,
        Field(description="git's id of what is built of it: patched, without what the recipe ignores."),
    ] = None

    @property
    def content(self) -> object:
        """What says which bytes a build gets of it, as a value for JSON: not which commit they were taken from."""
        if self.built is not None:
            return {"built": self.built}
        if self.patched is not None:
            return {"patched": self.patched}
        if self.commit is not None:
            modules = [[module.path, module.commit] for module in self.submodule]
            return {"tree": self.tree, "submodules": modules}
        return self.tree or self.sha256


class LockedBase(LockTable):
    """What an image that this one is built on had when the lock was made."""

    provides: Annotated[Sha256, Field(description="Hash of its packages and distributions, by version.")]


class LockedInventory(LockTable):
    """What the engine compiles while it serves, in short."""

    sites: Annotated[dict[str, int], Field(description="Call sites per kind.")] = {}  # noqa: RUF012
    headers: Annotated[tuple[str, ...], type_tuple, Field(description="Third-party headers they need.")] = ()
    cuda_headers: Annotated[int, Field(description="How many headers only CUDA builds need.")] = 0
    libraries: Annotated[tuple[str, ...], type_tuple, Field(description="Libraries they are linked with.")] = ()
    programs: Annotated[tuple[str, ...], type_tuple, Field(description="Programs they start.")] = ()
    unparsed: Annotated[tuple[str, ...], type_tuple, Field(description="Files that could not be read.")] = ()


class Lock(LockTable):
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
    source: Annotated[dict[str, LockedSource], Field(description="The recipe's sources by name.")] = {}  # noqa: RUF012
    patch: Annotated[
        tuple[LockedPatch, ...], type_tuple, Field(description="Patches that have files, or change a source.")
    ] = ()
    base: Annotated[
        dict[str, LockedBase], Field(description="The images of this project that it is built on, by name.")
    ] = {}  # noqa: RUF012 -- pydantic copies it
    inventory: Annotated[
        LockedInventory | None, Field(description="What the engine compiles while it serves.")
    ] = None
    deb: Annotated[tuple[DebianPackage, ...], type_tuple, Field(description="Debian packages.")] = ()
    python: Annotated[tuple[PythonFile, ...], type_tuple, Field(description="Python distributions.")] = ()

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
    for patch in recipe.patch:
        if (part := asked_of(recipe, patch)) is not None:
            wanted[f"patch.{patch.name}"] = part
    return {key: SORTED_JSON(value) for key, value in sorted(wanted.items())}


def _base(stage: str, base: Base) -> dict[str, object]:
    wanted: dict[str, object] = {f"base.{stage}.apt": sorted(base.apt)}
    if base.debian is not None:
        wanted[f"base.{stage}.debian"] = base.debian.content
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
    if not source.ignore:
        del table["ignore"]
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
    for empty in ("base", "patch"):
        if not table[empty]:
            del table[empty]
    for patch in table.get("patch", ()):
        if not patch["file"]:
            del patch["file"]
    return (
        "# Written by `rocm-images lock`; do not edit. What the recipe leaves open, by content.\n\n"
        + tomli_w.dumps(table)
    )


def parse_lock(text: str, *, file: str) -> Lock:
    """Return the lock in `text`; `file` is how messages call it. Raises `LockError`."""
    remedy = "make it again with: rocm-images lock"
    try:
        table = tomlfast.loads(text, ("deb", "python"), parse_float=Number)
    except ValueError as error:
        raise LockError(f"{file}: not a TOML file, it may have been cut short: {error}", hint=remedy) from error
    try:
        return Lock.model_validate(table)
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
    found += _patch_gaps(recipe, lock)
    entries = Counter((f"deb.{package.name}", place) for package in lock.deb for place in _places(package))
    entries.update((f"python.{file.project}", _layer_kind(file.layer)) for file in lock.python)
    found += [f"{entry}: more than once" for (entry, _), count in entries.items() if count > 1]
    return tuple(sorted(found))


def _patch_gaps(recipe: Recipe, lock: Lock) -> list[str]:
    """Return which patches the lock has no files of, and which sources it has no tree of with their patches."""
    held = {patch.name for patch in lock.patch}
    found = [
        f"patch.{patch.name}: nothing is locked"
        for patch in recipe.patch
        if asked_of(recipe, patch) is not None and patch.name not in held
    ]
    for name, source in lock.source.items():
        wanted = bool(source_patches(recipe, name))
        if wanted != (source.patched is not None):
            found.append(f"source.{name}.patched: {'missing' if wanted else 'no patch is for it'}")
    for name, wants in recipe.source.items():
        if name in lock.source and bool(wants.ignore) != (lock.source[name].built is not None):
            found.append(f"source.{name}.built: {'missing' if wants.ignore else 'nothing of it is ignored'}")
    return found


def _places(package: DebianPackage) -> tuple[str, ...]:
    """Return where a package is: one can be in the base of a stage and, on another base, added by the other."""
    return ("build", "runtime") if package.stage == "both" else (package.stage,)


def _layer_kind(layer: str) -> str:
    return layer if layer.endswith(BUILD_SUFFIX) else "served"


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
    if found := gaps(recipe, lock):
        raise LockError(f"{file}: not whole, it was cut short or edited", details=found, hint=remedy)
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
