"""A registry of the test's own, and nobody logged in to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .server import Registry, serving


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as running:
        yield running


@pytest.fixture
def second() -> Iterator[Registry]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Write docker's configuration; at first nobody is in it."""
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))

    def write(table: object) -> None:
        (folder / "config.json").write_text(json.dumps(table))

    write({})
    return write
