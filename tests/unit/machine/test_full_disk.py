"""A full disk is told by its name, and what has to be copied from another disk stays a program."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from builder import process
from builder.debian import link_or_copy
from builder.engine.build import _Steps
from builder.errors import BuildError, EngineError, SmokeError
from builder.host.registry_service import remove_empty_links
from builder.process import Completed
from builder.smoke.contract import Contract
from builder.smoke.run import _require_run
from builder.story import Silent
from builder.workspace import named


def test_a_program_may_be_executed_also_where_it_had_to_be_copied(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:  # what no link leads to from a disk
        program = Path(elsewhere) / "program"
        program.write_text("#!/bin/sh\nexit 7\n")
        program.chmod(0o755)
        link_or_copy(program, tmp_path / "tools/program")
        assert process.run([tmp_path / "tools/program"]).status == 7


def test_a_program_that_finds_its_disk_full_is_known_by_its_last_words() -> None:
    said = process.run(["sh", "-c", "echo 'tar: write error: No space left on device' >&2; echo bye >&2; exit 2"])
    assert said.full_disk
    assert not process.run(["sh", "-c", "echo 'no space' >&2; exit 2"]).full_disk


def test_a_build_that_finds_the_engine_s_disk_full_says_so_and_what_gives_room(tmp_path: Path) -> None:
    steps = _Steps(Silent())
    steps.hear("#9 [build 2/2] RUN cp marker /usr/share/")
    steps.hear("#9 0.1 cp: error writing '/usr/share/marker': No space left on device")
    steps.hear('#9 ERROR: process "cp marker /usr/share/" did not complete successfully: exit code: 1')
    log = tmp_path / "build.log"
    told = steps.failure("#9 0.1 cp: error writing '/usr/share/marker': No space left on device\n", log)
    assert isinstance(told, EngineError)
    assert told.message == "the engine could not build: no space left on device"
    assert told.details == ("#9 0.1 cp: error writing '/usr/share/marker': No space left on device",)
    assert told.hint == f"rocm-images engine free, or df -h; the whole log is in {log}"
    assert isinstance(steps.failure("ERROR: failed to solve\n", log), BuildError)


def test_tests_that_could_not_write_what_came_of_them_are_the_disk_s_fault_and_not_the_image_s() -> None:
    contract = Contract(image="tiny")
    said = "OSError: [Errno 28] No space left on device\n"
    with pytest.raises(EngineError) as failure:
        _require_run(contract, {}, Completed(argv=("pytest",), status=1, stdout="", stderr=said))
    assert failure.value.message == "tiny: the smoke tests could not run: no space left on device"
    assert failure.value.details == (said.strip(),)
    with pytest.raises(SmokeError, match="did not run to their end"):
        _require_run(contract, {}, Completed(argv=("pytest",), status=1, stdout="", stderr="KeyError: 1\n"))


def test_links_of_a_registry_that_a_full_disk_left_empty_are_removed_and_no_others(tmp_path: Path) -> None:
    layers = tmp_path / "docker/registry/v2/repositories/team/image/_layers/sha256"
    whole, empty = layers / "aa/link", layers / "bb/link"
    blob = tmp_path / "docker/registry/v2/blobs/sha256/cc/data"
    for path, content in ((whole, "sha256:aa"), (empty, ""), (blob, "")):
        path.parent.mkdir(parents=True)
        path.write_text(content)
    assert remove_empty_links(tmp_path) == 1
    assert (whole.exists(), empty.exists(), blob.exists()) == (True, False, True)
    assert remove_empty_links(tmp_path / "nowhere") == 0


def test_what_an_open_file_cannot_take_names_the_file(tmp_path: Path) -> None:
    full = Path("/dev/full")
    said = "No space left on device"
    with pytest.raises(OSError, match=said) as failure, named(tmp_path / "build.log"), full.open("w") as sink:
        sink.write("words")
    assert failure.value.filename == str(tmp_path / "build.log")
