"""Recipes with one real fault each: built as always, refused by the smoke tests, never published.

The ids are those of the failure catalog in the documentation. Each is the shipped recipe but for its fault, and
without what takes long and has no part in it. What they have in common with it comes from the build cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from builder.project import LOCAL

from ..conftest import forget, removed_afterwards
from ..project import REPOSITORY, Ended, Project, make_project

pytestmark = pytest.mark.engine

SHIPPED = REPOSITORY / "images/sglang-debian"
HASH = "the hash extension compiles from a cold cache"
HEADER = "the header openssl/sha.h is missing: libssl-dev is "
NINJA = "1.13.0"
Recipe = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A fault: what it changes in the recipe, whether that needs a new lock, and what the run has to say."""

    change: Callable[[Recipe], None]
    relock: tuple[str, ...] = ()
    cause: str
    hint: str
    evidence: str


def lean(recipe: Recipe, without: str) -> None:
    """Leave out hipcc with what needs it, and `without`; the build stage stays as shipped, and so its layers."""
    spared = {"hipcc", without}
    runtime = recipe["base"]["runtime"]
    runtime["apt"] = [package for package in runtime["apt"] if package not in spared]
    recipe["component"] = [part for part in recipe["component"] if part["name"] != "gfx-probe"]
    del recipe["source"]


def openssl_in_no_stage(recipe: Recipe) -> None:
    lean(recipe, "libssl-dev")


def openssl_in_the_build_stage(recipe: Recipe) -> None:
    lean(recipe, "libssl-dev")
    recipe["base"]["build"]["apt"] = ["libssl-dev", "python3"]


def no_ninja(recipe: Recipe) -> None:
    lean(recipe, "ninja-build")


def no_python_headers(recipe: Recipe) -> None:
    lean(recipe, "python3-dev")
    for package in ("libtorch-dev", "pybind11-dev"):  # they bring Python's headers along
        recipe["base"]["runtime"]["apt"].remove(package)


def ninja_off_the_path(recipe: Recipe) -> None:
    no_ninja(recipe)
    recipe["component"].append({"name": "ninja", "wheel": "ninja", "version": NINJA})
    recipe["image"]["env"]["PATH"] = "/usr/bin:/bin"  # wheels bring their programs to /usr/local/bin


def a_cache_outside(recipe: Recipe) -> None:
    recipe["image"]["env"]["TORCH_EXTENSIONS_DIR"] = "/var/lib/torch_extensions"


def a_home_outside(recipe: Recipe) -> None:
    recipe["image"]["env"]["HOME"] = "/home/engine"
    for name in ("TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"):
        del recipe["image"]["env"][name]


# In an order that lets two run at once that install other packages; the later ones find theirs in the cache.
VARIANTS = {
    "f01-openssl-headers-in-no-stage": Variant(
        change=openssl_in_no_stage,
        relock=("debian",),
        cause=f"'{HASH}' failed: {HEADER}in no stage, and the runtime stage needs it",
        hint='add "libssl-dev" to base.runtime.apt',
        evidence="fatal error: openssl/sha.h: No such file or directory",
    ),
    "f07-ninja-in-no-stage": Variant(
        change=no_ninja,
        relock=("debian",),
        cause="ninja, on the PATH as served, is missing: ninja-build is in no stage, "
        "and the runtime stage needs it",
        hint='add "ninja-build" to base.runtime.apt',
        evidence=f"also failed: {HASH}",
    ),
    "f02-openssl-headers-in-the-build-stage-only": Variant(
        change=openssl_in_the_build_stage,
        relock=("debian",),
        cause=f"'{HASH}' failed: {HEADER}installed in base.build only, and the runtime stage needs it",
        hint='add "libssl-dev" to base.runtime.apt',
        evidence="fatal error: openssl/sha.h: No such file or directory",
    ),
    "python-headers-in-no-stage": Variant(
        change=no_python_headers,
        relock=("debian",),
        cause=f"'{HASH}' failed: the header Python.h is missing: python3-dev is in no stage, "
        "and the runtime stage needs it",
        hint='add "python3-dev" to base.runtime.apt',
        evidence="fatal error: Python.h: No such file or directory",
    ),
    "f07-ninja-off-the-path": Variant(
        change=ninja_off_the_path,
        relock=("debian", "ninja"),
        cause="ninja, on the PATH as served, is missing: ninja-build is in no stage, "
        "and the runtime stage needs it",
        hint='add "ninja-build" to base.runtime.apt',
        evidence=f"also failed: {HASH}",
    ),
    "f10-a-home-that-cannot-be-written": Variant(
        change=a_home_outside,
        cause="HOME=/home/engine cannot be written, it is in none of image.writable "
        "(/tmp, /var/cache/rocm-images)",
        hint="set HOME in image.env to a directory of image.writable",
        evidence=f"also failed: {HASH}: /home/engine/.cache",
    ),
    "f88-a-cache-outside-the-writable-directories": Variant(
        change=a_cache_outside,
        cause=f"'{HASH}' failed: /var/lib/torch_extensions cannot be written by user 1000:1000 "
        "(TORCH_EXTENSIONS_DIR=/var/lib/torch_extensions): read-only file system",
        hint='add "/var/lib/torch_extensions" to image.writable, or point TORCH_EXTENSIONS_DIR into one of them',
        evidence="in production: The scheduler would die on the first prefill",
    ),
}


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, sglang_debian: tuple[Project, Ended], namespace: Callable[[], str],
    shared: dict[str, Path], engine: docker.DockerClient,
) -> Iterator[dict[str, Future[tuple[Project, Ended]]]]:  # fmt: skip
    """Build every variant that is asked for, two at a time: installing packages keeps one core busy."""
    asked = [item.callspec.params["name"] for item in request.session.items if "runs" in _fixtures(item)]

    def run(name: str) -> tuple[Project, Ended]:
        project = make_project(namespace(), shared)
        projects.append(project)
        image = f"sglang-{name}"

        def faulty(recipe: Recipe) -> None:
            recipe["smoke"] = {"jit": ["sglang-hash"]}
            VARIANTS[name].change(recipe)

        project.add(image, SHIPPED, faulty)
        lock = project.workspace.lock(image)
        lock.write_text(lock.read_text().replace('image = "sglang-debian"', f'image = "{image}"'))
        for part in VARIANTS[name].relock:
            project.done("lock", image, "--update", part)
        ended = project.build(image)
        forget(engine, f"{LOCAL}/{image}:")  # nobody looks at it, and all of them together are ten gigabytes
        return project, ended

    with removed_afterwards(engine) as projects, ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run, name) for name in asked}


def _fixtures(item: pytest.Item) -> tuple[str, ...]:
    return tuple(getattr(item, "fixturenames", ()))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_fault_stops_the_image_before_it_is_published(
    name: str, runs: dict[str, Future[tuple[Project, Ended]]]
) -> None:
    variant, image = VARIANTS[name], f"sglang-{name}"
    project, ended = runs[name].result()
    assert ended.status == 6, ended.stderr
    assert ended.stdout == ""
    error = next(line for line in ended.stderr.splitlines() if line.startswith("error: "))
    assert error.startswith(f"error: {image}: smoke test '")
    assert variant.cause in error
    assert f"hint: {variant.hint}" in ended.stderr.splitlines()
    assert any(variant.evidence in line for line in ended.stderr.splitlines() if line.startswith("  | "))

    assert project.tags(image) == []
    results = project.workspace.dist / image
    assert not project.workspace.pin(image).exists()
    assert json.loads((results / "state.json").read_text())["passed"] is False
    pinned = project.run("pin", image)
    assert (pinned.status, pinned.stdout) == (3, "")
