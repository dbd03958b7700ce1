"""Reads the tables that pages of the documentation list what moves a key in."""

from __future__ import annotations

import functools
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"


@functools.cache
def columns(page: str, moves: str, stays: str) -> dict[str, list[str]]:
    """Return the cells of the table with these two headings, by heading; empty cells are none."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    start = lines.index(f"| {moves} | {stays} |")
    found: dict[str, list[str]] = {moves: [], stays: []}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        for column, cell in zip(found, line.strip("|").split(" | "), strict=True):
            if cell.strip():
                found[column].append(cell.strip())
    return found
