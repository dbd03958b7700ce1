"""Which images a change of a project touches: by path, by patches, and by what is below them."""

from __future__ import annotations

from collections.abc import Sequence

from builder.errors import Failure
from builder.project import load_recipe, names
from builder.recipe import Recipe
from builder.workspace import Workspace


def touched_images(base: Workspace, head: Workspace, changed: Sequence[str]) -> tuple[str, ...]:
    """Return the images of HEAD whose files or patches changed, or images below them, which come first.

    Below a variant is the recipe that it is a variant of.
    """
    recipes = {name: recipe for name in names(head) if (recipe := _readable(head, name)) is not None}
    found: dict[str, None] = {}
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen:  # also in a circle, which is a finding of its own
            return
        seen.add(name)
        recipe = recipes.get(name)
        bases = (*recipe.bases, *([recipe.variant_of] if recipe.variant_of else [])) if recipe is not None else ()
        for below in bases:
            visit(below)
        folders = [f"images/{name}/"]
        for side in (recipe, _readable(base, name)):
            folders += [f"{folder}/" for folder in _series_folders(side)] if side is not None else []
        if any(path.startswith(tuple(folders)) for path in changed) or any(below in found for below in bases):
            found[name] = None

    for name in names(head):
        visit(name)
    return tuple(found)


def _series_folders(recipe: Recipe) -> list[str]:
    """Return the project's folders that patches are taken from."""
    return [
        patch.series.directory or ""
        for patch in recipe.patch
        if patch.series is not None and patch.series.source is None
    ]


def _readable(workspace: Workspace, name: str) -> Recipe | None:
    try:
        return load_recipe(workspace, name)
    except Failure:
        return None
