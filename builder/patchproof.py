"""What a build found out about the patches of its image: read back from it, told, and refused where it must be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from builder.engine import containers
from builder.errors import LockError, PatchError
from builder.patchledger import FILE
from builder.recipe import Recipe
from builder.story import Story


def ledger_in(image: str, recipe: Recipe) -> list[dict[str, object]]:
    """Return what the ledger in an image says of the patches of its recipe.

    Raises `LockError` when it has none.
    """
    if not recipe.patch:
        return []
    (text,) = containers.read_files(image, [f"/{FILE}"])
    if text is None:
        raise LockError(f"{image}: has no /{FILE}", hint=f"rocm-images build --no-cache {recipe.name}")
    found: list[dict[str, object]] = json.loads(text)["patches"]
    return found


def tell_redundant(recipe: Recipe, entries: Sequence[Mapping[str, object]], story: Story, *, strict: bool) -> None:
    """Warn of patches of which nothing was left to do; with `strict` that is a `PatchError`.

    One that is acknowledged is passed over.
    """
    accepted = {patch.name for patch in recipe.patch if patch.acknowledge_redundant is not None}
    found = [str(entry["name"]) for entry in entries if entry["state"] == "redundant"]
    lines = [
        f"images/{recipe.name}/recipe.toml: patch.{name}: redundant: what it changes is there already"
        for name in found
        if name not in accepted
    ]
    if lines and strict:
        raise PatchError("\n".join(lines), hint="drop it, or say with 'acknowledge-redundant' why it stays")
    for line in lines:
        story.warn(line)


def about(error: PatchError, recipe: Recipe) -> PatchError:
    """Return what a build step said of patches as a failure of a recipe's keys."""
    file = f"images/{recipe.name}/recipe.toml"
    lines = [line.removeprefix("patch ") for line in error.message.splitlines()]
    return PatchError("\n".join(f"{file}: patch.{line}" for line in lines), hint=error.hint, details=error.details)
