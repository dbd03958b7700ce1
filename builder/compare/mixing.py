"""Recipes and locks between two others: each of their parts from the one or from the other.

A part is what changes together when one thing is bumped: a component with its source, its patches and its locked
files; the base with all packages of the distribution; the dependencies; the contract. Values only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tomli
import tomli_w

from builder.errors import RecipeError
from builder.grammar import Number
from builder.lockfile import DEPENDENCIES, Lock, asked
from builder.recipe import BUILD_SUFFIX, Component, Recipe, parse_recipe

T = TypeVar("T")
# Keys of a recipe that go together without being a component, each group under the name of its part.
BASE, CONTRACT, GFX, ORDER, PYTHON, SETTINGS = "base", "contract", "gfx", "order", "python", "settings"
_CONTRACT = ("image", "kv-cache")
_OF_COMPONENTS = ("component", "source", "patch")
# What tells of an image without being in it: it goes with the engine.
_BESIDE = ("description", "forbid", "override", "smoke")


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A recipe, as it is written, with its lock."""

    table: Mapping[str, Any]
    recipe: Recipe
    lock: Lock

    @property
    def text(self) -> str:
        """The recipe as TOML."""
        return tomli_w.dumps(self.table)


def state(text: str, lock: Lock, *, file: str) -> State:
    """Return what a recipe and its lock are. Raises as `parse_recipe`."""
    return State(table=tomli.loads(text, parse_float=Number), recipe=parse_recipe(text, file=file), lock=lock)


def differing(old: State, new: State) -> tuple[str, ...]:
    """Return the parts that differ, those first that others stand on, components in the order of the new recipe.

    What makes no difference to a built image is no part.
    """
    parts = [name for name in (BASE, PYTHON, GFX, CONTRACT) if _fixed(old, name) != _fixed(new, name)]
    rest = set(old.table) | set(new.table)
    rest -= {*_OF_COMPONENTS, *_CONTRACT, *_BESIDE, BASE, PYTHON, GFX, "schema", "name"}
    if any(old.table.get(key) != new.table.get(key) for key in rest):
        parts.append(SETTINGS)
    if _served(old, DEPENDENCIES) != _served(new, DEPENDENCIES):
        parts.append(DEPENDENCIES)
    there, names = {c.name for c in old.recipe.component}, [c.name for c in new.recipe.component]
    every = [*names, *(c.name for c in old.recipe.component if c.name not in names)]
    parts += [_component_part(name) for name in every if _of_component(old, name) != _of_component(new, name)]
    common = [c.name for c in old.recipe.component if c.name in names]
    if common != [name for name in names if name in there]:
        parts.append(ORDER)
    return tuple(parts)


def _component_part(name: str) -> str:
    """Return the part of a component; one may be called as another part is."""
    return f"component {name}" if name in (BASE, CONTRACT, GFX, ORDER, PYTHON, SETTINGS, DEPENDENCIES) else name


def mixed(old: State, new: State, taken: Collection[str], *, file: str) -> State:
    """Return the recipe and lock that have the parts `taken` from `new`, and all others from `old`.

    Raises as `parse_recipe` where the two cannot be mixed so.
    """

    def side(part: str) -> State:
        return new if part in taken else old

    def of(name: str) -> State:
        return side(_component_part(name))

    table = _table(old, new, taken, of)
    recipe = parse_recipe(tomli_w.dumps(table), file=file)
    locks = [old.lock, new.lock]
    sources = {
        component.source: of(component.name).lock.source[component.source]
        for component in recipe.component
        if component.source is not None and component.source in of(component.name).lock.source
    }
    for name in recipe.source:
        held = [lock.source[name] for lock in locks if name in lock.source]
        if name not in sources and held:  # a series comes from it alone
            sources[name] = held[-1 if _brought(name, new, taken) else 0]
    targets = {patch.name: patch.target for patch in recipe.patch}
    base = side(BASE).lock
    lock = old.lock.model_copy(
        update={
            "asked": asked(recipe),
            "epoch": base.epoch,
            "base": base.base,
            "deb": base.deb,
            "inventory": of(recipe.engine or "").lock.inventory,
            "source": {name: sources[name] for name in recipe.source if name in sources},
            "patch": tuple(each for name in targets for each in of(targets[name]).lock.patch if each.name == name),
            "python": tuple(
                file
                for layer in _layers(recipe)
                for file in (
                    side(DEPENDENCIES) if layer == DEPENDENCIES else of(layer.removesuffix(BUILD_SUFFIX))
                ).lock.wheels(layer)
            ),
        }
    )
    return State(table=table, recipe=recipe, lock=lock)


def _layers(recipe: Recipe) -> tuple[str, ...]:
    names = [component.name for component in recipe.component]
    return (DEPENDENCIES, *names, *(name + BUILD_SUFFIX for name in names))


def _table(old: State, new: State, taken: Collection[str], of: Callable[[str], State]) -> dict[str, Any]:
    """Return the recipe of a mix, as it would be written."""

    def side(part: str) -> Mapping[str, Any]:
        return (new if part in taken else old).table

    whole = set(differing(old, new)) <= set(taken)
    engine = new.recipe.engine or old.recipe.engine
    beside = new if whole or (engine is not None and _component_part(engine) in taken) else old
    known = {*_OF_COMPONENTS, *_CONTRACT, *_BESIDE, BASE, PYTHON, GFX}
    origin: dict[str, Mapping[str, Any]] = {
        key: side(SETTINGS) for key in (*old.table, *new.table) if key not in known
    }
    origin |= {BASE: side(BASE), PYTHON: side(PYTHON), GFX: side(GFX)}
    origin |= dict.fromkeys(_CONTRACT, side(CONTRACT)) | dict.fromkeys(_BESIDE, beside.table)
    table = {key: copy.deepcopy(where[key]) for key, where in origin.items() if key in where}
    order = _order(old, new, taken)
    components = [_named(of(name).table.get("component", ()), name) for name in order]
    table["component"] = [each for each in components if each is not None]
    kept = {each["name"] for each in table["component"]}
    patches = [
        patch
        for where in (new, old)
        for patch in where.table.get("patch", ())
        if patch["target"] in kept and of(patch["target"]) is where
    ]
    places = {patch["name"]: place for place, patch in enumerate(new.table.get("patch", ()))}
    patches.sort(key=lambda patch: places.get(patch["name"], len(places)))
    if patches:
        table["patch"] = copy.deepcopy(patches)
    wanted: dict[str, State] = {}
    for each in table["component"]:
        if (source := each.get("source")) is None:
            continue
        first = wanted.setdefault(source, of(each["name"]))
        if first is not of(each["name"]) and _source(old, source) != _source(new, source):
            raise RecipeError(f"{each['name']} is built from the source {source!r}, as others are")
    for patch in patches:
        if (series := patch.get("series", {}).get("source")) is not None:
            wanted.setdefault(series, of(patch["target"]))
    sources = {name: wanted[name].table["source"][name] for name in wanted if name in wanted[name].table["source"]}
    if sources:
        table["source"] = copy.deepcopy(sources)
    return table


def _order(old: State, new: State, taken: Collection[str]) -> list[str]:
    """Return the components of a mix in their order: what is new stands where the new recipe has it."""
    before, after = ([c.name for c in each.recipe.component] for each in (old, new))
    first, second = (after, before) if ORDER in taken or ORDER not in differing(old, new) else (before, after)
    order = list(first)
    for place, name in enumerate(second):
        if name not in order:
            ahead = [order.index(other) for other in second[:place] if other in order]
            order.insert(max(ahead, default=-1) + 1, name)
    there = {name for name in order if name in (after if _component_part(name) in taken else before)}
    return [name for name in order if name in there]


def _brought(source: str, new: State, taken: Collection[str]) -> bool:
    """Whether a source that no component is built from comes from the new recipe: a series in it does."""
    return any(
        patch.series is not None and patch.series.source == source and _component_part(patch.target) in taken
        for patch in new.recipe.patch
    )


def _fixed(of: State, part: str) -> object:
    """Return everything that belongs to a part of its own, to be compared."""
    match part:
        case "base":
            debs = [(p.name, p.version, p.sha256, p.stage) for p in of.lock.deb]
            return of.recipe.base, sorted(debs), of.lock.epoch, sorted(of.lock.base)
        case "contract":
            return [of.table.get(key) for key in _CONTRACT]
        case _:
            return of.table.get(part)


def _of_component(of: State, name: str) -> object:
    """Return everything that belongs to a component, to be compared; None where there is none of the name."""
    component = next((c for c in of.recipe.component if c.name == name), None)
    if component is None:
        return None
    patches = [patch.name for patch in of.recipe.patch if patch.target == name]
    return (
        component,
        _source(of, component.source),
        _served(of, name),
        _served(of, name + BUILD_SUFFIX),
        [patch for patch in of.recipe.patch if patch.target == name],
        [patch for patch in of.lock.patch if patch.name in patches],
        [_source(of, patch.series.source) for patch in of.recipe.patch if patch.target == name and patch.series],
    )


def _source(of: State, name: str | None) -> object:
    return (of.recipe.source.get(name), of.lock.source.get(name)) if name is not None else None


def _served(of: State, layer: str) -> list[tuple[str, str]]:
    return sorted((file.project, file.sha256) for file in of.lock.wheels(layer))


def _named(listed: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((copy.deepcopy(each) for each in listed if each["name"] == name), None)


def component_of(recipe: Recipe, part: str) -> Component | None:
    """Return the component that a part is, None for another part."""
    return next((each for each in recipe.component if _component_part(each.name) == part), None)
