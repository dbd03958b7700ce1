"""Commands about images: from a recipe to a pinned digest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from builder.cli.console import Console

if TYPE_CHECKING:
    from builder.lockfile import Lock
    from builder.reference import ImageReference
    from builder.workspace import Workspace

Images = Annotated[list[str] | None, typer.Argument(help="Images; default: all.", show_default=False)]
Image = Annotated[str, typer.Argument(help="An image: a folder below images/.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]
MirrorsFile = Annotated[
    Path | None, typer.Option("--mirrors", help="A mirrors.toml; default: the one here, else the user's.")
]
Publish = Annotated[
    str | None, typer.Option(metavar="HOST/NAMESPACE", help="Registry and namespace to publish to, once tested.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("list")(list_images)
    app.command()(check)
    app.command()(lock)
    app.command()(plan)
    app.command()(render)
    app.command()(build)
    app.command()(test)
    app.command()(pin)
    app.command()(schema)


def list_images(context: typer.Context, as_json: Json = False) -> None:
    """List the images of this repository.

    Example: rocm-images list --json
    """
    from builder.project import load_recipe, names

    workspace = _workspace(context)
    recipes = [load_recipe(workspace, name) for name in names(workspace)]
    if as_json:
        table = [
            {"name": r.name, "version": r.version, "gfx": r.gfx, "description": r.description} for r in recipes
        ]
        Console().result(json.dumps(table, indent=2))
    else:
        for recipe in recipes:
            Console().result(
                f"{recipe.name:24} {recipe.version:12} {','.join(recipe.gfx):20} {recipe.description}"
            )


def check(context: typer.Context, images: Images = None) -> None:
    """Check recipes and locks without an engine: every problem, with file, key and remedy.

    Example: rocm-images check sglang-debian
    """
    from builder.errors import Failure
    from builder.project import load_lock, load_recipe

    workspace, console = _workspace(context), Console()
    failures: list[Failure] = []
    for name in _chosen(workspace, images):
        try:
            load_lock(workspace, load_recipe(workspace, name))
            console.result(f"{name}: recipe and lock are in order")
        except Failure as failure:
            failures.append(failure)
    for earlier in failures[:-1]:
        console.failure(earlier)
    if failures:
        raise failures[-1]


def lock(
    context: typer.Context,
    images: Images = None,
    update: Annotated[
        str | None, typer.Option(metavar="COMPONENT", help="Resolve only this component, or 'debian', anew.")
    ] = None,
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail when a lock does not fit.")
    ] = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Resolve what recipes leave open and write it beside them.

    Example: rocm-images lock sglang-debian --update triton
    """
    from builder.lockfile import dump_lock
    from builder.mirrors import load_mirrors
    from builder.project import load_lock, load_recipe
    from builder.resolve import make_lock, told
    from builder.workspace import write_atomic

    workspace, console = _workspace(context), Console()
    for name in _chosen(workspace, images):
        recipe = load_recipe(workspace, name)
        if only_check:
            load_lock(workspace, recipe)
            continue
        old = _old_lock(workspace, name)
        new = make_lock(
            recipe, folder=workspace.images / name, mirrors=load_mirrors(workspace.root, mirrors), story=console,
            old=old, update=update,
        )  # fmt: skip
        write_atomic(workspace.lock(name), dump_lock(new))
        for line in told(old, new):
            console.note(line)
        console.result(workspace.shown(workspace.lock(name)))


def plan(context: typer.Context, images: Images = None, publish: Publish = None, as_json: Json = False) -> None:
    """Say which images would be built, tested again or skipped, and why.

    Example: rocm-images plan --publish 127.0.0.1:5000/rocm-images --json
    """
    from dataclasses import asdict

    from builder.build import plan_image
    from builder.engine.images import local_ids
    from builder.project import LOCAL, prepare

    workspace = _workspace(context)
    prepared = [prepare(workspace, name) for name in _chosen(workspace, images)]
    held = local_ids(f"{LOCAL}/*") if publish is None else None
    plans = [plan_image(workspace, each, _target(publish, each.recipe.name), held=held) for each in prepared]
    if as_json:
        Console().result(json.dumps([asdict(each) for each in plans], indent=2))
    else:
        for each in plans:
            Console().result(f"{each.image}: {each.action} - {'; '.join(each.reasons)}")


def render(context: typer.Context, image: Image) -> None:
    """Write the Dockerfile of an image to standard output.

    Example: rocm-images render sglang-debian
    """
    from builder.project import prepare

    Console().result(prepare(_workspace(context), image).rendered().dockerfile)


def build(
    context: typer.Context,
    image: Image,
    publish: Publish = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Use, or pass over, earlier build steps.")
    ] = True,
    move_tag: Annotated[bool, typer.Option("--move-tag", help="Let a version tag move to other bytes.")] = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Build an image, smoke-test it, publish it; the last line of standard output is what to pin.

    Example: rocm-images build sglang-debian --publish 127.0.0.1:5000/rocm-images
    """
    from builder.build import build as run
    from builder.mirrors import load_mirrors

    workspace, console = _workspace(context), Console()
    outcome = run(
        image, workspace=workspace, target=_target(publish, image), mirrors=load_mirrors(workspace.root, mirrors),
        story=console, cache=cache, move_tag=move_tag,
    )  # fmt: skip
    console.result(outcome.reference or outcome.image)


def test(context: typer.Context, image: Image) -> None:
    """Run the smoke tests again on the image that was built here.

    Example: rocm-images test sglang-debian
    """
    from builder.build import test as run

    console = Console()
    report = run(image, workspace=_workspace(context), story=console)
    console.result(report.to_json())


def pin(context: typer.Context, image: Image, as_json: Json = False) -> None:
    """Write the reference that the last published, tested build of an image is pinned by.

    Example: rocm-images pin sglang-debian --json
    """
    from builder.errors import LockError
    from builder.record import parse_pin

    workspace = _workspace(context)
    path = workspace.dist / image / "pin.json"
    if not path.exists():
        raise LockError(
            f"{workspace.shown(path)}: {image} has no published, tested build here",
            hint=f"rocm-images build {image} --publish HOST/NAMESPACE",
        )
    text = path.read_text()
    table = parse_pin(text, file=workspace.shown(path))
    Console().result(text if as_json else str(table["reference"]))


def schema(
    of: Annotated[str, typer.Argument(metavar="[recipe|lock|pin]", help="The kind of file.")] = "recipe",
) -> None:
    """Write the JSON Schema of a kind of file to standard output, for editors and other programs.

    Example: rocm-images schema > recipe.schema.json
    """
    from builder.errors import RecipeError
    from builder.problems import nearest
    from builder.schema import SCHEMAS, dump

    if of not in SCHEMAS:
        raise RecipeError(f"there is no schema of {of!r}{nearest(of, SCHEMAS)}", hint="rocm-images schema --help")
    Console().result(dump(SCHEMAS[of]()))


def _workspace(context: typer.Context) -> Workspace:
    from builder.workspace import Workspace, find_workspace

    root: Path | None = context.obj
    return Workspace(root=root.resolve()) if root is not None else find_workspace(Path.cwd())


def _chosen(workspace: Workspace, images: list[str] | None) -> tuple[str, ...]:
    from builder.project import names

    return tuple(images) if images else names(workspace)


def _target(publish: str | None, image: str) -> ImageReference | None:
    from builder.errors import RecipeError
    from builder.reference import parse_repository

    if publish is None:
        return None
    try:
        return parse_repository(f"{publish.rstrip('/')}/{image}")
    except ValueError as error:
        raise RecipeError(
            f"--publish: {error}", hint="for example --publish 127.0.0.1:5000/rocm-images"
        ) from error


def _old_lock(workspace: Workspace, name: str) -> Lock | None:
    from builder.errors import LockError
    from builder.lockfile import parse_lock

    path = workspace.lock(name)
    try:
        return parse_lock(path.read_text(), file=workspace.shown(path)) if path.exists() else None
    except LockError:
        return None  # a damaged lock is what this command replaces
