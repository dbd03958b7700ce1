"""Which images a change of a project touches: by path, by their patches, and by what they are built on."""

from __future__ import annotations

from collections.abc import Sequence

from builder.errors import Failure
from builder.project import load_recipe, names
from builder.recipe import Recipe
from builder.workspace import Workspace


def touched_images(base: Workspace, head: Workspace, changed: Sequence[str]) -> tuple[str, ...]:
    """Return the images of HEAD whose files, or patches, or images below them changed; those below come first."""
    recipes = {name: recipe for name in names(head) if (recipe := _readable(head, name)) is not None}
    found: dict[str, None] = {}
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen:  # also in a circle, which is a finding of its own
            return
        seen.add(name)
        bases = recipes[name].bases if name in recipes else ()
        for below in bases:
            visit(below)
        folders = [f"images/{name}/"]
        for recipe in (recipes.get(name), _readable(base, name)):
            folders += [f"{folder}/" for folder in _series_folders(recipe)] if recipe is not None else []
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
