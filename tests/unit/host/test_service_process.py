from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from builder.errors import EngineError
from builder.host import service_process
from builder.story import Silent


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def test_a_running_process_has_a_mark_that_stays_the_same(child):
    mark = service_process.mark(child.pid)
    assert mark.pid == child.pid
    assert service_process.mark(child.pid) == mark
    assert service_process.is_running(mark)


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "of-yesterday"}])
def test_an_id_that_was_used_before_is_another_process_and_is_not_ended(child, change):
    earlier = dataclasses.replace(service_process.mark(child.pid), **change)
    assert not service_process.is_running(earlier)
    assert service_process.stop(earlier, grace_seconds=1)
    assert child.poll() is None


def test_a_process_that_ended_but_was_not_waited_for_does_not_run(child):
    mark = service_process.mark(child.pid)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now, and stays one
    assert service_process.mark(child.pid) is None
    assert not service_process.is_running(mark)


def test_a_name_with_spaces_and_parentheses_does_not_hide_the_start_time(tmp_path):
    program = tmp_path / "a) S 1 ("
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as child:
        mark = service_process.mark(child.pid)
        usual = service_process.mark(os.getpid())
        child.kill()
    assert mark.started >= usual.started


def test_a_process_that_ends_when_asked_is_not_killed(child):
    assert service_process.stop(service_process.mark(child.pid), grace_seconds=10)
    assert child.wait() == -signal.SIGTERM


def test_a_process_that_ignores_the_request_is_killed():
    deaf = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert not service_process.stop(service_process.mark(child.pid), grace_seconds=0.2)
        assert child.wait() == -signal.SIGKILL


def test_children_are_those_of_that_process_only(child):
    assert service_process.mark(child.pid) in service_process.children(os.getpid())
    assert service_process.children(child.pid) == ()


def test_waiting_ends_when_the_service_is_gone(child):
    mark = service_process.mark(child.pid)
    child.kill()
    child.wait()
    assert not service_process.wait_until(lambda: False, mark, seconds=60)


def test_a_state_is_read_as_it_was_written_and_names_a_process_only_while_that_runs(tmp_path, child):
    path = tmp_path / "deep" / "state.json"
    mark = service_process.mark(child.pid)
    assert service_process.read_state(path) == {}
    service_process.write_state(path, {"port": 5000}, mark)
    state = service_process.read_state(path)
    assert state["port"] == 5000
    assert service_process.recorded(state) == mark

    child.kill()
    child.wait()
    assert service_process.recorded(state) is None
    service_process.write_state(path, {"port": 5000}, None)
    assert service_process.read_state(path) == {"port": 5000}


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_state_that_is_not_one_is_named_with_its_remedy(tmp_path, content):
    path = tmp_path / "state.json"
    path.write_text(content)
    with pytest.raises(EngineError) as caught:
        service_process.read_state(path)
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.hint == f"rm {path}"


def test_two_runs_never_hold_one_service_at_once(tmp_path):
    lock = tmp_path / "lock"
    order = []

    class Heard(Silent):
        def note(self, text: str) -> None:
            order.append(text)

    def second() -> None:
        with service_process.exclusive(lock, Heard()):
            order.append("second in")

    with service_process.exclusive(lock, Silent()):
        other = threading.Thread(target=second)
        other.start()
        while not order:
            pass
        order.append("first out")
    other.join()
    assert order == [f"another run holds {lock}; waiting for it", "first out", "second in"]


def test_only_lines_written_since_a_place_in_the_log_are_shown(tmp_path):
    log = tmp_path / "log"
    log.write_text("old\n")
    since = log.stat().st_size
    assert service_process.last_lines(log, since=since) == ()
    with log.open("a") as sink:
        sink.write("one\n\ntwo \nthree\n")
    assert service_process.last_lines(log, since=since, count=2) == ("two", "three")
    assert service_process.last_lines(tmp_path / "none") == ()
