"""A process is told from every other one, and one that cannot be seen from here is never taken for gone."""

from __future__ import annotations

import subprocess
import sys

from builder import owner


def test_the_process_that_asks_is_there() -> None:
    assert not owner.is_gone(owner.me())


def test_a_process_that_was_killed_is_gone_before_and_after_somebody_waited_for_it() -> None:
    code = "from builder import owner; print(owner.me(), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    assert not owner.is_gone(name)
    child.kill()
    child.stdout.read()
    child.wait()
    assert owner.is_gone(name)


def test_another_process_with_the_same_id_is_not_the_one_that_is_meant() -> None:
    rest, _, started = owner.me().rpartition(" ")
    assert owner.is_gone(f"{rest} {int(started) - 1}")


def test_what_cannot_be_seen_from_here_is_not_taken_for_gone() -> None:
    boot, space, pid, started = owner.me().split()
    assert not owner.is_gone(f"{boot} pid:[1] {pid} {int(started) - 1}")
    assert not owner.is_gone(f"{'0' * len(boot)} {space} {pid} {int(started) - 1}")
    for text in ("", " ", "1", f"{boot} {space} x 1"):
        assert not owner.is_gone(text)
