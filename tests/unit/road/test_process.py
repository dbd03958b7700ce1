"""Programs: what they see, what they say, and that none outlives an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from builder import process
from builder.errors import EngineError

SAFETY_SECONDS = 60  # a net under what hangs; nothing here is about how long something takes


def any_with(words: str) -> bool:
    """Tell whether a process has these words on its command line."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return any(words in line for line in lines)


def until(path: Path) -> str:
    """Wait for a file with content, and return it."""
    deadline = time.monotonic() + SAFETY_SECONDS
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if text := path.read_text():
                return text
        time.sleep(0.02)
    raise AssertionError(f"{path.name} never came")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


def gone(pid: int) -> bool:
    deadline = time.monotonic() + SAFETY_SECONDS
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


@contextmanager
def running(program: str, *, patience: float = SAFETY_SECONDS) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python in a process of its own, as the command line is one; `patience` is what it grants a program."""
    head = (
        f"import sys; from builder import process; process._GRACE_SECONDS = process._STRAY_SECONDS = {patience}\n"
    )
    child = subprocess.Popen([sys.executable, "-c", head + program], stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def test_a_program_that_ends_tells_its_status_and_both_outputs() -> None:
    done = process.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.status, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert done.argv == ("sh", "-c", "echo out; echo err >&2; exit 7")


def test_a_program_that_a_signal_ends_has_a_negative_status() -> None:
    assert process.run(["sh", "-c", "kill -TERM $$"]).status == -signal.SIGTERM


def test_a_path_is_a_word_and_no_word_is_seen_by_a_shell(tmp_path: Path) -> None:
    done = process.run(["printf", "%s|", tmp_path, "$HOME", "a b", "*", "`id`"])
    assert done.stdout == f"{tmp_path}|$HOME|a b|*|`id`|"


def test_bytes_that_are_no_text_do_not_end_a_run() -> None:
    assert process.run(["printf", r"a\377b"]).stdout == "a\ufffdb"


def test_a_megabyte_goes_in_and_out_on_both_sides() -> None:
    text = "0123456789abcde\n" * 65536
    done = process.run(["sh", "-c", "tee /dev/stderr"], stdin=text)
    assert done.stdout == text
    assert done.stderr == text


def test_a_program_that_does_not_read_its_input_is_no_failure() -> None:
    assert process.run(["true"], stdin="x" * 1_000_000).status == 0


def test_a_program_without_input_finds_its_end_at_once() -> None:
    assert process.run(["cat"]).stdout == ""


def test_lines_of_the_error_output_are_handed_over_as_they_are_written() -> None:
    lines: list[str] = []
    done = process.run(["sh", "-c", "echo one >&2; echo out; printf 'two\nthree' >&2"], on_line=lines.append)
    assert lines == ["one", "two", "three"]
    assert done.stderr == "one\ntwo\nthree"
    assert done.stdout == "out\n"


def test_a_listener_that_fails_ends_the_run_with_its_failure_and_blocks_nobody() -> None:
    def listen(line: str) -> None:
        raise RuntimeError(line)

    with pytest.raises(RuntimeError, match=r"^1$"):
        process.run(["sh", "-c", "seq 1 200000 >&2"], on_line=listen)


def test_the_tail_is_the_last_lines_that_say_something() -> None:
    done = process.run(["sh", "-c", "seq 1 50 >&2; echo >&2; echo out"])
    assert done.tail == tuple(str(number) for number in range(31, 51))
    assert process.run(["sh", "-c", "echo out; echo"]).tail == ("out",)


def test_a_program_that_is_not_there_is_named_with_a_remedy() -> None:
    with pytest.raises(EngineError) as failure:
        process.run(["no-such-program", "--version"])
    assert failure.value.message == "the program 'no-such-program' is not on this machine"
    assert failure.value.hint == "rocm-images doctor"


def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("not a program")
    with pytest.raises(EngineError) as failure:
        process.run([tmp_path / "tool"])
    assert failure.value.message == f"the program '{tmp_path}/tool' cannot be started: permission denied"
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(EngineError) as failure:
        process.run([tmp_path / "tool"])
    assert failure.value.message == f"the program '{tmp_path}/tool' cannot be started: exec format error"


def test_a_folder_that_is_not_there_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as failure:
        process.run(["true"], cwd=tmp_path / "nowhere")
    assert failure.value.message == f"the program 'true' cannot be started in {tmp_path}/nowhere: no such folder"


def test_a_program_runs_in_the_folder_it_is_given(tmp_path: Path) -> None:
    assert process.run(["pwd"], cwd=tmp_path).stdout == f"{tmp_path}\n"


def test_a_program_sees_little_of_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GITHUB_TOKEN": "secret",
        "PYTHONPATH": "/x",
        "LANG": "de_DE",
        "LD_PRELOAD": "",
        "HTTPS_PROXY": "http://p",
    }.items():
        monkeypatch.setenv(name, value)
    lines = process.run(["env"], env={"EXTRA": "1"}).stdout.splitlines()
    seen = dict(line.split("=", 1) for line in lines)
    assert seen.keys() & {"GITHUB_TOKEN", "PYTHONPATH", "LANG", "LD_PRELOAD"} == set()
    assert seen["PATH"] == os.environ["PATH"]
    assert seen["HTTPS_PROXY"] == "http://p"
    assert seen["LC_ALL"] == "C.UTF-8"
    assert seen["EXTRA"] == "1"
    assert seen == process.environment({"EXTRA": "1"}) | {
        key: seen[key] for key in seen.keys() & {"_", "PWD", "SHLVL"}
    }


def test_an_interrupt_reaches_the_program_which_cleans_up_before_the_run_ends(tmp_path: Path) -> None:
    script = (
        f"trap 'echo cleaned > {tmp_path}/cleaned; exit 3' INT\n"
        f"echo $$ > {tmp_path}/ready\nwhile :; do sleep 0.05; done"
    )
    with running(f"process.run(['sh', '-c', {script!r}])") as runner:
        pid = int(until(tmp_path / "ready"))
        runner.send_signal(signal.SIGINT)
        assert runner.wait(timeout=SAFETY_SECONDS) == -signal.SIGINT
        assert (tmp_path / "cleaned").read_text() == "cleaned\n"
        assert gone(pid)


def test_a_program_that_ignores_the_interrupt_is_ended_all_the_same(tmp_path: Path) -> None:
    script = f"trap '' INT TERM\necho $$ > {tmp_path}/ready\nwhile :; do sleep 0.05; done"
    with running(f"process.run(['sh', '-c', {script!r}])", patience=0.3) as runner:
        pid = int(until(tmp_path / "ready"))
        runner.send_signal(signal.SIGINT)
        assert runner.wait(timeout=SAFETY_SECONDS) == -signal.SIGINT
        assert gone(pid)


def test_an_interrupt_reaches_what_the_program_has_started_itself(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/ready; wait"
    with running(f"process.run(['sh', '-c', {script!r}])", patience=0.3) as runner:
        pid = int(until(tmp_path / "ready"))
        runner.send_signal(signal.SIGINT)
        runner.wait(timeout=SAFETY_SECONDS)
        assert gone(pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_at_any_moment_of_the_start_leaves_no_program(number: signal.Signals, tmp_path: Path) -> None:
    interrupt = "import signal\ndef ends(*_): raise KeyboardInterrupt\nsignal.signal(signal.SIGTERM, ends)\n"
    for moment in range(12):
        ready, begun = tmp_path / f"ready-{moment}", tmp_path / f"begun-{moment}"
        program = (
            f"open({str(begun)!r}, 'w').write('1')\nprocess.run(['sh', '-c', 'echo $$ > {ready}; sleep 1000'])"
        )
        with running(interrupt + program, patience=0.3) as runner:
            until(begun if moment % 2 else ready)
            time.sleep(moment * 0.0005)
            runner.send_signal(number)
            runner.wait(timeout=SAFETY_SECONDS)
            # It was never started, or it has been ended, perhaps before it wrote its id into the file.
            told = ready.read_text() if ready.exists() else ""
            assert gone(int(told)) if told else not any_with(str(ready))


def test_a_second_interrupt_ends_the_patience_and_still_the_program(tmp_path: Path) -> None:
    script = (
        f"trap 'echo asked > {tmp_path}/asked' INT TERM\necho $$ > {tmp_path}/ready\nwhile :; do sleep 0.05; done"
    )
    with running(f"process.run(['sh', '-c', {script!r}])", patience=SAFETY_SECONDS * 10) as runner:
        pid = int(until(tmp_path / "ready"))
        for _ in range(2):
            runner.send_signal(signal.SIGINT)
            until(tmp_path / "asked")
            (tmp_path / "asked").unlink()
        runner.send_signal(signal.SIGINT)
        assert runner.wait(timeout=SAFETY_SECONDS) == -signal.SIGINT
        assert gone(pid)


def test_an_interrupt_while_input_is_written_ends_the_program(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/ready; sleep 1000"
    with running(f"process.run(['sh', '-c', {script!r}], stdin='x' * 10_000_000)", patience=0.3) as runner:
        pid = int(until(tmp_path / "ready"))
        runner.send_signal(signal.SIGINT)
        runner.wait(timeout=SAFETY_SECONDS)
        assert gone(pid)


def start_and_fail(command: list[str], failure: BaseException, ready: Path | None = None) -> int:
    """Start a program as a library would that forgets it, inside a leash, and fail; return its process id."""
    pid = 0
    with suppress(type(failure)), process.leash():
        pid = subprocess.Popen(command).pid
        if ready is not None:
            until(ready)
        raise failure
    return pid


def test_a_leash_ends_what_a_library_started_and_forgot() -> None:
    before = subprocess.Popen(["sleep", "1000"])
    try:
        assert gone(start_and_fail(["sleep", "1000"], RuntimeError("the library failed")))
        assert alive(before.pid)
    finally:
        before.kill()
        before.wait()


def test_a_failure_inside_a_leash_goes_on() -> None:
    with pytest.raises(RuntimeError, match="the library failed"), process.leash():
        raise RuntimeError("the library failed")


def test_a_leash_ends_what_does_not_listen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.3)
    script = f"trap '' INT; echo $$ > {tmp_path}/ready; while :; do sleep 0.05; done"
    assert gone(start_and_fail(["sh", "-c", script], KeyboardInterrupt(), tmp_path / "ready"))


def test_a_leash_lets_run_what_a_context_that_succeeds_leaves() -> None:
    with process.leash():
        child = subprocess.Popen(["sleep", "1000"])
    assert alive(child.pid)
    child.kill()
    child.wait()


def test_a_service_outlives_its_starter_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs/service.log"
    script = f"trap 'exit 0' TERM; echo begun; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"
    program = (
        "from pathlib import Path\n"
        f"print(process.start_detached(['sh', '-c', {script!r}], log=Path({str(log)!r})))"
    )
    with running(program) as starter:
        pid = int(until(tmp_path / "pid"))
        assert starter.wait(timeout=SAFETY_SECONDS) == 0
    try:
        assert alive(pid)
        assert until(log) == "begun\n"
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, signal.SIGTERM)
    assert gone(pid)


def test_a_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="the program 'no-such-service' is not on this machine"):
        process.start_detached(["no-such-service"], log=tmp_path / "log")


def test_a_program_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = f"process.run(['sh', '-c', 'echo $$ > {started}; exec sleep 600'])"
    with running(program) as child:
        pid = int(until(started))
        assert alive(pid)
        child.kill()
        assert gone(pid)
