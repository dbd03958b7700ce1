"""The command `patches`: which patches of an image still apply, on what it pins or on another version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from builder.cli.console import Console, in_ci
from builder.cli.image_commands import Image, Json, MirrorsFile, workspace_of

if TYPE_CHECKING:
    from builder.patchjudge import Judgement


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(patches)


def patches(
    context: typer.Context,
    image: Image,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WHERE",
            help="Judge on another version, tag, commit, folder or archive (a path has a '/') of a source.",
        ),
    ] = None,
    suggest: Annotated[
        bool,
        typer.Option(help="Where a patch fails, look for the newest release that takes all, a few at most."),
    ] = True,
    as_json: Json = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Report of every patch whether it applies, is redundant, conflicts, or has no target; build nothing.

    Exit code: 0; 4 when a patch conflicts or has no target, in CI also when one is redundant without
    'acknowledge-redundant'.

    Examples:
        rocm-images patches vllm-debian-patched
        rocm-images patches vllm-debian --at vllm=0.33.0
        rocm-images patches vllm-debian --at vllm=./vllm --no-suggest --json
    """
    from builder.errors import PatchError
    from builder.mirrors import load_mirrors
    from builder.patchjudge import judge_image
    from builder.project import load_recipe

    workspace, console = workspace_of(context), Console()
    recipe = load_recipe(workspace, image)
    judged = judge_image(
        recipe, workspace=workspace, mirrors=load_mirrors(workspace.root, mirrors), story=console,
        at=_places(at or []), suggest=suggest,
    )  # fmt: skip
    redundant = [name for each in judged for report in each.reports for name in report.redundant]
    for name in redundant if not as_json else []:
        console.warn(f"{name} is redundant")
    fails = any(each.fails for each in judged) or (bool(redundant) and in_ci())
    if as_json:
        table = {
            "image": image,
            "fails": fails,
            "redundant": redundant,
            "trees": [each.plain() for each in judged],
        }
        console.result(json.dumps(table, indent=2))
    else:
        console.result(_text(image, judged))
    if fails:
        raise typer.Exit(PatchError.exit_code)


def _places(words: list[str]) -> dict[str, str]:
    from builder.errors import RecipeError

    found = {}
    for word in words:
        name, equals, where = word.partition("=")
        if not (name and equals and where) or name in found:
            raise RecipeError(
                f"--at: expected NAME=WHERE, each name once, got {word!r}",
                hint="for example --at vllm=0.33.0, or --at vllm=./vllm for a folder",
            )
        found[name] = where
    return found


def _text(image: str, judged: tuple[Judgement, ...]) -> str:
    lines = [] if judged else [f"{image} has no patches"]
    for each in judged:
        pinned = "as pinned" if each.at == each.pinned else f"pinned is {each.pinned}"
        count = f"{len(each.reports)} patch{'es' if len(each.reports) > 1 else ''}"
        lines.append(f"{image}: {count} on {each.name} {each.at}, {pinned}")
        lines += [line for report in each.reports for line in report.lines()]
        if each.tried:
            where = f"is {each.newest}" if each.newest else "was not found"
            lines.append(f"the newest release of {each.name} that takes all patches {where}; tried:")
            lines += [f"  {t.version}: {t.reason or ', '.join(t.failing) or 'takes all'}" for t in each.tried]
    return "\n".join(lines)
