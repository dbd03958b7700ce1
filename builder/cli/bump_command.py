"""The command `bump-check`: what a pull request that moves pins does to the images, said in Markdown."""

from __future__ import annotations

import gc
import json
from typing import Annotated

import typer

from builder.cli.console import Console, in_ci
from builder.cli.image_commands import Images, MirrorsFile, workspace_of


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command("bump-check")(bump_check)


def bump_check(
    context: typer.Context,
    revisions: Annotated[
        str,
        typer.Argument(
            metavar="BASE..HEAD",
            help="Two revisions; with three dots from where HEAD left BASE; without HEAD what is checked out.",
        ),
    ],
    images: Images = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the locks that were made anew into the work tree.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json/--markdown", help="Write JSON, or Markdown, to standard output.")
    ] = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Say in Markdown what the change from one revision to another does to the images; build nothing.

    Exit code: 0 without errors, else the class of the worst: 2 recipe, rules, contracts, 3 no lock can be made,
    4 patches, 8 not reachable. The report is whole in any case. In CI a redundant patch without
    'acknowledge-redundant' is an error.

    Examples:
        rocm-images bump-check HEAD~1..
        rocm-images bump-check origin/main...HEAD --write
    """
    from builder.bump.judging import judge
    from builder.bump.markdown import markdown
    from builder.errors import Failure
    from builder.mirrors import load_mirrors

    gc.disable()  # as in `plan`
    workspace, console = workspace_of(context), Console()
    report = judge(
        revisions, workspace=workspace, mirrors=load_mirrors(workspace.root, mirrors), story=console,
        chosen=tuple(images or ()), write=write, strict=in_ci(),
    )  # fmt: skip
    console.result(json.dumps(report.plain(), indent=2) if as_json else markdown(report))
    for image in report.images:
        for finding in image.errors:
            console.failure(Failure(finding.line, details=finding.details, hint=finding.hint))
    raise typer.Exit(report.exit_code)
