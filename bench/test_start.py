"""How long the commands take that people wait for: `--help`, and `check` and `plan` on 200 recipes.

Run with `pytest bench`. The figures are those of whole processes, as a user starts them; the goals (0.3 s for
`--help`, 2 s for `plan`) are for a machine with 2 cores that does nothing else.
"""

# ruff: noqa: S101
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from builder import process
from builder.lockfile import DebianPackage, Lock, PythonFile, asked, dump_lock
from builder.recipe import parse_recipe
from builder.workspace import Workspace

COMMAND = Path(sys.executable).with_name("rocm-images")
IMAGES = 200
PACKAGES, WHEELS = 120, 60  # of a lock, as large as that of a small engine image
RECIPE = """
schema = 1
name = "{name}"
description = "Image {number} of many"
engine = "sglang"
gfx = ["gfx1100", "gfx1201"]
python = "3.13"
forbid = ["nvidia-*"]

[base.build]
debian = {{ suite = "trixie" }}
apt = ["g++", "python3"]

[base.runtime]
debian = {{ suite = "trixie" }}
apt = ["g++", "libssl-dev", "ninja-build", "python3", "python3-dev"]

[[component]]
name = "triton"
wheel = "triton"
version = "3.6.{number}"

[[component]]
name = "sglang"
wheel = "sglang"
version = "0.5.{number}"

[image.env]
HOME = "/var/cache/engine"
KV = "/var/cache/engine/{{fingerprint}}"

[smoke]
imports = ["sglang"]
jit = ["triton"]
"""


def lock_of(text: str, name: str) -> Lock:
    recipe = parse_recipe(text, file=name)
    wanted = dict.fromkeys({*recipe.base.build.apt, *recipe.base.runtime.apt}, "both")
    wanted |= {f"lib{number}": "base" for number in range(PACKAGES)}
    debs = [
        DebianPackage.model_validate(
            {
                "name": each,
                "version": "1.0-1",
                "file": f"pool/{each}.deb",
                "size": 1,
                "sha256": "ab" * 32,
                "stage": stage,
            }
        )
        for each, stage in sorted(wanted.items())
    ]
    wheels = {f"dependency-{number}": ("1.0", "dependencies") for number in range(WHEELS)}
    wheels |= {each.name: (each.version, each.name) for each in recipe.wheels}
    python = [
        PythonFile(
            project=each, version=version, file=f"{each}-{version}-py3-none-any.whl", sha256="cd" * 32, layer=layer
        )
        for each, (version, layer) in sorted(wheels.items())
    ]
    return Lock(schema=1, image=name, epoch=1, asked=asked(recipe), deb=tuple(debs), python=tuple(python))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository of 200 images, each with its lock."""
    workspace = Workspace(root=tmp_path_factory.mktemp("many"))
    for number in range(IMAGES):
        name = f"image-{number:03}"
        text = RECIPE.format(name=name, number=number)
        workspace.recipe(name).parent.mkdir(parents=True)
        workspace.recipe(name).write_text(text)
        workspace.lock(name).write_text(dump_lock(lock_of(text, name)))
    return workspace.root


def lines(*words: str | Path) -> int:
    done = process.run([COMMAND, *words])
    assert done.status == 0, done.stderr
    return len(done.stdout.splitlines())


def test_help(benchmark: Callable[..., int]) -> None:
    assert benchmark(lines, "--help") > 10


def test_check_on_200_recipes(benchmark: Callable[..., int], many: Path) -> None:
    assert benchmark(lines, "--root", many, "check") == IMAGES


def test_plan_on_200_recipes(benchmark: Callable[..., int], many: Path) -> None:
    assert benchmark(lines, "--root", many, "plan") == IMAGES
