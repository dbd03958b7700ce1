"""How long the commands take that people and CI wait for before anything is built.

    pytest bench

Each starts the program anew, as a shell does. The table has the time on the clock; a command fails when even its
best round takes more processor time than the limit beside it, which a busy machine does not change much.
200 generated images, each with a lock of 400 entries, every tenth built on another.
"""

from __future__ import annotations

import hashlib
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w
from pytest_benchmark.fixture import BenchmarkFixture

from builder import process
from builder.lockfile import DebianPackage, Lock, LockedBase, PythonFile, asked, dump_lock, provided, provided_hash
from builder.recipe import Recipe, parse_recipe

IMAGES, DEBS, WHEELS = 200, 360, 40
APT = ["g++", "libssl-dev", "ninja-build", "python3-dev", "python3-torch"]
COMMAND = Path(sys.executable).with_name("rocm-images")


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository of generated images with locks that fit."""
    root = tmp_path_factory.mktemp("repository")
    made: dict[str, tuple[Recipe, Lock]] = {}
    for number in range(IMAGES):
        name = f"engine-{number:03}"
        base = f"engine-{number - 1:03}" if number % 10 == 9 else None
        text = tomli_w.dumps(_recipe(name, base))
        recipe = parse_recipe(text, file="recipe.toml", name=name)
        lock = _lock(recipe, number, made[base] if base is not None else None)
        made[name] = recipe, lock
        folder = root / "images" / name
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text(text)
        (folder / "recipe.lock").write_text(dump_lock(lock))
    return root


@pytest.fixture
def timed(benchmark: BenchmarkFixture) -> Callable[..., None]:
    """Run the program five times; the best has to be below a number of seconds of processor time."""

    def run(*words: str | Path, limit: float) -> None:
        spent: list[float] = []

        def once() -> None:
            before = _children()
            done = process.run([COMMAND, *words])
            spent.append(_children() - before)
            if done.status:
                pytest.fail("\n".join(done.tail))

        benchmark.pedantic(once, rounds=5, warmup_rounds=1)
        benchmark.extra_info["processor seconds"] = [round(seconds, 2) for seconds in spent]
        if min(spent) > limit:
            pytest.fail(f"{min(spent):.2f} s of processor time, the limit is {limit} s")

    return run


def test_help(timed: Callable[..., None]) -> None:
    timed("--help", limit=0.3)


def test_plan_of_200_images(timed: Callable[..., None], repository: Path) -> None:
    timed("--root", repository, "plan", "--json", limit=2.0)


def test_check_of_200_images(timed: Callable[..., None], repository: Path) -> None:
    timed("--root", repository, "check", "--json", limit=2.0)


def _children() -> float:
    """Return the processor time, in seconds, of all programs this one started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _recipe(name: str, base: str | None) -> dict[str, object]:
    stage = {"recipe": base} if base is not None else {"debian": {"suite": "trixie"}}
    apt = [] if base is not None else APT
    torch = [] if base is not None else [{"name": "torch", "apt": "python3-torch", "version": "2.6.0"}]
    return {
        "schema": 1, "name": name, "description": "generated", "engine": "sglang", "gfx": ["gfx1201"],
        "python": "3.13", "base": {"build": stage | {"apt": apt}, "runtime": stage | {"apt": apt}},
        "component": [*torch, {"name": "sglang", "wheel": "sglang", "version": "0.5.16"}],
        "image": {"env": {"SGLANG_USE_AITER": "0", "SGLANG_USE_AITER_AR": "0"}},
    }  # fmt: skip


def _lock(recipe: Recipe, number: int, below: tuple[Recipe, Lock] | None) -> Lock:
    packages = [*APT, *(f"package-{place:03}" for place in range(DEBS - len(APT)))]
    debs = tuple(
        DebianPackage(
            name=package, version=f"1.{place}-{number}", size=1000 + place, sha256=_sha(number, place),
            file=f"pool/main/p/package/{package}_1.{place}-{number}_amd64.deb",
            stage="base" if 200 < place < 300 else "both",
        )
        for place, package in enumerate(packages)
    )  # fmt: skip
    projects = ["sglang", *(f"project-{place:02}" for place in range(WHEELS - 1))]
    wheels = tuple(
        PythonFile(
            project=project, version="0.5.16" if project == "sglang" else f"{place}.{number}", size=12345,
            file=f"{project.replace('-', '_')}-1-py3-none-any.whl", sha256=_sha(number, 1000 + place),
            layer="sglang" if project == "sglang" else "dependencies",
        )
        for place, project in enumerate(projects)
    )  # fmt: skip
    bases = {}
    if below is not None:
        bases = {below[0].name: LockedBase(provides=provided_hash(provided(*below, {})))}
    return Lock(
        schema=1, image=recipe.name, epoch=1, asked=asked(recipe), base=bases, deb=debs if below is None else (),
        python=wheels,
    )  # fmt: skip


def _sha(*words: int) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()
