"""What an image is made of, as one flat table; its content key; and whether there is anything to do.

The content key is the hash of that table and of nothing else: a comment, a document, a test or the order of keys
does not move it, and whatever can change a byte of the image does. docs/plan.md lists what moves it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from builder.layering import dependency_layers, layer_of
from builder.lockfile import SORTED_JSON, Lock, canonical
from builder.patchledger import decided_in_the_build, entry
from builder.patchset import base_patches, hook_patches, installed_patches
from builder.recipe import BUILD_SUFFIX, Base, Component, Recipe
from builder.whatchanged import DERIVED, changes

__all__ = ["BUILD_FORMAT", "DERIVED", "Action", "Known", "Plan", "Tooling", "changes", "content_inputs", "decide"]

BUILD_FORMAT = 1  # raised when the same inputs would be made into other bytes
BASE_FORMAT = 4  # raised when the same packages would be bootstrapped, or written, into another base
# What of a component changes its bytes; its share of the lock counts as wheels and sources.
_COMPONENT = ("version", "wheel", "source", "apt", "base", "build", "subdirectory", "build_env", "needs", "gfx")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tooling:
    """The part of this program that goes into an image: its build steps, by hash, and uv, by version."""

    steps: Mapping[str, str]
    uv: str


class Action(StrEnum):
    """What has to be done for an image."""

    BUILD = "build"
    RETEST = "retest"
    SKIP = "skip"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One image's share of a run: its key, what to do, and why, in words."""

    image: str
    content_key: str
    fingerprint: str
    action: Action
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What is known of an image's last build: its inputs, its digest, and what its tests said.

    `changed` says in words what is other now, where it is known from a record, which has not all inputs.
    """

    inputs: Mapping[str, str]
    content_key: str
    test_key: str
    digest: str
    passed: bool
    changed: tuple[str, ...] = ()


def content_inputs(
    recipe: Recipe, lock: Lock, tooling: Tooling, *, below: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return everything that can change the image's bytes, by name.

    `below` has the content keys of the images that this one is built on.
    """
    used = steps(recipe, lock)
    inputs: dict[str, object] = {
        "format": BUILD_FORMAT,
        "base-format": BASE_FORMAT,
        "epoch": lock.epoch,
        "name": recipe.name,
        "gfx": list(recipe.gfx),
        "python": recipe.python,
        "engine": recipe.engine,
    }
    if "install-wheels" in used:
        inputs["uv"] = tooling.uv
    inputs |= {f"step.{name}": digest for name, digest in tooling.steps.items() if name in used}
    for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime)):
        inputs[f"base.{stage}"] = base.image or (base.debian and base.debian.content)
        inputs[f"base.{stage}.env"] = base.env
        if base.recipe is not None:
            inputs[f"base.{stage}"] = {"recipe": base.recipe, "content-key": (below or {}).get(base.recipe)}
        if floats(base, lock, stage):
            inputs[f"base.{stage}.apt"] = sorted(base.apt)
    counted = Counter(package.name for package in lock.deb)
    for package in lock.deb:
        # A package is in the lock twice where the stages start from different bases and both get it.
        key = f"deb.{package.name}" + (f".{package.stage}" if counted[package.name] > 1 else "")
        inputs[key] = {
            "version": package.version, "sha256": package.sha256, "stage": package.stage
        }  # fmt: skip
    for file, layer in layer_of(lock).items():
        built_with = file.layer.endswith(BUILD_SUFFIX)
        inputs[f"wheel.{file.layer}.{file.project}" if built_with else f"wheel.{file.project}"] = {
            "version": file.version, "sha256": file.sha256, "layer": layer, "file": file.file
        }  # fmt: skip
    for name in recipe.built_sources:  # of others, patches alone are taken, and those count by themselves
        inputs[f"source.{name}"] = lock.source[name].content
    for place, patch in enumerate(recipe.patch):
        inputs[f"patch.{patch.name}"] = {"place": place, **entry(recipe, lock, patch)}
    for place, component in enumerate(recipe.component):
        inputs[f"component.{component.name}"] = {
            "place": place, **_made_by(component)
        }  # fmt: skip
    inputs |= {f"kv-cache.{key}": value for key, value in recipe.kv_cache.items()}
    for key, value in recipe.image.model_dump(by_alias=True, mode="json").items():
        inputs[f"image.{key}"] = value
    return {key: SORTED_JSON(value) for key, value in sorted(inputs.items())}


def _made_by(component: Component) -> dict[str, object]:
    index = {"index": component.index.url} if component.index is not None else {}
    return index | {key: value for key in _COMPONENT if (value := getattr(component, key))}


def floats(base: Base, lock: Lock, stage: str) -> bool:
    """Whether a stage takes packages from an archive that nothing pins: the lock has none of them."""
    return bool(base.apt) and base.debian is None and not any(p.stage in (stage, "both") for p in lock.deb)


def steps(recipe: Recipe, lock: Lock) -> frozenset[str]:
    """Return the build steps of this program that make an image."""
    layout = "layout-edits" if base_patches(recipe) else "layout"
    used = {layout, "make-user" if recipe.base.runtime.recipe is None else "adopt-user"}
    if lock.deb:
        used.add("install-debs")
    if any(component.build for component in recipe.component):
        used.add("build-source")
    if any(component.is_python_build for component in recipe.component):
        used.add("build-wheel")
    if lock.python or "build-wheel" in used:
        used.add("install-wheels")
    if base_patches(recipe) or any(installed_patches(recipe, component) for component in recipe.component):
        used.add("edit-tree")
    if hook_patches(recipe):
        used.add("install-hooks")
    if decided_in_the_build(recipe):
        used.add("probe-patches")
    return frozenset(used)


def content_key(inputs: Mapping[str, str]) -> str:
    """Return the content key, 64 hex digits, of a table made by `content_inputs`."""
    return hashlib.sha256(canonical(dict(inputs))).hexdigest()


def test_key(recipe: Recipe, tests: str) -> str:
    """Return the key of what an image is tested with; `tests` is the hash of the suite and its own tests."""
    table = {
        "smoke": recipe.smoke.model_dump(by_alias=True, mode="json"),
        "base.build.apt": sorted(recipe.base.build.apt),
        "tests": tests,
    }
    return hashlib.sha256(canonical(table)).hexdigest()


def decide(
    image: str,
    *,
    inputs: Mapping[str, str],
    fingerprint: str,
    tests: str,
    known: Known | None,
    published: str | None,
    holder: str = "the registry",
) -> Plan:
    """Say what has to be done for an image.

    `tests` is its test key. `known` is the record of its last build here, `published` the digest that the target
    registry serves for this content key (None: it serves none). Without a target it is the engine's own store that
    counts instead; `holder` says which of the two it is.
    """
    key = content_key(inputs)
    if known is None or known.content_key != key:
        action = Action.RETEST if published else Action.BUILD
        if published:
            reasons: tuple[str, ...] = (f"{holder} holds this content as {published}, without a record here",)
        elif known is None:
            reasons = ("no record of an earlier build",)
        else:
            told = known.changed or (changes(inputs, known.inputs) if known.inputs else ())
            reasons = told or ("the content key differs from the record's",)
    elif published is not None and published != known.digest:
        action, reasons = Action.RETEST, (f"{holder} holds {published}, the record says {known.digest}",)
    elif not known.passed or known.test_key != tests:
        action = Action.RETEST if published else Action.BUILD
        reasons = (
            "its smoke tests changed since they passed"
            if known.passed
            else "its last run did not get past its tests and its publication",
        )
    elif published is None:
        action, reasons = Action.BUILD, (f"built and tested before, but {holder} does not hold it",)
    else:
        action, reasons = Action.SKIP, (f"{holder} holds {known.digest}, it is tested, and no input changed",)
    return Plan(image=image, content_key=key, fingerprint=fingerprint, action=action, reasons=reasons)


def layers(recipe: Recipe, lock: Lock) -> tuple[str, ...]:
    """Return the names of the component layers, in the order they are stacked."""
    return (*dependency_layers(lock), *(component.name for component in recipe.component if component.is_layer))
