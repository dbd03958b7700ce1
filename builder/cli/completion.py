"""What a shell completes: names of images and of schemas. Reads no recipe, and never fails."""

from __future__ import annotations

from pathlib import Path

import typer

from builder.cli.orientation import image_names
from builder.errors import RecipeError
from builder.workspace import Workspace, find_workspace


def images(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the images here whose names begin with what was typed, without those that are named already."""
    root = ctx.find_root().params.get("root")
    try:
        workspace = Workspace(root=Path(root)) if root is not None else find_workspace(Path.cwd())
    except (RecipeError, OSError):
        return []
    named = ctx.params.get("images") or ()
    return [name for name in image_names(workspace) if name.startswith(incomplete) and name not in named]


def schemas(incomplete: str) -> list[str]:
    """Return the kinds of file whose schema can be written."""
    from builder.schema import SCHEMAS

    return [name for name in SCHEMAS if name.startswith(incomplete)]
