"""The commands `diff` and `isolate`: what changed between two images, and which change it was that one feels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from builder.cli.console import Console
from builder.cli.image_commands import Json, MirrorsFile, workspace_if_any

_WHAT = (
    "An image of this project (its record; its lock where it has none), the file of a record, a recipe.lock, "
    "REV:IMAGE, an image of a registry or the engine, or an OCI layout."
)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(diff)


def diff(
    context: typer.Context,
    old: Annotated[str, typer.Argument(metavar="A", show_default=False, help=_WHAT)],
    new: Annotated[
        str, typer.Argument(metavar="B", show_default=False, help="The same of what it is compared with.")
    ],
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown, for a pull request.")] = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Tell what differs between two images: components, patches, base, packages, contract, fingerprint.

    Also how many bytes a node that has A pulls for B, where both say which layers they have. What one of the two
    does not know is called unknown.

    Exit code: 0, whether or not anything differs.

    Example: rocm-images diff HEAD~1:sglang-debian sglang-debian --markdown
    """
    from builder import compare
    from builder.errors import RecipeError
    from builder.inspection.subjects import side_of
    from builder.mirrors import load_mirrors

    if as_json and markdown:
        raise RecipeError("--json: the output is to be Markdown", hint="leave out --json or --markdown")
    console, workspace = Console(), workspace_if_any(context)
    found = load_mirrors(workspace.root if workspace is not None else Path.cwd(), mirrors)
    sides = [side_of(word, workspace=workspace, mirrors=found, story=console) for word in (old, new)]
    difference = compare.compare(*sides)
    if as_json:
        console.result(json.dumps(difference.plain(), indent=2, ensure_ascii=False))
    else:
        console.result(compare.markdown(difference) if markdown else compare.text(difference))
