"""Commands about images: from a recipe to a pinned digest."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from builder.cli import completion
from builder.cli.console import Console, in_ci

if TYPE_CHECKING:
    from builder.build import Outcome
    from builder.lockfile import Lock
    from builder.making import Caches
    from builder.recipe import Recipe
    from builder.reference import Place
    from builder.trial import Terms
    from builder.workspace import Workspace

Images = Annotated[
    list[str] | None,
    typer.Argument(help="Images; default: all.", show_default=False, autocompletion=completion.images),
]
Image = Annotated[
    str,
    typer.Argument(help="An image: a folder below images/.", show_default=False, autocompletion=completion.images),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]
MirrorsFile = Annotated[
    Path | None, typer.Option("--mirrors", help="A mirrors.toml; default: the one here, else the user's.")
]
Publish = Annotated[
    str | None,
    typer.Option(
        metavar="HOST/NAMESPACE|oci:FOLDER",
        help="Where to publish once tested: registry and namespace, or a folder for image layouts.",
    ),
]
CachePlace = Annotated[
    str | None,
    typer.Option(metavar="HOST/NAMESPACE", help="Registry that keeps the cache of steps, in build-cache tags."),
]
Require = Annotated[
    list[str] | None, typer.Option(metavar="TIER", help="A tier that must have run: gpu.", show_default=False)
]
Model = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="A model that the engine is started on where there is a GPU."),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("list")(list_images)
    app.command()(lock)
    app.command()(render)
    app.command()(build)
    app.command("test")(smoke_test)
    app.command()(schema)


def list_images(context: typer.Context, as_json: Json = False) -> None:
    """List the images of this repository.

    Examples:
        rocm-images list
        rocm-images list --json
    """
    from builder.project import load_recipe, names

    workspace = workspace_of(context)
    recipes = [load_recipe(workspace, name) for name in names(workspace)]
    if as_json:
        table = [
            {"name": r.name, "version": _version(r), "gfx": r.gfx, "description": r.description} for r in recipes
        ]
        Console().result(json.dumps(table, indent=2))
    else:
        for recipe in recipes:
            Console().result(
                f"{recipe.name:24} {_version(recipe) or 'open':12} {','.join(recipe.gfx):20} {recipe.description}"
            )


def _version(recipe: Recipe) -> str | None:
    """Return the version of an image, None where it is open."""
    opened = f"component.{recipe.engine}.version" in {each.pin for each in recipe.open}
    return None if opened else recipe.version


def lock(
    context: typer.Context,
    images: Images = None,
    update: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Resolve only this component or source, or 'debian', anew."),
    ] = None,
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail when a lock does not fit.")
    ] = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Resolve what recipes leave open and write it beside them.

    Examples:
        rocm-images lock
        rocm-images lock sglang-debian --update triton
        rocm-images lock --check
    """
    from builder.project import in_order, load_lock, load_recipe

    workspace, console = workspace_of(context), Console()
    ordered = in_order(workspace, ready_images(workspace, images, console))
    if only_check:
        gc.disable()  # as in `plan`
        for name in ordered:
            load_lock(workspace, load_recipe(workspace, name))
        return
    from builder.checks.inventory import with_inventory
    from builder.checks.trees import Fetch
    from builder.lockfile import dump_lock
    from builder.mirrors import load_mirrors
    from builder.resolve import make_lock, told
    from builder.workspace import write_atomic

    for name in ordered:
        recipe = load_recipe(workspace, name)
        old = _old_lock(workspace, name)
        table = load_mirrors(workspace.root, mirrors)
        new = make_lock(
            recipe, workspace=workspace, mirrors=table, story=console, old=old, update=update, strict=in_ci()
        )
        new, needs = with_inventory(workspace, recipe, new, old=old, fetch=Fetch(mirrors=table, story=console))
        write_atomic(workspace.lock(name), dump_lock(new))
        for line in (*told(old, new), *needs):
            console.note(line)
        console.result(workspace.shown(workspace.lock(name)))


def render(context: typer.Context, image: Image) -> None:
    """Write the Dockerfile of an image to standard output.

    Examples:
        rocm-images render sglang-debian
        rocm-images render sglang-debian >Dockerfile
    """
    from builder.project import prepare

    Console().result(prepare(workspace_of(context), image).rendered().dockerfile)


def build(
    context: typer.Context,
    image: Image,
    publish: Publish = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Use, or pass over, earlier build steps.")
    ] = True,
    move_tag: Annotated[bool, typer.Option("--move-tag", help="Let a version tag move to other bytes.")] = False,
    mirrors: MirrorsFile = None,
    require: Require = None,
    model: Model = None,
    builder: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A builder of buildx, whatever its driver; default: the engine's own."),
    ] = None,
    cache_from: CachePlace = None,
    cache_to: CachePlace = None,
    ccache: Annotated[
        bool, typer.Option("--ccache", help="Compile from source through the ccache of the build stage.")
    ] = False,
    sign: Annotated[
        str | None,
        typer.Option(
            metavar="KEY|keyless",
            help="Sign what is published: with a key as cosign takes it, password in COSIGN_PASSWORD, or without.",
        ),
    ] = None,
    log: Annotated[
        bool, typer.Option("--transparency-log", help="With --sign KEY: into the public transparency log as well.")
    ] = False,
) -> None:
    """Build an image, smoke-test it, publish it; the last line of standard output is what to pin.

    In GitHub's CI, what `pin show --format github` writes are the outputs of the step. A cache that cannot
    be exported is a warning; the result has been written before.

    Examples:
        rocm-images build sglang-debian
        rocm-images build sglang-debian --publish 127.0.0.1:5000/rocm-images
        rocm-images build sglang-debian --publish oci:out --no-cache
    """
    from builder.build import build as run
    from builder.mirrors import load_mirrors
    from builder.supply.signing import signer

    workspace, console = workspace_of(context), Console()

    def announce(outcome: Outcome) -> None:
        if outcome.reference is not None:
            _hand_on(workspace, image)
        console.result(outcome.reference or outcome.image)

    run(
        image, workspace=workspace, target=target_of(publish, image), story=console, cache=cache,
        mirrors=load_mirrors(workspace.root, mirrors), move_tag=move_tag, strict=in_ci(),
        terms=terms_of(require, model), builder=builder or None, announce=announce,
        signer=signer(sign, log=log) if sign else None, caches=caches_of(cache_from, cache_to),
        ccache=ccache,
    )  # fmt: skip


def _hand_on(workspace: Workspace, image: str) -> None:
    """Let later steps of GitHub's CI know what to pin, and the job's summary show it."""
    from builder.cli.actions import add_summary, set_outputs
    from builder.deploy.gate import shown
    from builder.record import parse_pin

    path = workspace.pin(image)
    table = parse_pin(path.read_text(encoding="utf-8"), file=workspace.shown(path))
    lines = shown(table, "github", file=workspace.shown(path)).splitlines()
    set_outputs(dict(line.split("=", 1) for line in lines))
    add_summary(f"{image}: `{table['reference']}`")


def smoke_test(
    context: typer.Context,
    image: Annotated[
        str,
        typer.Argument(
            help="An image of this project, or any reference.",
            metavar="IMAGE",
            show_default=False,
            autocompletion=completion.images,
        ),
    ],
    recipe: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Hold a reference to this recipe, else to what it says."),
    ] = None,
    as_json: Json = False,
    results: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where JSON, JUnit and log of a reference's tests go.")
    ] = None,
    require: Require = None,
    model: Model = None,
) -> None:
    """Run the smoke tests on an image that is there: built here, or any in the engine or a registry.

    Examples:
        rocm-images test sglang-debian
        rocm-images test docker.io/rocm/vllm:latest
        rocm-images test ghcr.io/me/llm/sglang:nightly --recipe sglang-debian --json
    """
    from builder.project import names
    from builder.smoke.run import require_passed
    from builder.trial import any_image, own_image

    console, terms = Console(), terms_of(require, model)
    workspace = workspace_if_any(context)
    if workspace is not None and recipe is None and image in names(workspace):
        report = own_image(image, workspace=workspace, story=console, terms=terms)
    else:
        report = any_image(image, recipe=recipe, workspace=workspace, results=results, story=console, terms=terms)
    console.result(report.to_json() if as_json else report.to_text())
    require_passed(report, tiers=terms.tiers)


def schema(
    of: Annotated[
        str,
        typer.Argument(metavar="KIND", help="The kind of file or of output.", autocompletion=completion.schemas),
    ] = "recipe",
) -> None:
    """Write the JSON Schema of a kind of file to standard output, for editors and other programs.

    Examples:
        rocm-images schema >recipe.schema.json
        rocm-images schema pin
    """
    from builder.errors import RecipeError
    from builder.problems import nearest
    from builder.schema import SCHEMAS, dump

    if of not in SCHEMAS:
        raise RecipeError(f"there is no schema of {of!r}{nearest(of, SCHEMAS)}", hint="rocm-images schema --help")
    Console().result(dump(SCHEMAS[of]()))


def caches_of(source: str | None, target: str | None) -> Caches:
    """Return where the cache of steps is taken from and put into; an empty word is nowhere."""
    from builder.errors import RecipeError
    from builder.making import Caches, cache_place

    for option, given in (("--cache-from", source), ("--cache-to", target)):
        try:
            cache_place(given, "image")
        except ValueError as error:
            raise RecipeError(f"{option}: {error}", hint=f"for example {option} ghcr.io/me/cache") from error
    return Caches(source=source or None, target=target or None)


def terms_of(require: list[str] | None, model: Path | None) -> Terms:
    """Return on which terms images are tested."""
    from builder.errors import RecipeError
    from builder.problems import nearest
    from builder.smoke.run import TIERS
    from builder.trial import Terms

    for tier in require or ():
        if tier not in TIERS:
            raise RecipeError(f"--require: there is no tier {tier!r}{nearest(tier, TIERS)}", hint="--require gpu")
    return Terms(tiers=tuple(require or ()), model=model)


def workspace_if_any(context: typer.Context) -> Workspace | None:
    """Return the recipe repository as `workspace_of` does, None where there is none."""
    from builder.errors import RecipeError

    try:
        return workspace_of(context)
    except RecipeError:
        return None


def workspace_of(context: typer.Context) -> Workspace:
    """Return the recipe repository that the command line names, or that is around here."""
    from builder.workspace import Workspace, find_workspace

    root: Path | None = context.obj
    return Workspace(root=root.resolve()) if root is not None else find_workspace(Path.cwd())


def chosen_images(workspace: Workspace, images: list[str] | None) -> tuple[str, ...]:
    """Return the named images, all of them where none is named.

    A word may name several, or none: a workflow hands on its input as one.
    """
    from builder.project import names

    return tuple(name for word in images or () for name in word.split()) or names(workspace)


def ready_images(workspace: Workspace, images: list[str] | None, console: Console) -> tuple[str, ...]:
    """Return the named images; where none is named, all but those with open pins, which are told."""
    from builder.openpins import may_be_open
    from builder.project import is_open, load_recipe
    from builder.recipefiles import recipe_text

    chosen = chosen_images(workspace, images)
    if any(word.strip() for word in images or ()):
        return chosen
    few = [name for name in chosen if may_be_open(recipe_text(workspace, name))]
    waiting = {name for name in few if is_open(workspace, load_recipe(workspace, name))}
    for name in sorted(waiting):
        console.note(f"{name}: left out, its pins are open: rocm-images check {name}")
    return tuple(name for name in chosen if name not in waiting)


def target_of(publish: str | None, image: str) -> Place | None:
    """Return where an image is published to, None without `--publish`; an empty one is a mistake, no wish."""
    from builder.errors import RecipeError
    from builder.reference import parse_target

    if publish is None:
        return None
    try:
        return parse_target(f"{publish.rstrip('/')}/{image}")
    except ValueError as error:
        raise RecipeError(
            f"--publish: {error}", hint="for example --publish 127.0.0.1:5000/rocm-images, or --publish oci:out"
        ) from error


def _old_lock(workspace: Workspace, name: str) -> Lock | None:
    from builder.errors import LockError
    from builder.lockfile import parse_lock

    path = workspace.lock(name)
    try:
        return parse_lock(path.read_text(), file=workspace.shown(path)) if path.exists() else None
    except LockError:
        return None  # a damaged lock is what this command replaces
