"""How a failing build ends: the lines that matter, the stage, the input that changed, and where to look closer."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.engine.build import StepFailed, _Steps
from builder.errors import BuildError
from builder.failedstep import MOST, cause, changed_for, made_of, what_matters
from builder.making import _in_words
from builder.project import Prepared
from builder.story import Silent

from ..recipe import samples

NOISE = [f"copying build/lib/{number}.py" for number in range(400)]
GCC = [
    "kernels/hash.cpp: In function 'int main()':",
    "kernels/hash.cpp:5:10: fatal error: openssl/sha.h: No such file or directory",
    "    5 | #include <openssl/sha.h>",
    "      |          ^~~~~~~~~~~~~~~",
    "compilation terminated.",
]
TRACE = [
    "Traceback (most recent call last):",
    '  File "/media/build_wheel.py", line 27, in main',
    "    copy_tree(int(epoch))",
    "shutil.Error: [('/mnt/x.cpp', \"[Errno 28] No space left on device: '/mnt/x.cpp' -> '/build/x.cpp'\""
    + "," * 900,
]
NINJA = [
    "FAILED: a.o", "g++ -c a.cpp", "a.cpp:1:2: error: no such thing", "  1 | x", "    ^", "3 errors generated.",
]  # fmt: skip
STOPPED = "ninja: build stopped: subcommand failed."
MADE = "make: *** [Makefile:3: all] Error 1"
PIP = [
    "ERROR: Could not find a version that satisfies the requirement torch==9",
    "ERROR: No matching distribution found for torch==9",
]
CASES = {
    "gcc among the noise": ([*NOISE, *GCC, *NOISE[:50], MADE], ["…", *GCC[1:4], "…", *NOISE[48:50], MADE]),
    "a short step is shown as it is": (GCC, GCC),
    "python's trace ends with what matters": ([*NOISE, *TRACE], ["…", *TRACE[1:3], TRACE[3][:299] + "…"]),
    "ninja's wrapper is not the error": (
        [*NOISE, *NINJA, *NOISE[:30], STOPPED],
        ["…", *NINJA[2:5], "…", *NOISE[28:30], STOPPED],
    ),
    "pip": ([*NOISE, *PIP], ["…", NOISE[-1], *PIP]),
    "nothing known is the end": (NOISE, NOISE[-MOST:]),
    "nothing at all": ([], []),
}


@pytest.mark.parametrize("name", CASES)
def test_of_what_a_step_said_the_lines_that_matter_are_shown(name: str) -> None:
    said, shown = CASES[name]
    assert list(what_matters(said)) == shown
    assert len(what_matters(said)) <= 2 * MOST


def test_many_errors_are_cut_to_the_first_of_them() -> None:
    said = [line for number in range(50) for line in (f"a.cpp:{number}:1: error: no {number}", "  code", "  ^")]
    shown = what_matters(said)
    assert shown[0] == "a.cpp:0:1: error: no 0"
    assert shown[-2:] == ("  code", "  ^")
    assert len(shown) <= MOST + 1


KILLED = ["g++: fatal error: Killed signal terminated program cc1plus"]


@pytest.mark.parametrize(
    ("said", "told", "remedy"),
    [
        (GCC, "libssl-dev is in no stage, and the build stage needs it", 'add "libssl-dev" to base.build.apt'),
        (
            ["sh: 1: ninja: not found"],
            "ninja-build is installed in base.runtime only, and the build stage",
            'add "ninja-build" to base.build.apt',
        ),
        (TRACE, "the engine's disk is full", "rocm-images engine free"),
        (KILLED, "too little memory", "raise build.memory-per-job"),
        (["error: invalid target ID 'gfx1201'"], "the compiler does not know gfx1201", "take a compiler that"),
    ],
)
def test_a_known_cause_is_named_with_its_remedy_for_the_build_stage(
    said: list[str], told: str, remedy: str
) -> None:
    found = cause([*NOISE, *said], samples.recipe())
    assert found is not None
    assert told in found.cause
    assert found.hint.startswith(remedy)


def test_words_that_only_look_like_a_cause_are_none() -> None:
    assert cause(["checking for openssl/sha.h... no", "-- Could NOT find hip", "done"], samples.recipe()) is None


def test_a_stage_is_made_of_its_component_its_source_and_its_patches() -> None:
    recipe = samples.recipe()
    assert made_of("component-kernels", recipe) == ("component.kernels", "source.kernels")
    assert made_of("unpatched-kernels", recipe) == ("component.kernels", "source.kernels")
    assert made_of("runtime-packages", recipe) == made_of("image", recipe) == ()


CHANGED = (
    "base.build: changed", "component.kernels: version 0.9 -> 1.0", "deb.g++: version 13 -> 14",
    "image.env: changed", "source.kernels: changed", "wheel.triton: version 3.5.0 -> 3.6.0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        ("component-kernels", ("component.kernels: version 0.9 -> 1.0", "source.kernels: changed")),
        ("component-triton", ("wheel.triton: version 3.5.0 -> 3.6.0",)),
        ("component-sglang", ("base.build: changed", "deb.g++: version 13 -> 14")),
        ("build", ("base.build: changed", "deb.g++: version 13 -> 14")),
    ],
)
def test_of_what_changed_that_is_told_which_the_stage_is_made_of(stage: str, told: tuple[str, ...]) -> None:
    assert changed_for(stage, CHANGED, samples.recipe(), {"triton": "triton"}) == told


def failed(*said: str, step: str = "component-kernels 2/2") -> StepFailed:
    steps = _Steps(Silent())
    command = f'[{step}] RUN --network=none ["sh", "/media/build-source.sh", "0"]'
    for line in (f"#7 {command}", *(f"#7 0.412 {line}" for line in said), "#7 ERROR: process did not complete"):
        steps.hear(line)
    error = steps.failure("", Path("/srv/a project/dist/probe/build.log"))
    assert isinstance(error, StepFailed)
    return error


def in_words(error: StepFailed, changed: tuple[str, ...] | None) -> BuildError:
    recipe = samples.recipe()
    prepared = Prepared(
        recipe=recipe, lock=samples.lock(recipe), lock_hash="", inputs={}, content_key="c" * 64, test_key="",
        fingerprint="", below={},
    )  # fmt: skip
    return _in_words(error, prepared, changed)


def test_a_failed_build_ends_with_cause_lines_stage_change_remedy_and_the_command_to_look_closer() -> None:
    told = in_words(failed(*NOISE, *GCC), CHANGED)
    assert told.exit_code == 5
    assert told.message == (
        "the build failed in [component-kernels] sh build-source.sh: the header openssl/sha.h is missing: "
        "libssl-dev is in no stage, and the build stage needs it"
    )
    assert told.details == (
        "…", *GCC[1:],
        "stage component-kernels, made of component.kernels, source.kernels",
        "changed since the last build: component.kernels: version 0.9 -> 1.0",
        "changed since the last build: source.kernels: changed",
    )  # fmt: skip
    assert told.hint == (
        'add "libssl-dev" to base.build.apt, then: rocm-images lock probe; the whole step: '
        "grep '^#7 ' '/srv/a project/dist/probe/build.log'; its Dockerfile: rocm-images render probe"
    )


def test_it_says_so_where_nothing_changed_or_nothing_is_known_or_the_cause_is_none() -> None:
    nothing = in_words(failed("what?"), ())
    assert nothing.message == "the build failed in [component-kernels] sh build-source.sh"
    assert nothing.details[-1] == "nothing that this stage is made of has changed since the last build"
    assert nothing.hint is not None
    assert nothing.hint.startswith("the whole step: grep '^#7 '")
    assert in_words(failed("what?"), None).details[-1] == "no earlier build is known to compare with"


def test_the_last_stage_is_called_the_image() -> None:
    told = in_words(failed("what?", step="stage-8 2/7"), None)
    assert told.message == "the build failed in [image] sh build-source.sh"
    assert "stage image" in told.details
