"""What a new lock resolves anew and what it keeps of the old one. Values only; it asks nobody.

A lock says for each key of the recipe what it was made for. An update of one name makes only its keys new: what
else has changed in the recipe stays as the lock has it, and the lock says so until that is resolved as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from builder import lockfile
from builder.errors import LockError, RecipeError
from builder.lockfile import Lock, LockedSource, asked
from builder.recipe import Component, Recipe

DEBIAN = "debian"  # what `--update` calls the Debian packages


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What is resolved anew: everything where `old` is None, else Debian's packages, or some names.

    `components` are only those that the Python set depends on. `asked` is what the new lock was made for.
    """

    old: Lock | None
    debian: bool
    components: frozenset[str]
    sources: frozenset[str]
    asked: Mapping[str, str]

    @property
    def keeps_python(self) -> bool:
        """Whether no Python file is resolved."""
        return self.old is not None and not self.components

    def kept_source(self, name: str) -> LockedSource | None:
        """Return what the old lock has of a source that is not resolved anew."""
        return None if self.old is None or name in self.sources else self.old.source.get(name)


def scope_of(recipe: Recipe, old: Lock | None, update: str | None) -> Scope:
    """Return what `--update` names, everything for None. Raises when it names nothing, or too little."""
    by_name = {component.name: component for component in recipe.component}
    if update is None:
        return Scope(
            old=None, debian=True, components=frozenset(by_name), sources=frozenset(recipe.source),
            asked=asked(recipe),
        )  # fmt: skip
    known = {*by_name, *recipe.source, DEBIAN}
    if update not in known:
        raise RecipeError(
            f"--update: no component or source is called {update!r}", hint=f"known: {', '.join(sorted(known))}"
        )
    remedy = f"rocm-images lock {recipe.name}"
    if old is None:
        raise LockError(f"images/{recipe.name}/recipe.lock: there is no lock to update", hint=remedy)
    component = by_name.get(update)
    if component is not None and component.apt is not None and update not in recipe.source:
        raise RecipeError(f"--update: {update} comes with the Debian packages", hint=f"{remedy} --update {DEBIAN}")
    sources = {name for name in (update, component.source if component else None) if name in recipe.source}
    components = {c.name for c in recipe.component if c.source in sources} | ({update} & by_name.keys())
    python = frozenset(name for name in components if _asks_python(by_name[name]))
    if update == DEBIAN:
        keys = {key for key in {*asked(recipe), *old.asked} if key.startswith("base.")}
        keys |= {f"component.{c.name}" for c in recipe.component if c.apt is not None}
    else:
        keys = {f"source.{name}" for name in sources} | {f"component.{name}" for name in components}
    if python:
        _require_same_python(recipe, old, update, keys)
    return Scope(
        old=old, debian=update == DEBIAN, sources=frozenset(sources), components=python,
        asked=_asked(recipe, old, keys),
    )  # fmt: skip


def _asks_python(component: Component) -> bool:
    """Whether the Python set depends on a component."""
    return component.wheel is not None or component.is_python_build or component.requires is not None


def _asks_python_by(key: str, value: str) -> bool:
    """Whether the Python set depends on what a lock was asked for."""
    if key in ("python", "forbid"):
        return True
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
