"""Commands about this machine: what it lacks, its engine, the embedded registry."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
