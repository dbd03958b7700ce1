"""How long the commands take that people and CI wait for before anything is built.

    pytest bench

Each starts the program anew, as a shell does. The table has the time on the clock; a command fails when even its
best round takes more processor time than the limit beside it, which a busy machine does not change much.
500 generated images on 20 shared bases; `python -m bench.scale` shows how it grows up to there.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.generated import make_repository
from builder import process

IMAGES = 500
COMMAND = Path(sys.executable).with_name("rocm-images")
TREE = Path(__file__).parents[1]  # what is measured, wherever the interpreter has this package from


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository of generated images with locks that fit."""
    root = tmp_path_factory.mktemp("repository")
    make_repository(root, IMAGES)
    return root


@pytest.fixture
def timed(benchmark: BenchmarkFixture) -> Callable[..., None]:
    """Run the program five times; the best has to be below a number of seconds of processor time."""

    def run(*words: str | Path, limit: float) -> None:
        spent: list[float] = []

        def once() -> None:
            before = _children()
            done = process.run([COMMAND, *words], env={"PYTHONPATH": str(TREE)})
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


def test_plan_of_500_images(timed: Callable[..., None], repository: Path) -> None:
    timed("--root", repository, "plan", "--json", limit=3.0)


def test_check_of_500_images(timed: Callable[..., None], repository: Path) -> None:
    timed("--root", repository, "check", "--json", limit=3.0)


def test_check_of_500_locks(timed: Callable[..., None], repository: Path) -> None:
    timed("--root", repository, "lock", "--check", limit=3.0)


def _children() -> float:
    """Return the processor time, in seconds, of all programs this one started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
