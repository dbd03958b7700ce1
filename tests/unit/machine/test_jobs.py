"""How many compilers run side by side: by memory and cores, told to steps without a trace in what they make."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

import builder
from builder import process
from builder.machine import job_memory, side_by_side
from builder.recipe import Recipe, parse_recipe
from builder.render import with_ccache

JOBS = Path(builder.__file__).parent / "inside/jobs.sh"
GOLDENS = Path(__file__).parents[2] / "data/goldens"
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
    for there in ("/run/secrets/job-memory", "/proc/meminfo", "/ccache"):
        assert there in text
        text = re.sub(rf"(?<![\w$]){there}\b", str(tmp_path / Path(there).name), text)
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


CCACHE = """#!/bin/sh
echo "$0 $CCACHE_DIR" >> "$LOG"
case "$*" in
  *-c*) echo direct_cache_hit >> "$CCACHE_STATSLOG"; echo cache_miss >> "$CCACHE_STATSLOG" ;;
  *) echo called_for_link >> "$CCACHE_STATSLOG" ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with a compiler of C and one of HIP, and with what the steps need beside them."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("gcc", "hipcc"):
        (folder / name).write_text("#!/bin/sh\nexit 3\n")
    for name in ("awk", "env", "ln", "mktemp", "nproc", "rm", "sh"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for path in folder.iterdir():
        if not path.is_symlink():
            path.chmod(0o755)
    return folder


def through(step: Path, programs: Path, command: str) -> tuple[int, str, str]:
    env = {"PATH": str(programs), "LOG": str(step.parent / "log")}
    done = process.run([programs / "sh", step, "sh", "-c", command], env=env)
    return done.status, done.stdout, done.stderr


def test_compilers_are_found_through_ccache_where_a_cache_is_mounted(step: Path, programs: Path) -> None:
    """A stand-in for ccache: that the real one knows what it compiled is a test of real builds."""
    (programs / "ccache").write_text(CCACHE)
    (programs / "ccache").chmod(0o755)
    (step.parent / "ccache").mkdir()
    status, told, said = through(step, programs, 'gcc -c a.c && gcc a.o && "$PYTORCH_NVCC" -c b.hip; exit 5')
    assert (status, told) == (5, "")
    assert said.splitlines()[-1] == "ccache: 2 of 4 compiles were known"
    started = [line.split() for line in (step.parent / "log").read_text().splitlines()]
    assert [Path(program).name for program, _ in started] == ["gcc", "gcc", "hipcc"]
    assert {cache for _, cache in started} == {str(step.parent / "ccache")}
    assert not Path(started[0][0]).parent.exists()


def test_a_command_that_compiles_nothing_says_nothing_of_ccache(step: Path, programs: Path) -> None:
    (programs / "ccache").write_text(CCACHE)
    (programs / "ccache").chmod(0o755)
    (step.parent / "ccache").mkdir()
    assert through(step, programs, "echo done") == (0, "done\n", "")


def test_a_stage_without_ccache_says_so_and_compiles(step: Path, programs: Path) -> None:
    (step.parent / "ccache").mkdir()
    status, _, said = through(step, programs, "gcc -c a.c")
    assert (status, said) == (3, "ccache: this stage has none, so everything is compiled\n")


def test_without_a_cache_the_compilers_are_those_of_the_stage(step: Path, programs: Path) -> None:
    (programs / "ccache").write_text(CCACHE)
    (programs / "ccache").chmod(0o755)
    assert through(step, programs, "gcc -c a.c") == (3, "", "")


def test_only_steps_that_build_from_source_get_the_cache() -> None:
    golden = (GOLDENS / "vllm-debian/Dockerfile").read_text()
    cached = with_ccache(golden)
    gone = [line for line in cached.splitlines() if "type=cache" not in line]
    assert gone == golden.splitlines()
    steps = [step for step in cached.split("\nRUN ") if "type=cache,id=rocm-images-ccache,target=/ccache" in step]
    assert len(steps) == golden.count("build_wheel.py") + golden.count("build-source.sh") > 0
