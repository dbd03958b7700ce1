"""What a new lock resolves anew and what it keeps of the old one. Values only; it asks nobody.

A lock says for each key of the recipe what it was made for. An update of one name makes only its keys new: what
else has changed in the recipe stays as the lock has it, and the lock says so until that is resolved as well.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from builder import lockfile
from builder.errors import LockError, RecipeError
from builder.lockfile import Lock, LockedSource, asked
from builder.patchset import patched_source
from builder.recipe import Component, Recipe

DEBIAN = "debian"  # what `--update` calls the Debian packages


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What is resolved anew: everything where `old` is None, else Debian's packages, or some names.

    `components` are only those that the Python set depends on, `patches` those whose files are read, or that are
    applied, anew. `asked` is what the new lock was made for.
    """

    old: Lock | None
    debian: bool
    components: frozenset[str]
    sources: frozenset[str]
    patches: frozenset[str]
    asked: Mapping[str, str]

    @property
    def keeps_python(self) -> bool:
        """Whether no Python file is resolved."""
        return self.old is not None and not self.components

    def kept_source(self, name: str) -> LockedSource | None:
        """Return what the old lock has of a source that is not resolved anew."""
        return None if self.old is None or name in self.sources else self.old.source.get(name)


def outdated(recipe: Recipe, lock: Lock) -> frozenset[str] | None:
    """Return what has to be resolved anew for a lock to fit its recipe, as `--update` names it; None: everything.

    The lock may be unfit for other reasons than what the recipe asks for; of those nothing is said.
    """
    new = asked(recipe)
    by_name = {component.name: component for component in recipe.component}
    patches = {patch.name: patch for patch in recipe.patch}
    found: set[str] = set()
    for key in {key for key in new.keys() | lock.asked.keys() if new.get(key) != lock.asked.get(key)}:
        kind, _, name = key.partition(".")
        if kind == "base":
            found.add(DEBIAN)
        elif kind == "source" and name in recipe.source:
            found.add(name)
        elif kind == "component" and name in by_name:
            found.add(DEBIAN if by_name[name].apt is not None else name)
        elif kind == "patch" and name in patches:
            found.add(patched_source(recipe, patches[name]) or patches[name].target)
        else:
            return None
    try:
        enough = not found or scope_of(recipe, lock, found).asked == new
    except (LockError, RecipeError):
        return None
    return frozenset(found) if enough else None


def scope_of(recipe: Recipe, old: Lock | None, update: str | Collection[str] | None) -> Scope:
    """Return what `--update` names, everything for None. Raises when it names nothing, or too little."""
    by_name = {component.name: component for component in recipe.component}
    if update is None:
        return Scope(
            old=None, debian=True, components=frozenset(by_name), sources=frozenset(recipe.source),
            patches=frozenset(patch.name for patch in recipe.patch), asked=asked(recipe),
        )  # fmt: skip
    names = {update} if isinstance(update, str) else set(update)
    known = {*by_name, *recipe.source, DEBIAN}
    remedy = f"rocm-images lock {recipe.name}"
    for name in sorted(names):
        if name not in known:
            raise RecipeError(
                f"--update: no component or source is called {name!r}", hint=f"known: {', '.join(sorted(known))}"
            )
        if old is None:
            raise LockError(f"images/{recipe.name}/recipe.lock: there is no lock to update", hint=remedy)
        component = by_name.get(name)
        if component is not None and component.apt is not None and name not in recipe.source:
            raise RecipeError(
                f"--update: {name} comes with the Debian packages", hint=f"{remedy} --update {DEBIAN}"
            )
    if old is None or not names:
        raise LockError(f"images/{recipe.name}/recipe.lock: there is nothing to update", hint=remedy)
    sources = {name for name in recipe.source if name in names}
    sources |= {c.source for c in recipe.component if c.name in names and c.source is not None}
    sources |= _patched_from(recipe, sources)
    patches = {p.name for p in recipe.patch if p.target in names or patched_source(recipe, p) in sources}
    components = {c.name for c in recipe.component if c.source in sources} | (names & by_name.keys())
    python = frozenset(name for name in components if _asks_python(by_name[name]))
    keys = {f"source.{name}" for name in sources} | {f"component.{name}" for name in components}
    keys |= {f"patch.{name}" for name in patches} | _patches_that_were(old, sources, names - {DEBIAN})
    if DEBIAN in names:
        keys |= {key for key in {*asked(recipe), *old.asked} if key.startswith("base.")}
        keys |= {f"component.{c.name}" for c in recipe.component if c.apt is not None}
    if python:
        _require_same_python(recipe, old, " and ".join(sorted(names)), keys)
    return Scope(
        old=old, debian=DEBIAN in names, sources=frozenset(sources), components=python,
        patches=frozenset(patches), asked=_asked(recipe, old, keys),
    )  # fmt: skip


def _patched_from(recipe: Recipe, sources: set[str]) -> set[str]:
    """Return the sources that get patches out of some others."""
    found = {
        patched_source(recipe, p) for p in recipe.patch if p.series is not None and p.series.source in sources
    }
    return {name for name in found if name is not None}


def _patches_that_were(old: Lock, sources: set[str], targets: set[str]) -> set[str]:
    """Return the keys of the patches that a lock was made with for some sources, or for some components."""
    tables = {key: json.loads(value) for key, value in old.asked.items() if key.startswith("patch.")}
    return {
        key for key, table in tables.items() if table.get("source") in sources or table.get("target") in targets
    }


def _asks_python(component: Component) -> bool:
    """Whether the Python set depends on a component."""
    return component.wheel is not None or component.is_python_build or component.requires is not None


def _asks_python_by(key: str, value: str) -> bool:
    """Whether the Python set depends on what a lock was asked for; a patch may change what its source needs."""
    if key in ("python", "forbid"):
        return True
    if key.startswith("patch."):
        return "source" in json.loads(value)
    table = json.loads(value) if key.startswith("component.") else {}
    return not {"wheel", "python", "requires"}.isdisjoint(table)


def _require_same_python(recipe: Recipe, old: Lock, update: str, keys: set[str]) -> None:
    """Refuse to resolve the Python set for one component while the recipe asks for others than the lock has."""
    new = asked(recipe)
    others = [
        key
        for key in sorted({*new, *old.asked} - keys)
        if new.get(key) != old.asked.get(key)
        and any(key in table and _asks_python_by(key, table[key]) for table in (new, old.asked))
    ]
    if others:
        raise LockError(
            f"images/{recipe.name}/recipe.lock: not only {update} changed since it was made: {', '.join(others)}",
            details=lockfile.differences(recipe, old),
            hint=f"rocm-images lock {recipe.name}",
        )


def _asked(recipe: Recipe, old: Lock, keys: set[str]) -> dict[str, str]:
    """Return what an updated lock was made for: these keys as the recipe has them, all others as the lock has.

    What brought no Python file and is no longer in the recipe is no longer in the lock either.
    """
    new = asked(recipe)
    kept = {
        key: value
        for key, value in old.asked.items()
        if key not in keys and (key in new or _asks_python_by(key, value))
    }
    return dict(sorted((kept | {key: new[key] for key in keys & new.keys()}).items()))
