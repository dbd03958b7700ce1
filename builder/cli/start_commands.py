"""The commands `init` and `new`: a recipe repository, and an image in it that begins as a copy of another."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from builder.cli import completion
from builder.cli.console import Console
from builder.cli.image_commands import Json, workspace_of


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(init)
    app.command()(new)


def init(
    folder: Annotated[
        Path, typer.Argument(help="The folder of the repository; made if it is not there.")
    ] = Path(),
    example: Annotated[bool, typer.Option(help="With a small recipe to begin with.")] = True,
    program: Annotated[
        str | None,
        typer.Option(help="OWNER/REPO of this program, for the workflows and Renovate.", show_default=False),
    ] = None,
    program_ref: Annotated[
        str | None, typer.Option(help="The whole commit of it to use.", show_default=False)
    ] = None,
    publish: Annotated[
        str | None, typer.Option(help="HOST/NAMESPACE that images are published to.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a recipe repository: images/, workflows, Renovate's configuration, and a README that says what is next.

    Nothing is overwritten: where one of its files is there already, none is written. Exit code 2 then.

    Examples:
        rocm-images init my-images
        rocm-images init my-images --publish ghcr.io/me/llm --no-example
    """
    from builder.errors import RecipeError
    from builder.newrepository import OPEN, files_of
    from builder.workspace import write_atomic

    files = files_of(example=example, program=program, commit=program_ref, publish=publish)
    present = [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]
    if present:
        raise RecipeError(
            f"{folder}: nothing was written, {len(present)} of its files are there already",
            hint="rocm-images init ANOTHER-FOLDER, or move them away",
            details=tuple(present),
        )
    console = Console()
    for name, text in files.items():
        write_atomic(folder / name, text)
        console.note(name)
    if program is None or program_ref is None:
        console.warn(f"the workflows have {OPEN}: write the repository and commit of this program there")
    if example:
        console.note(f"next: cd {shlex.quote(str(folder))} && rocm-images lock example")
    console.result(json.dumps({"folder": str(folder), "files": list(files)}, indent=2) if as_json else str(folder))


def new(
    context: typer.Context,
    image: Annotated[str, typer.Argument(help="Name of the new image.", show_default=False)],
    like: Annotated[
        str,
        typer.Option(
            "--from",
            help="An image of this repository to copy.",
            show_default=False,
            autocompletion=completion.images,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Make an image that begins as a copy of another: its recipe and the files beside it, without the lock.

    Nothing is overwritten. Exit code 2 where the image is there already, or the other is not.

    Example: rocm-images new sglang-two-cards --from sglang-debian
    """
    from builder.copied import copied_image

    workspace, console = workspace_of(context), Console()
    recipe = copied_image(workspace, like, image)
    console.note(f"next: rocm-images lock {image}")
    shown = workspace.shown(recipe)
    console.result(json.dumps({"image": image, "recipe": shown}, indent=2) if as_json else shown)
