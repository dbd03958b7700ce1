"""The commands `diff` and `isolate`: what changed between two images, and which change it was that one feels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from builder.cli import completion
from builder.cli.console import Console
from builder.cli.image_commands import Json, MirrorsFile, workspace_if_any, workspace_of

_WHAT = (
    "An image of this project (its record; its lock where it has none), the file of a record, a recipe.lock, "
    "REV:IMAGE, an image of a registry or the engine, or an OCI layout."
)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(diff)
    app.command()(isolate)


def diff(
    context: typer.Context,
    old: Annotated[
        str, typer.Argument(metavar="A", show_default=False, help=_WHAT, autocompletion=completion.images)
    ],
    new: Annotated[
        str,
        typer.Argument(
            metavar="B",
            show_default=False,
            help="The same of what it is compared with.",
            autocompletion=completion.images,
        ),
    ],
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown, for a pull request.")] = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Tell what differs between two images: components, patches, base, packages, contract, fingerprint.

    Also how many bytes a node that has A pulls for B, where both say which layers they have. What one of the two
    does not know is called unknown.

    Exit code: 0, whether or not anything differs.

    Examples:
        rocm-images diff HEAD~1:sglang-debian sglang-debian
        rocm-images diff pins/old.json pins/new.json --markdown
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


def isolate(
    context: typer.Context,
    old: Annotated[
        str,
        typer.Argument(
            metavar="A",
            show_default=False,
            help="An image of this project, REV:IMAGE, a recipe.lock, or a record.",
        ),
    ],
    new: Annotated[str, typer.Argument(metavar="B", show_default=False, help="The same image as it became.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to write; default: dist/isolate/IMAGE.")
    ] = None,
    as_json: Json = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Plan the builds that change one component at a time from A to B, to tell which change made the difference.

    Every build is a folder of its own with recipe and lock. What does not change alone, because one asks for a
    version of the other, is one step that says so. The last step has the content key of B. Nothing is built.

    Exit code 2 for two different images, and where nothing differs.

    Examples:
        rocm-images isolate HEAD~1:sglang-debian sglang-debian
        rocm-images isolate old.lock sglang-debian --out /tmp/steps
    """
    from builder.inspection.isolating import isolate as run
    from builder.mirrors import load_mirrors

    console, workspace = Console(), workspace_of(context)
    found = run(
        old, new, workspace=workspace, out=out.absolute() if out is not None else None, story=console,
        mirrors=load_mirrors(workspace.root, mirrors),
    )  # fmt: skip
    if as_json:
        console.result(json.dumps(found.plain(), indent=2, ensure_ascii=False))
        return
    for number, build in enumerate(found.builds):
        console.result(f"{number}  {build.what}  (content key {build.content_key[:12]})")
        for reason in build.because:
            console.result(f"   together, because {reason}")
        console.result("   the same bytes as before" if build.same else f"   {build.command}")
    if found.unknown:
        console.warn(f"not known here, and not held against a step: what {', '.join(found.unknown)} require")
