"""A tested image, its record, and the deployments of tests/data/deployments."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.deploy.names import Target
from builder.record import SCHEMA
from builder.reference import Digest, parse_repository

CASES = sorted((Path(__file__).resolve().parents[2] / "data/deployments").iterdir())
NAME = "registry.example.org/llm/sglang-gfx1201"
TAG = "0.5.16-12feef147c7d"
DIGEST = "sha256:c41f0a9be7d2536880f1c3a4d5e6b7980a1b2c3d4e5f60718293a4b5c6d7e8f9"
REFERENCE = f"{NAME}:{TAG}@{DIGEST}"
OLD_DIGEST = "sha256:" + "3b" * 32
OLD = f"0.5.15-9ab0c4d2e1f0@{OLD_DIGEST}"
PASSED = {"tiers": {"cpu": "passed", "gpu": "not run"}, "tests": {"the hash extension compiles": "passed"}}


def target(name: str = NAME, *, tag: str = TAG, keep_tag: bool = False) -> Target:
    return Target(name=parse_repository(name), tag=tag, digest=Digest(DIGEST), keep_tag=keep_tag)


def record(**changed: Any) -> dict[str, Any]:
    return {
        "schema": SCHEMA, "image": "sglang-gfx1201", "version": "0.5.16", "reference": REFERENCE, "digest": DIGEST,
        "fingerprint": "a1b2c3d4e5f60718", "smoke": PASSED, **changed,
    }  # fmt: skip


Project = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Make a repository with images that have a record each, by name; None: the image was never published."""

    def made(**records: dict[str, Any] | None) -> Path:
        for word, table in (records or {"sglang_gfx1201": record()}).items():
            name = word.replace("_", "-")
            folder = tmp_path / "project"
            (folder / "images" / name).mkdir(parents=True)
            (folder / "images" / name / "recipe.toml").write_text("schema = 1\n")
            if table is not None:
                (folder / "pins").mkdir(exist_ok=True)
                (folder / "pins" / f"{name}.json").write_text(json.dumps(table))
        return folder

    return made
