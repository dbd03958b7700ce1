"""The command `pins`: every version, tag, commit and hash that recipes name, by key."""

from __future__ import annotations

import json

import typer

from builder.cli.console import Console
from builder.cli.image_commands import Images, Json, chosen_images, workspace_of


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(pins)


def pins(context: typer.Context, images: Images = None, as_json: Json = False) -> None:
    """List what the recipes pin: every base, tag, commit, version and hash, and where it comes from.

    These are what Renovate moves (docs/renovate.md). Only recipes are read.

    Examples:
        rocm-images pins
        rocm-images pins sglang-debian --json
    """
    from builder.pins import pins as pins_of
    from builder.project import load_recipe

    workspace, console = workspace_of(context), Console()
    found = [
        (workspace.shown(workspace.recipe(name)), name, pin)
        for name in chosen_images(workspace, images)
        if (recipe := load_recipe(workspace, name)).variant_of is None  # whose pins are another recipe's
        for pin in pins_of(recipe)
    ]
    if as_json:
        table = [{"image": name, "file": file, **pin.as_table()} for file, name, pin in found]
        console.result(json.dumps(table, indent=2))
        return
    for file, _, pin in found:
        values = " ".join(value for value in (pin.value, pin.digest) if value is not None)
        index = f" on {pin.index}" if pin.index is not None else ""
        console.result(f"{file}: {pin.key} = {values}  ({pin.kind}, {pin.source}{index})")
