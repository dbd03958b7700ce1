"""The command `adopt`: drafts a recipe from a Dockerfile that somebody wrote by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from builder.cli.console import Console
from builder.cli.image_commands import Json


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(adopt)


def adopt(
    dockerfile: Annotated[Path, typer.Argument(help="A Dockerfile.", show_default=False)],
    name: Annotated[
        str | None,
        typer.Option(help="Name of the image; default: that of --into, else of the Dockerfile's folder."),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Folder for the recipe, such as images/NAME; default: standard output."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The stage that is served; default: the last.", show_default=False)
    ] = None,
    build_arg: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE of an ARG, as for docker build; may be repeated.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draft a recipe from a Dockerfile; every instruction and command is accounted for on standard error.

    What cannot be decided is numbered in the draft, as <adopt N>; check refuses the recipe until all are decided.
    Nothing is overwritten. Exit code: 0 when a draft was made, 2 for a file that is no Dockerfile or a recipe that
    is there already.

    Examples:
        rocm-images adopt Dockerfile
        rocm-images adopt old/Dockerfile --into images/sglang-gfx1201 --build-arg ROCM=7.2.4
    """
    from builder.adopt.adoption import adopt as drafted
    from builder.errors import RecipeError
    from builder.newrepository import check_name
    from builder.workspace import write_atomic

    console = Console()
    called = _name(dockerfile, name, into)
    check_name(called)
    recipe = into / "recipe.toml" if into is not None else None
    if recipe is not None and (recipe.exists() or recipe.is_symlink()):
        raise RecipeError(f"{recipe}: is there already; nothing is overwritten", hint="--into images/ANOTHER")
    try:
        text = dockerfile.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else (error.strerror or "").lower()
        raise RecipeError(f"{dockerfile}: {why}", hint="rocm-images adopt PATH/TO/Dockerfile") from error
    done = drafted(text, file=dockerfile.name, name=called, target=target, arguments=_arguments(build_arg))
    if recipe is not None:
        write_atomic(recipe, done.recipe)
    if as_json:
        where = None if recipe is None else str(recipe)
        console.result(json.dumps({"file": where, "recipe": done.recipe, **done.report.plain()}, indent=2))
        return
    for line in done.report.lines():
        console.note(line)
    open_points = len(done.report.points)
    if open_points:
        console.warn(f"{open_points} points are open; rocm-images check refuses the recipe until they are decided")
    console.result(done.recipe if recipe is None else str(recipe))


def _name(dockerfile: Path, name: str | None, into: Path | None) -> str:
    from builder.errors import RecipeError

    if into is not None:
        if name is not None and name != into.name:
            raise RecipeError(f"--name {name}: expected {into.name}, the name of the folder, or no --name")
        return into.name
    beside = dockerfile.name.partition(".")[2] if dockerfile.name.startswith("Dockerfile.") else ""
    return name or (beside or dockerfile.resolve().parent.name).lower().replace(" ", "-")


def _arguments(words: list[str] | None) -> dict[str, str]:
    from builder.errors import RecipeError

    found = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise RecipeError(f"--build-arg {name}: expected NAME=VALUE")
        found[name] = value
    return found
