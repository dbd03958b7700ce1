"""The image's own command, its loaders, and further compiles: each with a real fault, and sound."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest

from builder.engine import cards
from builder.smoke.contract import OF_EVERY_IMAGE, Contract

from ..project import COMMAND, REPOSITORY
from .conftest import Run, failed

pytestmark = pytest.mark.engine

Only = Callable[..., Contract]
Forge = Callable[..., str]
HASH = "sglang.srt.mem_cache.cpp_utils.native_hash:get_native_hash([1], None)"
NOTHING = "json:dumps([1])"
MODULE = "hipcc compiles a python module that loads"
INLINE = "torch compiles inline source into the temporary directory"
OTHER = "any other user can use the directories that are mounted for it"


def test_a_loader_ends_with_an_extension_loaded_or_fails(smoke: Run, image: str, only: Only, ours: object) -> None:
    report = smoke(image, only(loaders=(HASH, NOTHING)))
    title = "the loader ends with an extension loaded"
    found = failed(report, f"{title} ({NOTHING})").finding
    assert found is not None
    assert found.cause == "dumps([1]) of json gave '[1]', and no extension was compiled and loaded"
    assert [test.title for test in report.failed] == [f"{title} ({NOTHING})"]
    well = next(test for test in report.tests if test.title == f"{title} ({HASH})")
    (loaded,) = well.figures["extension_loader"]["loaded"]
    assert loaded.startswith(only().env["TORCH_EXTENSIONS_DIR"])


def test_f04_a_python_module_of_hip_without_the_cpp_headers(
    smoke: Run, image: str, only: Only, forge: Forge, ours: object
) -> None:
    sound = smoke(image, only("hip-module"))
    assert sound.passed, sound.failed
    figures = next(test.figures for test in sound.tests if test.title == MODULE)["hip_module"]
    assert figures["targets"] == ["gfx1100"]
    report = smoke(forge("RUN rm -r /usr/include/c++ && hipcc --version"), only("hip-module"))
    found = failed(report, MODULE).finding
    assert found is not None
    assert found.cause == (
        "the header cmath is missing although g++ is in base.runtime.apt: something took it out of the image"
    )


def test_a_python_module_of_hip_without_pybind11(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    image = forge("RUN dpkg --purge --force-depends pybind11-dev && find / -xdev -name pybind11 -exec rm -rf {} +")
    found = failed(smoke(image, only("hip-module", without="pybind11-dev")), MODULE).finding
    assert found is not None
    assert found.cause == (
        "the header pybind11/pybind11.h is missing: pybind11-dev is in no stage, and the runtime stage needs it"
    )


def test_f07_inline_source_without_ninja(smoke: Run, image: str, only: Only, forge: Forge, ours: object) -> None:
    assert smoke(image, only("torch-inline")).passed
    gone = forge("RUN dpkg --purge --force-depends ninja-build")
    found = failed(smoke(gone, only("torch-inline", without="ninja-build")), INLINE).finding
    assert found is not None
    assert found.cause == (
        "ninja, on the PATH as served, is missing: ninja-build is in no stage, and the runtime stage needs it"
    )


def test_a_command_that_lacks_a_module_is_told_by_the_module(
    smoke: Run, image: str, only: Only, ours: object
) -> None:
    argv = ("python3", "-c", "import nothing_of_that_name")
    report = smoke(image, only(argv=argv))
    for how in ("as declared", "as another user"):
        found = failed(report, f"the command ends well ({how})").finding
        assert found is not None
        assert found.cause == "the Python module nothing_of_that_name is not in the image"
    assert smoke(image, only(argv=("python3", "-c", "import sglang"))).passed


def test_an_entrypoint_that_breaks_the_command_is_told_apart_from_the_command(
    smoke: Run, only: Only, forge: Forge, ours: object
) -> None:
    image = forge("RUN printf '#!/bin/sh\\necho lost >&2\\nexit 9\\n' > /entry && chmod 755 /entry",
                  'ENTRYPOINT ["/entry"]')  # fmt: skip
    report = smoke(image, only(argv=("true",), entrypoint=("/entry",)))
    found = failed(report, "the command ends well (as declared)").finding
    assert found is not None
    assert found.cause == "true ended with status 9: lost"
    passed = {test.title for test in report.tests if test.outcome == "passed"}
    assert "the command ends well (without the entrypoint)" in passed


def test_f10_another_user_whose_home_is_roots(smoke: Run, only: Only, forge: Forge, ours: object) -> None:
    silent = {subject: "not looked at here" for subject in OF_EVERY_IMAGE if subject != "nameless"}
    contract = only("triton", silent=silent)
    env = {**contract.env, "HOME": "/root"}
    moved = replace(contract, env=env)
    found = failed(smoke(forge("ENV HOME=/root"), moved), OTHER).finding
    assert found is not None
    assert found.cause.startswith("/root cannot be written by user 1000740001:0 (HOME=/root): ")


@pytest.mark.skipif(not isinstance(cards.card(), str), reason="about machines without a card")
def test_a_build_that_requires_the_gpu_tier_does_not_even_begin_without_a_card() -> None:
    done = subprocess.run(
        [COMMAND, "--root", REPOSITORY, "build", "sglang-debian", "--publish", "127.0.0.1:1/nowhere",
         "--require", "gpu"], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 6
    assert done.stdout == ""
    assert done.stderr.startswith(
        "error: sglang-debian: the gpu tier of the smoke tests is required and was not run: this machine has no"
    )
