"""The JIT inventory of an image's engine: taken from the locked files, remembered by their hash, judged.

Taking one costs seconds of CPU time, so it is kept in the state folder under the hash of the file and of the code
that took it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from builder.callsites import CallSite
from builder.checks.trees import Fetch, LockedTree, locked_tree
from builder.errors import Failure
from builder.includes import HeaderNeed
from builder.inventory import (
    Inventory,
    LibraryNeed,
    PackageCheck,
    Summary,
    difference,
    missing_packages,
    take_inventory,
)
from builder.knownbases import carried
from builder.lockfile import Lock, LockedInventory
from builder.recipe import Recipe
from builder.workspace import Workspace, write_atomic

# What decides which inventory the same files give.
_CODE = (
    "callsites.py", "compiling.py", "includes.py", "inventory.py", "namespaces.py", "pynames.py", "sourcetree.py",
    "sources/trees.py", "checks/trees.py", "data/providers.toml",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeStage:
    """The packages of a runtime stage. `certain` is False where nobody knows what its base carries."""

    packages: tuple[str, ...]
    distributions: tuple[str, ...]
    certain: bool


def engine_inventory(
    workspace: Workspace, recipe: Recipe, lock: Lock, *, fetch: Fetch | None = None
) -> Inventory | None:
    """Return the inventory of the engine as it is locked.

    None where there is no engine, where the distribution brings it, or where its files are not on this machine
    and there is no leave to `fetch` them. Raises `LockError` or `EngineError` when fetching them fails.
    """
    tree = _engine(workspace, recipe, lock)
    if tree is None:
        return None
    if (kept := _kept(_place(tree))) is not None:
        return kept
    files_of = tree.read(fetch)
    if files_of is None:
        return None
    inventory = take_inventory(files_of)
    write_atomic(_place(tree), json.dumps(asdict(inventory), sort_keys=True))
    return inventory


def kept_inventory(workspace: Workspace, recipe: Recipe, lock: Lock) -> Inventory | None:
    """Return the inventory of the engine if it was taken on this machine before."""
    tree = _engine(workspace, recipe, lock)
    return _kept(_place(tree)) if tree is not None else None


def with_inventory(
    workspace: Workspace, recipe: Recipe, lock: Lock, *, old: Lock | None, fetch: Fetch
) -> tuple[Lock, tuple[str, ...]]:
    """Return a new lock with the engine's inventory in it, and what changed since the `old` one, in words."""
    if _engine(workspace, recipe, lock) is None:
        return lock, ()
    with fetch.story.step(f"taking the inventory of what {recipe.engine} compiles while it serves"):
        inventory = engine_inventory(workspace, recipe, lock, fetch=fetch)
    if inventory is None:
        return lock, ()
    table = LockedInventory.model_validate(inventory.summary().plain())
    told = changes(recipe, lock, inventory, old.inventory if old is not None else None, workspace)
    return lock.model_copy(update={"inventory": table}), told


def changes(
    recipe: Recipe, lock: Lock, inventory: Inventory, before: LockedInventory | None, workspace: Workspace
) -> tuple[str, ...]:
    """Say what an inventory needs that an older one did not, and which packages the runtime stage lacks for it."""
    missing = lacks(inventory, runtime_stage(workspace, recipe, lock)).missing
    told: list[str] = []
    if before is not None:
        found = difference(summary_of(before), inventory)
        told.extend(found.lines())
        lacking = {each.package for each in missing}
        there = [package for package in found.packages if package not in lacking]
        if there:
            told.append(f"base.runtime has {', '.join(there)} for what is new")
    told.extend(f"base.runtime.apt: {each}" for each in missing)
    return tuple(told)


def summary_of(table: LockedInventory) -> Summary:
    """Return an inventory as a lock keeps it."""
    return Summary.from_plain(table.model_dump(by_alias=True, mode="json"), where="inventory")


def runtime_stage(workspace: Workspace, recipe: Recipe, lock: Lock) -> RuntimeStage:
    """Return what is in the runtime stage, with what its base is known to carry."""
    from builder.project import load_lock, load_recipe

    base = recipe.base.runtime
    packages = [*recipe.base.runtime.apt, *(p.name for stage in ("base", "runtime") for p in lock.packages(stage))]
    distributions = [file.project for file in lock.served]
    distributions += [c.distribution for c in recipe.component if c.kind != "apt" and c.distribution is not None]
    certain = True
    if base.image is not None:
        known = carried(base.image)
        packages += known or ()
        certain = known is not None
    elif base.recipe is not None:
        try:
            below = load_recipe(workspace, base.recipe)
            lower = runtime_stage(workspace, below, load_lock(workspace, below)[0])
        except (Failure, RecursionError):  # it has its own findings
            lower = RuntimeStage(packages=(), distributions=(), certain=False)
        packages += lower.packages
        distributions += lower.distributions
        certain = lower.certain
    return RuntimeStage(packages=tuple(packages), distributions=tuple(distributions), certain=certain)


def lacks(inventory: Inventory, stage: RuntimeStage) -> PackageCheck:
    """Compare an inventory with a runtime stage."""
    return missing_packages(inventory, stage.packages, distributions=stage.distributions)


def _engine(workspace: Workspace, recipe: Recipe, lock: Lock) -> LockedTree | None:
    return locked_tree(workspace, recipe, lock, recipe.engine) if recipe.engine is not None else None


def _place(tree: LockedTree) -> Path:
    words = f"{tree.identity}\0{tree.component.subdirectory or ''}\0{_code()}"
    return tree.workspace.state / "inventories" / f"{hashlib.sha256(words.encode()).hexdigest()}.json"


@cache
def _code() -> str:
    """Return the hash of the code that takes inventories."""
    digest = hashlib.sha256()
    for name in _CODE:
        digest.update((Path(str(files("builder"))) / name).read_bytes())
    return digest.hexdigest()


def _kept(path: Path) -> Inventory | None:
    """Return an inventory from the state folder; a damaged one counts as absent."""
    try:
        table = json.loads(path.read_text())
        return Inventory(
            sites=tuple(CallSite(**site) for site in table["sites"]),
            loaders=tuple(table["loaders"]),
            headers=tuple(_need(HeaderNeed, need) for need in table["headers"]),
            libraries=tuple(_need(LibraryNeed, need) for need in table["libraries"]),
            unparsed=dict(table["unparsed"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _need(kind: type[Any], table: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- one of two kinds of value
    return kind(**{**table, "files": tuple(table["files"])})
