"""What an image is made of, and what differs between two: pure, from values to values and to words."""

from __future__ import annotations

from builder.compare.difference import Change, Compared, Difference, Moved, compare
from builder.compare.sides import Part, PatchPart, Side, of_lock, of_manifest, of_record
from builder.compare.words import markdown, text
from builder.lockfile import Lock
from builder.recipe import Recipe

__all__ = [
    "Change", "Compared", "Difference", "Moved", "Part", "PatchPart", "Side", "compare", "locks", "markdown",
    "of_lock", "of_manifest", "of_record", "text",
]  # fmt: skip


def locks(old_recipe: Recipe, old_lock: Lock, new_recipe: Recipe, new_lock: Lock) -> Difference:
    """Return what differs between two recipes with their locks; nothing is known of digests and layers."""
    return compare(
        of_lock(old_recipe, old_lock, label=f"old {old_recipe.name}"),
        of_lock(new_recipe, new_lock, label=f"new {new_recipe.name}"),
    )
