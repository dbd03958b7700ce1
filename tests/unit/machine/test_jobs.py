"""How many compilers run side by side: by memory and cores, told to steps without a trace in what they make."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import builder
from builder import process
from builder.machine import job_memory, side_by_side
from builder.recipe import Recipe, parse_recipe

JOBS = Path(builder.__file__).parent / "inside/jobs.sh"
GIB = 2**30


def recipe(*components: tuple[str, list[str]], build: str = "") -> Recipe:
    """Return a recipe of components, each with those it needs; names that begin with 'wheel' are no builds."""
    parts = [
        f'[[component]]\nname = "{name}"\nversion = "1"\n'
        + (f'wheel = "{name}"\n' if name.startswith("wheel") else f'source = "tree"\nneeds = {needs}\n')
        for name, needs in components
    ]
    text = f"""
schema = 1
name = "probe"
description = "builds"
gfx = ["gfx1100"]
python = "3.13"
base.build.debian.suite = "trixie"
base.runtime.debian.suite = "trixie"
{build}
[source.tree]
path = "tree"
{"".join(parts)}
"""
    return parse_recipe(text, file="recipe.toml", name="probe")


@pytest.mark.parametrize(
    ("components", "expected"),
    [
        ((), 0),
        ((("wheel-a", []),), 0),
        ((("a", []),), 1),
        ((("a", []), ("b", ["a"]), ("c", ["b"])), 1),
        ((("a", []), ("b", []), ("c", [])), 3),
        # While the first is under way, the second may be done and the two that wait for it begun.
        ((("slow", []), ("quick", []), ("left", ["quick"]), ("right", ["quick"])), 3),
        ((("a", []), ("wheel-w", []), ("b", ["a", "wheel-w"]), ("c", ["a"])), 2),
    ],
)
def test_builds_count_as_side_by_side_where_none_waits_for_another(
    components: tuple[tuple[str, list[str]], ...], expected: int
) -> None:
    assert side_by_side(recipe(*components)) == expected


def test_memory_of_a_job_is_counted_for_every_build_that_may_run_at_the_same_time() -> None:
    assert job_memory(recipe()) == 2 * GIB
    assert job_memory(recipe(("a", []), ("b", []))) == 4 * GIB
    assert job_memory(recipe(("a", []), ("b", []), build='build.memory-per-job = "512m"')) == GIB


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """The step as an image's build runs it, but for the place of the secret and of what the kernel tells."""
    copy = tmp_path / "jobs.sh"
    text = JOBS.read_text(encoding="utf-8")
    for there in ("/run/secrets/job-memory", "/proc/meminfo"):
        assert there in text
        text = text.replace(there, str(tmp_path / Path(there).name))
    copy.write_text(text, encoding="utf-8")
    (tmp_path / "meminfo").write_text("MemTotal: 9999999999 kB\nMemAvailable: 8388608 kB\nCached: 1 kB\n")
    return copy


def said(step: Path, **env: str) -> dict[str, str]:
    done = process.run(["sh", step, "env"], env=env)
    assert done.status == 0, done.stderr
    return {
        name: value
        for name, _, value in (line.partition("=") for line in done.stdout.splitlines())
        if re.fullmatch("MAX_JOBS|CMAKE_BUILD_PARALLEL_LEVEL|CARGO_BUILD_JOBS", name)
    }


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (8 * GIB, 1),  # all that is free
        (100 * GIB, 1),  # more than there is
        (1, len(os.sched_getaffinity(0))),  # the cores are the limit
    ],
)
def test_a_step_runs_as_many_compilers_as_memory_and_cores_allow(step: Path, memory: int, expected: int) -> None:
    (step.parent / "job-memory").write_text(str(memory))
    assert said(step) == dict.fromkeys(
        ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL", "CARGO_BUILD_JOBS"), str(expected)
    )


def test_what_the_recipe_says_of_jobs_counts_first(step: Path) -> None:
    (step.parent / "job-memory").write_text(str(8 * GIB))
    assert said(step, MAX_JOBS="7") == {
        "MAX_JOBS": "7", "CMAKE_BUILD_PARALLEL_LEVEL": "1", "CARGO_BUILD_JOBS": "1"
    }  # fmt: skip


@pytest.mark.parametrize("content", [None, ""])
def test_without_a_word_about_memory_nothing_is_limited(step: Path, content: str | None) -> None:
    if content is not None:
        (step.parent / "job-memory").write_text(content)
    assert said(step) == {}
