"""What decides whether a cached KV page is still valid: the inputs of the engine fingerprint, and the fingerprint.

docs/fingerprint.md lists what moves it. Knows nothing of the rest of an image: its base, its contract and its
tests may change without a page becoming another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from builder.lockfile import Lock, canonical
from builder.patchledger import patch_hash
from builder.patchset import patched_source
from builder.recipe import BUILD_SUFFIX, Component, Recipe
from builder.reference import parse_reference

# Distributions by every name that they have, or had.
_TORCH = ("torch", "torch-rocm")
_COUNTED = (
    *_TORCH,
    "triton", "triton-rocm", "pytorch-triton", "pytorch-triton-rocm",
    "aiter", "amd-aiter",
)  # fmt: skip
_OF_DEBIAN = "python3-"
# Where Debian has the code of torch: rebuilt without python3-torch, it has another version than that.
_LIBRARY = re.compile(r"libtorch(?:-rocm)?[0-9.]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Beneath:
    """The image of this project that another one is built on, as far as that one's pages depend on it.

    `counted` are the components, and their distributions, that are in its own fingerprint.
    """

    fingerprint: str
    content_key: str
    counted: frozenset[str]


def fingerprint(inputs: Mapping[str, object]) -> str:
    """Return the fingerprint, 16 hex digits, of a table made by `fingerprint_inputs`."""
    return hashlib.sha256(canonical(dict(inputs))).hexdigest()[:16]


def fingerprint_inputs(recipe: Recipe, lock: Lock, *, beneath: Beneath | None = None) -> dict[str, object]:
    """Return everything that the fingerprint is made of, by name, as values for JSON.

    What the lock has as a file counts by its hash, what is in a published base by the digest of that base.
    """
    components = counted(recipe)
    found = {f"component.{each.name}": _made_of(each, recipe, lock, beneath) for each in components}
    beside = _beside(lock, components)
    found |= beside
    for patch in recipe.patch:
        # What changes the tree of a source is in the hash of that tree.
        if patched_source(recipe, patch) is None and patch.target in {each.name for each in components}:
            entry = found[f"component.{patch.target}"]
            entry["patches"] = [*entry.get("patches", ()), patch_hash(recipe, lock, patch)]  # type: ignore[misc]
    found |= {f"kv-cache.{key}": {"value": value} for key, value in recipe.kv_cache.items()}
    base = recipe.base.runtime
    if beneath is not None:
        found["base"] = {"fingerprint": beneath.fingerprint}
    elif recipe.engine is not None and base.image is not None and not _has_torch(components, beside):
        found["base"] = {"digest": _digest(base.image)}
    return dict(sorted(found.items()))


def counted(recipe: Recipe) -> tuple[Component, ...]:
    """Return the components that count: engine, torch, Triton, AITER, and what those are compiled with."""
    by_name = {component.name: component for component in recipe.component}
    found: dict[str, Component] = {}

    def visit(component: Component) -> None:
        if component.name not in found:
            found[component.name] = component
            for need in component.needs:
                visit(by_name[need])

    for component in recipe.component:
        if component.name == recipe.engine or names_of(component) & set(_COUNTED):
            visit(component)
    return tuple(found.values())


def names_of(component: Component) -> frozenset[str]:
    """Return how a component is called: by the recipe, as a distribution, and as a package."""
    names = {component.name, component.distribution or component.name}
    if component.apt is not None:
        names.add(component.apt.removeprefix(_OF_DEBIAN))
    return frozenset(str(canonicalize_name(name)) for name in names)


def _made_of(component: Component, recipe: Recipe, lock: Lock, beneath: Beneath | None) -> dict[str, object]:
    if component.wheel is not None:
        project = canonicalize_name(component.wheel)
        return {"wheel": [file.sha256 for file in lock.wheels(component.name) if file.project == project]}
    if component.source is not None:
        made = {
            "source": lock.source[component.source].content,
            "build": list(component.build),
            "subdirectory": component.subdirectory,
            "build-env": dict(component.build_env),
            "built-with": {file.project: file.sha256 for file in lock.wheels(component.name + BUILD_SUFFIX)},
        }
        return {key: value for key, value in made.items() if value}
    package = next((each for each in lock.deb if each.name == component.apt), None)
    if package is not None:
        return {"package": package.name, "version": package.version, "sha256": package.sha256}
    made = {"package" if component.apt else "distribution": component.apt or component.base}
    made["version"] = component.version
    if component.base is not None and recipe.base.runtime.image is not None:
        made["base"] = _digest(recipe.base.runtime.image)
    if component.base is not None and beneath is not None and not names_of(component) & beneath.counted:
        made["base"] = beneath.content_key
    return made


def _beside(lock: Lock, components: tuple[Component, ...]) -> dict[str, dict[str, object]]:
    """Return what of torch, Triton and AITER came with a resolution, without being a component."""
    named = {component.apt for component in components}
    layers = {component.name for component in components}
    found: dict[str, dict[str, object]] = {
        f"package.{each.name}": {"version": each.version, "sha256": each.sha256}
        for each in lock.deb
        if each.stage != "build" and each.name not in named and _is_counted(each.name)
    }  # fmt: skip
    return found | {
        f"distribution.{file.project}": {"wheel": [file.sha256]}
        for file in lock.served
        if file.project in _COUNTED and file.layer not in layers
    }


def _is_counted(package: str) -> bool:
    own = package.startswith(_OF_DEBIAN) and package.removeprefix(_OF_DEBIAN) in _COUNTED
    return own or _LIBRARY.fullmatch(package) is not None


def _has_torch(components: tuple[Component, ...], beside: Mapping[str, object]) -> bool:
    names = {name for component in components for name in names_of(component)}
    names |= {name.partition(".")[2].removeprefix(_OF_DEBIAN) for name in beside}
    return bool(names & set(_TORCH))


def _digest(image: str) -> str:
    return str(parse_reference(image).digest)
