"""A Dockerfile written by hand on its way to a recipe: the draft, its points decided, lock, check."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from builder.lockfile import parse_lock

from ..project import REPOSITORY, make_project

pytestmark = pytest.mark.network

CASE = REPOSITORY / "tests/data/adopt/reference"


def test_the_reference_dockerfile_becomes_a_recipe_that_check_accepts(shared: dict[str, Path]) -> None:
    project = make_project("127.0.0.1:9/nobody", shared)
    try:
        recipe, lock = project.workspace.recipe("reference"), project.workspace.lock("reference")
        project.done("adopt", str(REPOSITORY / "bench/reference/Dockerfile"), "--into", str(recipe.parent))
        points = {int(number) for number in re.findall(r'"<adopt ([0-9]+)>', recipe.read_text())}
        assert len(points) > 10
        refused = project.run("check", "reference")
        assert refused.status == 2
        for number in points:
            assert f"point {number} of the draft is not decided" in refused.stderr + refused.stdout

        shutil.copy(CASE / "filled.toml", recipe)
        shutil.copytree(CASE / "beside", recipe.parent, dirs_exist_ok=True)
        project.done("lock", "reference")
        project.done("check", "reference")

        locked = parse_lock(lock.read_text(), file="recipe.lock")
        assert [wheel.version for wheel in locked.wheels("sglang")] == ["0.5.16"]
        assert {package.name for package in locked.deb} >= {"hipcc", "libssl-dev", "ninja-build"}
    finally:
        shutil.rmtree(project.folder)
