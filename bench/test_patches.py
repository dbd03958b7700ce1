"""What strictness costs: a series of 68 patches on a tree of 2,000 files, beside a plain loop of `git apply`.

    pytest bench/test_patches.py

Both do the same work in turn on the same disk; the best of all rounds counts. Applying alone is compared with the
loop alone: reading, parsing, judging, placing, proving that every touched Python file compiles. Making the patched
tree is compared with copying the tree and looping: that adds a folder of its own, fixed dates and modes, git's id.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from builder import process
from builder.patches.diff import PatchFile, parse_patch
from builder.patches.judge import judge
from builder.sources.worktree import FolderTree, patched_tree

FILES, TOUCHED, PATCHES, FUNCTIONS, ROUNDS = 2000, 107, 68, 70, 5
RATIO = 1.5
LOOP = 'for patch in "$0"/*.patch; do git apply "$patch" || exit 1; done'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tree and the series, which git made."""
    place = tmp_path_factory.mktemp("series")
    paths = [f"package/part_{number % 40:02}/module_{number:04}.py" for number in range(FILES)]
    for path in paths:
        file = place / "tree" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_text(path))
    touched = random.Random(68).sample(paths, TOUCHED)
    (place / "series").mkdir()
    for number in range(PATCHES):
        for path in touched[number::PATCHES]:
            lines = _text(path).split("\n")
            for side in ("a", "b"):
                file = place / "work" / side / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("\n".join(lines))
                for at in (20, 120, 250):
                    lines[at] += "  # changed"
        out = f"--output={place / 'series' / f'{number:04}.patch'}"
        process.run(["git", "diff", "--no-index", "--no-prefix", out, "a", "b"], cwd=place / "work")
        shutil.rmtree(place / "work")
    return place


def test_applying_a_series(place: Path, benchmark: BenchmarkFixture) -> None:
    shutil.copytree(place / "tree", place / "looped")
    looped: list[float] = []

    def start() -> None:
        looped.append(_timed(lambda: _loop(place, place / "looped")))
        for patch in sorted((place / "series").iterdir(), reverse=True):
            assert process.run(["git", "apply", "--reverse", patch], cwd=place / "looped", env=OUTSIDE).status == 0

    def applied() -> None:
        assert not judge(_series(place), FolderTree(place / "tree")).fails

    benchmark.pedantic(applied, setup=start, rounds=ROUNDS)
    _compare(benchmark, looped)


def test_making_a_patched_tree(place: Path, benchmark: BenchmarkFixture) -> None:
    looped: list[float] = []

    def start() -> None:
        for folder in ("copied", "made"):
            shutil.rmtree(place / folder, ignore_errors=True)

        def copied() -> None:
            process.run(["cp", "--archive", place / "tree", place / "copied"])
            _loop(place, place / "copied")

        looped.append(_timed(copied))

    def made() -> None:
        patched_tree(place / "tree", _series(place), place / "made", epoch=1_700_000_000, where="bench")

    benchmark.pedantic(made, setup=start, rounds=ROUNDS)
    _compare(benchmark, looped)
    touched = {path for patch in _series(place) for path in patch.paths}
    assert len(touched) == TOUCHED
    for path in touched:
        assert (place / "made" / path).read_bytes() == (place / "copied" / path).read_bytes()


OUTSIDE = {"GIT_CEILING_DIRECTORIES": "/", "GIT_DIR": "/nowhere"}  # as if there were no repository around


def _loop(place: Path, tree: Path) -> None:
    done = process.run(["sh", "-c", LOOP, place / "series"], cwd=tree, env=OUTSIDE)
    assert done.status == 0, done.stderr


def _series(place: Path) -> list[PatchFile]:
    return [parse_patch(path.read_bytes(), name=path.name) for path in sorted((place / "series").iterdir())]


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _compare(benchmark: BenchmarkFixture, looped: list[float]) -> None:
    assert benchmark.stats is not None
    ratio = benchmark.stats.stats.min / min(looped)
    benchmark.extra_info["git apply, seconds"] = [round(seconds, 3) for seconds in looped]
    benchmark.extra_info["ratio"] = round(ratio, 2)
    if ratio > RATIO:
        pytest.fail(f"{ratio:.2f} times the loop of git apply, the limit is {RATIO}")


def _text(path: str) -> str:
    number = int(path[-7:-3])
    return "".join(
        f"def function_{number}_{step}(value: int) -> int:\n"
        f"    # step {step}\n    return value * {step} + {number * step % 997}\n\n\n"
        for step in range(FUNCTIONS)
    )
