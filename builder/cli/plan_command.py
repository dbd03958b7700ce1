"""The command `plan`: which images would be built, tested again or skipped, in which order, and why."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Annotated

import typer

from builder.cli.actions import add_summary, set_outputs
from builder.cli.console import Console
from builder.cli.image_commands import Images, Json, MirrorsFile, Publish, ready_images, target_of, workspace_of

if TYPE_CHECKING:
    from builder.mirrors import Mirrors


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(plan)


def plan(
    context: typer.Context,
    images: Images = None,
    publish: Publish = None,
    as_json: Json = False,
    mirrors: MirrorsFile = None,
    as_matrix: Annotated[
        bool, typer.Option("--matrix", help="Write the job matrix of the images that need work, as JSON.")
    ] = False,
) -> None:
    """Say which images would be built, tested again or skipped, in which order, and why.

    Images that these are built on are among them. Without --publish, only recipes, locks and the records of this
    machine are read, and no engine is asked. With --matrix, the outputs of a step of GitHub's CI are `matrix`, the
    images that are built on no other of it, and `matrix-above`, the rest, each empty where there are none.

    Examples:
        rocm-images plan
        rocm-images plan sglang-debian --json
        rocm-images plan --publish 127.0.0.1:5000/rocm-images --matrix
    """
    from dataclasses import asdict

    from builder.order import in_levels, matrix, order, told
    from builder.plan import Plan
    from builder.project import Prepared, plan_offline, prepare
    from builder.whatchanged import in_short

    gc.disable()  # looking for circles in the values of 200 locks takes a fifth of the time, and there are none
    workspace, console = workspace_of(context), Console()
    shared: dict[str, Prepared] = {}  # of 500 images with their locks, those alone stay in memory
    needs: dict[str, tuple[str, ...]] = {}
    plans: dict[str, Plan] = {}
    asked: Mirrors | None = None
    waiting = list(ready_images(workspace, images, console))
    while waiting:
        name = waiting.pop()
        if name in needs:
            continue
        each = prepare(workspace, name, bases=shared)  # names a circle of images, so that there is none below
        needs[name] = tuple(each.recipe.bases)
        waiting.extend(needs[name])
        target = target_of(publish, name)
        if target is None:
            plans[name] = plan_offline(workspace, each)
        else:
            from builder.build import plan_image
            from builder.mirrors import load_mirrors

            asked = asked or load_mirrors(workspace.root, mirrors)
            plans[name] = plan_image(workspace, each, target, mirrors=asked)
    placed = order(needs)
    if as_matrix:
        jobs = matrix(placed, plans)
        parts = {f"matrix{end}": json.dumps(part) if part else "" for end, part in in_levels(jobs).items()}
        set_outputs(parts)
        add_summary(told(placed, plans))
        console.result(json.dumps(jobs))
    elif as_json:
        table = [asdict(plans[place.image]) | {"needs": place.needs, "level": place.level} for place in placed]
        console.result(json.dumps(table, indent=2))
    else:
        for place in placed:
            made = plans[place.image]
            console.result(f"{place.image}: {made.action} - {'; '.join(in_short(made.reasons))}")
