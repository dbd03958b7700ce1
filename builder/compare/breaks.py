"""What does not go together in a recipe with its lock: unmet requirements and broken rules. Looks nothing up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from builder import compat
from builder.compare.mixing import State
from builder.imagefacts import facts_of
from builder.lockfile import Lock
from builder.recipe import Component, Recipe

Requirements = Callable[[State, str], Sequence[str] | None]
"""Returns what a distribution of an image asks for; None where that is not known."""


def breaks(state: State, requirements: Requirements, *, file: str) -> frozenset[str]:
    """Return, in words, every requirement that is not met in an image, and every rule it breaks."""
    recipe, lock = state.recipe, state.lock
    found = {
        finding.message
        for finding in compat.check(facts_of(recipe, lock, file=file))
        if finding.severity == "error"
    }
    found |= set(_doubled(lock))
    have = provided(recipe, lock)
    for name in sorted(have):
        extras = next((c.extras for c in recipe.component if _project(c) == name), ())
        for line in requirements(state, name) or ():
            found |= set(_unmet(name, have, line, recipe.python, extras))
    return frozenset(found)


def provided(recipe: Recipe, lock: Lock) -> dict[str, str]:
    """Return the Python distributions that are known to be in an image, by name with their version."""
    named = {_project(component): component.version for component in recipe.component}
    return named | {file.project: file.version for file in lock.served}


def _project(component: Component) -> str:
    return str(canonicalize_name(component.distribution or component.name))


def _doubled(lock: Lock) -> Iterator[str]:
    seen: dict[str, str] = {}
    for file in lock.served:
        if file.project in seen:
            yield f"{file.project} would be there twice, by {seen[file.project]} and by {file.layer}"
        seen[file.project] = file.layer


def _unmet(name: str, have: dict[str, str], line: str, python: str, extras: Sequence[str]) -> Iterator[str]:
    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return
    if wanted.marker is not None:
        tried = [{**_environment(python), "extra": extra} for extra in ("", *extras)]
        if not any(wanted.marker.evaluate(each) for each in tried):
            return
    version = have.get(str(canonicalize_name(wanted.name)))
    asks = f"{name} {have[name]} requires {wanted.name}{wanted.specifier}"
    if version is None:
        yield f"{asks}, which would not be there"
        return
    try:
        met = wanted.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return
    if not met:
        yield f"{asks}, there would be {version}"


def _environment(python: str) -> dict[str, str]:
    return {
        "implementation_name": "cpython", "os_name": "posix", "platform_machine": "x86_64",
        "platform_python_implementation": "CPython", "platform_system": "Linux",
        "python_full_version": f"{python}.0", "python_version": python, "sys_platform": "linux",
    }  # fmt: skip
