"""The command `check`: everything that can be found out about pins before anything is built."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Annotated

import typer

from builder.cli.console import Console, in_ci
from builder.cli.image_commands import Images, Json, MirrorsFile, chosen_images, workspace_of

if TYPE_CHECKING:
    from builder.findings import Finding


_IN_ORDER = "recipe and lock are in order"


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(check)


def check(
    context: typer.Context,
    images: Images = None,
    online: Annotated[
        bool, typer.Option("--online", help="Also ask whether every pin can still be fetched; download nothing.")
    ] = False,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Fetch the locked files that are read, where they are not here.")
    ] = False,
    as_json: Json = False,
    mirrors: MirrorsFile = None,
) -> None:
    """Check recipes, locks and locked files without an engine: all findings, with file, key and remedy.

    Exit code: 0 without errors, else the class of the worst (2 recipe, rules, 3 lock, 4 patch, 8 not reachable).

    Examples:
        rocm-images check
        rocm-images check sglang-debian --online --json
    """
    from builder.checks.offline import check_images
    from builder.checks.trees import Fetch
    from builder.findings import exit_code, ordered
    from builder.mirrors import load_mirrors

    gc.disable()  # as in `plan`
    workspace, console = workspace_of(context), Console()
    chosen = chosen_images(workspace, images)
    table = load_mirrors(workspace.root, mirrors)
    leave = Fetch(mirrors=table, story=console) if fetch else None
    findings = check_images(workspace, chosen, mirrors=table, fetch=leave, strict=in_ci())
    if online:
        from builder.checks.online import check_online

        findings = ordered([*findings, *check_online(workspace, chosen, mirrors=table, story=console)])
    if as_json:
        console.result(json.dumps([finding.plain() for finding in findings], indent=2))
    else:
        _show(console, chosen, findings)
    raise typer.Exit(exit_code(findings))


def _show(console: Console, chosen: tuple[str, ...], findings: tuple[Finding, ...]) -> None:
    from builder.checks.offline import OPEN

    for name in chosen:
        own = [finding for finding in findings if finding.image == name]
        for finding in own:
            console.result(f"{finding.severity}: {finding.line}")
            for line in finding.details:
                console.result(f"  | {line}")
            if finding.hint:
                console.result(f"  hint: {finding.hint}")
        if not any(finding.severity == "error" for finding in own):
            counts = [
                f"{number} {kind}{'s' if number > 1 else ''}"
                for kind in ("warning", "note")
                if (number := sum(finding.severity == kind for finding in own))
            ]
            said = f" ({', '.join(counts)})" if counts else ""
            opened = any(finding.check == OPEN for finding in own)
            order = "the recipe is in order, and not built while pins are open" if opened else _IN_ORDER
            console.result(f"{name}: {order}{said}")
