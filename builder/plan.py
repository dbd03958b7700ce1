"""What an image is made of, as one flat table; its content key; and whether there is anything to do.

The content key is the hash of that table and of nothing else: a comment, a document, a test or the order of keys
does not move it, and whatever can change a byte of the image does. docs/plan.md lists what moves it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from builder.lockfile import DEPENDENCIES, Lock, canonical
from builder.recipe import Recipe

_LONGEST_TOLD = 160
_HASH = re.compile(r"[0-9a-f]{64}")
BUILD_FORMAT = 1  # raised when the same inputs would be made into other bytes
BASE_FORMAT = 4  # raised when the same packages would be bootstrapped, or written, into another base
# What this program makes of the inputs, by hash: another version of it may make something else of the same ones.
DERIVED = ("dockerfile", "manifest")
_FINGERPRINTED = ("torch", "triton", "aiter", "amd-aiter")


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
    """What is known of an image's last build: its inputs, its digest, and what its tests said."""

    inputs: Mapping[str, str]
    content_key: str
    test_key: str
    digest: str
    passed: bool


def content_inputs(recipe: Recipe, lock: Lock, tooling: Tooling) -> dict[str, str]:
    """Return everything that can change the image's bytes, by name."""
    inputs: dict[str, object] = {
        "format": BUILD_FORMAT,
        "base-format": BASE_FORMAT,
        "uv": tooling.uv,
        "epoch": lock.epoch,
        "name": recipe.name,
        "gfx": list(recipe.gfx),
        "python": recipe.python,
        "engine": recipe.engine,
    }
    inputs |= {f"step.{name}": digest for name, digest in tooling.steps.items()}
    for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime)):
        inputs[f"base.{stage}"] = base.image or (base.debian and base.debian.model_dump(by_alias=True))
        inputs[f"base.{stage}.env"] = base.env
        if base.image is not None:
            inputs[f"base.{stage}.apt"] = sorted(base.apt)
    for package in lock.deb:
        inputs[f"deb.{package.name}"] = {
            "version": package.version, "sha256": package.sha256, "stage": package.stage
        }  # fmt: skip
    for file in lock.python:
        inputs[f"wheel.{file.project}"] = {
            "version": file.version, "sha256": file.sha256, "layer": file.layer, "file": file.file
        }  # fmt: skip
    for name, source in lock.source.items():
        inputs[f"source.{name}"] = source.tree
    kept = {"version", "wheel", "source", "apt", "index", "build"}
    for place, component in enumerate(recipe.component):
        inputs[f"component.{component.name}"] = {
            "place": place, **component.model_dump(include=kept, exclude_none=True, mode="json")
        }  # fmt: skip
    for key, value in recipe.image.model_dump(by_alias=True, mode="json").items():
        inputs[f"image.{key}"] = value
    return {key: json.dumps(value, sort_keys=True) for key, value in sorted(inputs.items())}


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


def fingerprint(recipe: Recipe, lock: Lock) -> str:
    """Return the engine fingerprint, 16 hex digits: a cached KV page is valid exactly as long as this stays.

    It covers the engine's source and torch, Triton and AITER, by content where they are files of their own and by
    version where the distribution brings them; not the base, the contract or the documents.
    """
    packages = {package.name: package.version for package in lock.deb}
    parts: dict[str, object] = {}
    for component in recipe.component:
        if component.name != recipe.engine and component.name not in _FINGERPRINTED:
            continue
        if component.wheel is not None:
            parts[component.name] = [file.sha256 for file in lock.wheels(component.name)]
        elif component.source is not None:
            parts[component.name] = [lock.source[component.source].tree, list(component.build)]
        else:
            parts[component.name] = packages.get(component.apt or "", component.version)
    return hashlib.sha256(canonical(parts)).hexdigest()[:16]


def changes(new: Mapping[str, str], old: Mapping[str, str]) -> tuple[str, ...]:
    """Return, in words, which inputs differ between two tables; what is made of inputs only if none does."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    told = []
    for key in sorted(changed - set(DERIVED) or changed):
        if key not in old:
            told.append(f"{key} is new")
        elif key not in new:
            told.append(f"{key} is gone")
        else:
            told.append(f"{key}: {_difference(_value(old[key]), _value(new[key]))}")
    return tuple(told)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:  # from a record of another version
        return text


def _difference(old: object, new: object) -> str:
    """Return how one value became another; of tables the parts that differ, a hash only if nothing else does."""
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [part for part in sorted(old.keys() | new.keys()) if old.get(part) != new.get(part)]
        parts = [part for part in parts if part not in ("sha256", "file")] or parts
        told = (f"{part} {_difference(old.get(part, 'none'), new.get(part, 'none'))}" for part in parts)
        return ", ".join(told)
    words = [value if isinstance(value, str) else json.dumps(value) for value in (old, new)]
    if any(len(word) > _LONGEST_TOLD or _HASH.fullmatch(word) for word in words):
        return "changed"
    return " -> ".join(words)


def decide(
    recipe: Recipe,
    lock: Lock,
    *,
    inputs: Mapping[str, str],
    tests: str,
    known: Known | None,
    published: str | None,
) -> Plan:
    """Say what has to be done for an image.

    `tests` is its test key. `known` is the record of its last build here, `published` the digest that the target
    registry serves for this content key (None: none does, or there is no target).
    """
    key = content_key(inputs)
    if known is None or known.content_key != key:
        action = Action.RETEST if published else Action.BUILD
        if published:
            reasons: tuple[str, ...] = (f"the registry holds this content as {published}, without a record here",)
        elif known is None:
            reasons = ("no record of an earlier build",)
        else:
            reasons = changes(inputs, known.inputs) or ("the content key differs from the record's",)
    elif published is not None and published != known.digest:
        action, reasons = Action.RETEST, (f"the registry holds {published}, the record says {known.digest}",)
    elif not known.passed or known.test_key != tests:
        action = Action.RETEST if published else Action.BUILD
        reasons = (
            "its smoke tests changed since they passed" if known.passed else "its smoke tests did not pass",
        )
    elif published is None:
        action, reasons = Action.BUILD, ("built and tested before, but the registry does not hold it",)
    else:
        action, reasons = Action.SKIP, (f"{known.digest} is published and tested, and no input changed",)
    return Plan(
        image=recipe.name, content_key=key, fingerprint=fingerprint(recipe, lock), action=action, reasons=reasons
    )


def layers(recipe: Recipe, lock: Lock) -> tuple[str, ...]:
    """Return the names of the component layers, in the order they are stacked."""
    shared = (DEPENDENCIES,) if lock.wheels(DEPENDENCIES) else ()
    return shared + tuple(component.name for component in recipe.component if component.apt is None)
