"""Completion in a real, interactive bash on a terminal: what stands there after the Tab key."""

from __future__ import annotations

import os
import pty
import select
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builder import process

BASH = shutil.which("bash") or "bash"
SECONDS = 20.0


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("sglang-one", "vllm-one", "vllm-two"):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "recipe.toml").write_text("broken = ")
    program = tmp_path / "bin/rocm-images"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom builder.cli.app import main\nmain()\n")
    program.chmod(0o755)
    return tmp_path


@contextmanager
def bash(repository: Path) -> Iterator[tuple[int, bytearray]]:
    """Start an interactive bash with completion as docs say; yield its terminal and what it has shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(repository)
        path = f"{repository}/bin:{os.environ['PATH']}"
        os.execve(
            BASH, [BASH, "--noprofile", "--norc", "-i"],
            {**os.environ, "PATH": path, "PS1": "ready> ", "TERM": "dumb", "INPUTRC": "/dev/null"},
        )  # fmt: skip
    shown = bytearray()
    try:
        os.write(terminal, b"bind 'set enable-bracketed-paste off'; bind 'set bell-style none'\n")
        os.write(terminal, b'eval "$(rocm-images --show-completion)"; echo so-"far"\n')
        until(terminal, shown, b"so-far")
        yield terminal, shown
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def until(terminal: int, shown: bytearray, wanted: bytes) -> None:
    ends = time.monotonic() + SECONDS
    while wanted not in shown:
        left = ends - time.monotonic()
        ready, _, _ = select.select([terminal], [], [], max(left, 0))
        assert ready, f"{wanted!r} did not come, but {bytes(shown)!r}"
        shown += os.read(terminal, 4096)


@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        (b"rocm-images build sg\t", b"rocm-images build sglang-one "),
        (b"rocm-images check sglang-one vl\t", b"check sglang-one vllm-"),
        (b"rocm-images bump\t", b"rocm-images bump-check "),
        (b"rocm-images engine st\t", b"rocm-images engine status "),
        (b"rocm-images lock --upd\t", b"rocm-images lock --update "),
        (b"rocm-images schema veri\t", b"rocm-images schema verify "),
    ],
)
def test_tab_completes_what_was_begun(repository: Path, typed: bytes, becomes: bytes) -> None:
    with bash(repository) as (terminal, shown):
        del shown[:]
        os.write(terminal, typed)
        until(terminal, shown, becomes)


def test_two_tabs_show_what_there_is(repository: Path) -> None:
    with bash(repository) as (terminal, shown):
        del shown[:]
        os.write(terminal, b"rocm-images build vllm-\t\t")
        until(terminal, shown, b"vllm-one")
        until(terminal, shown, b"vllm-two")
        assert b"sglang-one" not in shown


def test_outside_of_a_repository_nothing_is_completed_and_nothing_said(tmp_path: Path) -> None:
    asked = {"COMP_WORDS": "rocm-images build ", "COMP_CWORD": "2", "_ROCM_IMAGES_COMPLETE": "complete_bash"}
    code = "import sys; sys.argv[0] = 'rocm-images'; from builder.cli.app import main; main()"
    done = process.run([sys.executable, "-c", code], cwd=tmp_path, env=asked)
    assert (done.stdout.strip(), done.stderr) == ("", "")
