"""Sides of comparisons: recipes with their locks, and records, each changed in one way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli

from builder.lockfile import Lock
from builder.patchledger import entry
from builder.recipe import Recipe
from builder.record import LayerEntry, pin

from ..recipe import samples

GOLDENS = Path(__file__).resolve().parents[2] / "data/comparisons"
Edit = Callable[[dict[str, Any]], None]
PATCH = {
    "name": "capacity",
    "target": "sglang",
    "reason": "the kernel takes 39321 elements, its gate 32768",
    "upstream": "https://example.org/pull/1",
    "drop-when": "the gate opens as far as the kernel goes",
    "edit": {"file": "sglang/kernel.py", "find": "32768", "replace": "39321", "count": 1},
}


def pair(edit: Edit | None = None, *, text: str = samples.FULL) -> tuple[Recipe, Lock]:
    """Return a recipe, changed by `edit`, with its lock."""
    table = tomli.loads(text)
    if edit is not None:
        edit(table)
    recipe = samples.recipe(**table)
    return recipe, samples.lock(recipe)


def component(table: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in table["component"] if each["name"] == name)
    return found


def triton(table: dict[str, Any]) -> None:
    component(table, "triton")["version"] = "3.7.0"


def much(table: dict[str, Any]) -> None:
    """Change something of every kind."""
    triton(table)
    table["component"] = [each for each in table["component"] if each["name"] != "kernels"]
    table["component"].insert(1, {"name": "aiter", "wheel": "amd-aiter", "version": "0.1.7"})
    table["gfx"] = ["gfx1201"]
    table["base"]["build"] = {"image": f"docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:{'a' * 64}"}
    table["base"]["runtime"]["apt"].append("libssl-dev")
    table["image"]["env"]["KV"] = "/var/cache/other/{fingerprint}"
    table["image"]["shm"] = "16g"
    table["patch"] = [PATCH]
    del table["source"]


def recorded(of: tuple[Recipe, Lock], *, sizes: dict[str, int], again: frozenset[str]) -> dict[str, Any]:
    """Return the record of an image whose layers have these sizes; those of `again` have other bytes."""
    recipe, lock = of
    layers = [
        LayerEntry(
            owner=owner, digest=f"sha256:{samples.digest(owner + ('2' if owner in again else ''))}", size=size
        )
        for owner, size in sizes.items()
    ]
    digest = f"sha256:{samples.digest(repr(layers))}"
    made: dict[str, Any] = pin(
        recipe, lock, reference=f"registry.example.org/llm/probe:1-abc@{digest}", digest=digest,
        content_key=samples.digest(repr(again)), test_key="7" * 64, lock_hash="1" * 64,
        fingerprint=samples.digest(str(sorted(again)))[:16], layers=layers,
        smoke={"tiers": {"cpu": "passed", "gpu": "not run"}, "tests": {}},
        patches=[entry(recipe, lock, patch) for patch in recipe.patch],
    )  # fmt: skip
    return made
