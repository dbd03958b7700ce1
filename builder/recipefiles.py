"""Reads recipes as files: that of an image, and for a variant that of the recipe it is a variant of as well."""

from __future__ import annotations

from builder.errors import RecipeError
from builder.recipe import parse_recipe
from builder.variants import KEY, evaluated, origin_of
from builder.workspace import Workspace


def recipe_names(workspace: Workspace) -> tuple[str, ...]:
    """Return the images of a workspace, sorted."""
    return tuple(sorted(path.parent.name for path in workspace.images.glob("*/recipe.toml")))


def recipe_text(workspace: Workspace, name: str) -> str:
    """Return the recipe of an image as it is evaluated: of a variant together with what it is a variant of.

    Raises `RecipeError` for one that is not there, and for a variant of one that is none or wrong itself.
    """
    text = _written(workspace, name)
    origin = origin_of(text)
    if origin is None:
        return text
    file = workspace.shown(workspace.recipe(name))
    if origin == name or not workspace.recipe(origin).is_file():
        known = ", ".join(other for other in recipe_names(workspace) if other != name) or "none"
        raise RecipeError(
            f"{file}: {KEY}: there is no other image called {origin!r}; known: {known}", hint="rocm-images list"
        )
    below = _written(workspace, origin)
    if (again := origin_of(below)) is not None:
        raise RecipeError(f"{file}: {KEY}: {origin} is a variant itself", hint=f'{KEY} = "{again}"')
    parse_recipe(below, file=workspace.shown(workspace.recipe(origin)), name=origin)
    return evaluated(text, below, file=file)


def _written(workspace: Workspace, name: str) -> str:
    path = workspace.recipe(name)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        known = ", ".join(recipe_names(workspace)) or "none"
        raise RecipeError(
            f"{workspace.shown(path)}: there is no image called {name!r}; known: {known}", hint="rocm-images list"
        ) from missing
    except UnicodeDecodeError as error:
        raise RecipeError(f"{workspace.shown(path)}: not a TOML file: not UTF-8: {error}") from error
