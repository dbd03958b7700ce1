"""Commands about images: from a recipe to a pinned digest."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
