"""The only place that starts programs.

A program gets a small environment, its exact command line goes to the log, and it never outlives this
process' interest in it: an interrupt is passed on, waited for, and then enforced, and the kernel ends it when this
process is killed.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

from builder.errors import EngineError
from builder.visible import without_logins

_log = logging.getLogger(__name__)

# What a program may see of the caller's environment: where things are, how to reach the network, how to talk.
_PASSED_ON = (
    "HOME", "PATH", "TERM", "TMPDIR", "USER", "XDG_RUNTIME_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
    "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "BUILDX_CONFIG",
)  # fmt: skip
FULL = "no space left on device"
_GRACE_SECONDS = 30.0
_STRAY_SECONDS = 2.0  # for what a program leaves behind when it ends
_TICK_SECONDS = 0.5
_LARGEST_OUTPUT = 1 << 28  # characters; the longest list of a repository's commits has a tenth of it
_LONGEST_PIECE = 1 << 16


class Flooded(EngineError):
    """A program wrote more than anybody can want to read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """A program that ended: what it was, its exit status, and what it wrote (text, UTF-8)."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of its output that say something, at most 20."""
        lines = [line.rstrip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        return tuple(lines[-20:])

    @property
    def full_disk(self) -> bool:
        """Whether what it wrote last says that a disk is full, in the system's words (ENOSPC of errno(3))."""
        return any(FULL in line.lower() for line in self.tail)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment a started program gets: the passed-on names, a fixed locale, and `extra`."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return kept | {"LC_ALL": "C.UTF-8"} | dict(extra or {})


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    on_line: Callable[[str], None] | None = None,
    largest: int = _LARGEST_OUTPUT,
) -> Completed:
    """Run a program to its end and return what it did, whatever its status.

    `env` is added to `environment()`. With `on_line`, standard error is handed over line by line as it is
    written. Raises `EngineError` when there is no such program, `Flooded` when one writes more than `largest`
    characters to a stream: it is ended then. On an interrupt the program gets SIGINT, then
    time to clean up, then SIGKILL; the interrupt goes on to the caller.
    """
    command = tuple(str(word) for word in argv)
    _log.debug("run %s", without_logins(shlex.join(command)))
    out: list[str] = []
    err: list[str] = []
    failures: list[Exception] = []
    helpers: list[threading.Thread] = []
    child: subprocess.Popen[str] | None = None
    try:
        with _interrupts_held():  # until it is known what there would be to stop
            child = subprocess.Popen(
                tied(command),
                cwd=cwd,
                env=environment(env),
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            end = partial(_end, child, command[0], failures)
            helpers = [
                threading.Thread(
                    target=_drain, args=(child.stdout, out, None, failures, largest, end), daemon=True
                ),
                threading.Thread(
                    target=_drain, args=(child.stderr, err, on_line, failures, largest, end), daemon=True
                ),
                threading.Thread(target=_feed, args=(child.stdin, stdin, command[0]), daemon=True),
            ]
            ended = threading.Thread(target=child.wait, daemon=True)
            for helper in (*helpers, ended):
                helper.start()
        # A call without a limit would miss an interrupt that comes just before it.
        while ended.is_alive():
            ended.join(_TICK_SECONDS)
    except OSError as error:
        raise _not_started(command[0], cwd, error) from error
    except BaseException:
        if child is not None:
            _stop(child)
        raise
    finally:
        for helper in helpers:
            helper.join(timeout=_GRACE_SECONDS)
    if failures:
        raise failures[0]
    done = Completed(argv=command, status=child.returncode, stdout="".join(out), stderr="".join(err))
    _log.debug("exit %d: %s", done.status, command[0])
    return done


def tied(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that runs a program which gets SIGTERM when the thread that starts it is gone.

    It is the same process, so that its id, its status and its signals are the program's. What is killed cannot end
    what it has started, the kernel can (PR_SET_PDEATHSIG of prctl(2)). Without util-linux's setpriv the program is
    run as it is, and so is what is no program, for its failure to be told.
    """
    setter, program = shutil.which("setpriv"), shutil.which(argv[0])
    if setter is None or program is None or not _is_program(Path(program)):
        return tuple(argv)
    return (setter, "--pdeathsig", "TERM", "--", *argv)


def own_mounts() -> tuple[str, ...]:
    """Return the start of a command line that runs a program with mounts of its own, which nobody else sees.

    What it mounts goes with it, however it ends. It is the same process. Empty where that is not allowed, as it is
    to root alone, and without util-linux's unshare.
    """
    command = ("unshare", "--mount", "--")
    if os.geteuid() != 0 or shutil.which(command[0]) is None or run([*command, "true"]).status != 0:
        return ()
    return command


def _is_program(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"\x7fELF", b"#!"))
    except OSError:  # may be run, not read
        return False


def start_detached(argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None) -> int:
    """Start a service that outlives this process, its output appended to `log`, and return its process id."""
    command = [str(word) for word in argv]
    _log.debug("start %s", without_logins(shlex.join(command)))
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        try:
            child = subprocess.Popen(
                command, env=environment(env), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                start_new_session=True, cwd="/",
            )  # fmt: skip
        except OSError as error:
            raise _not_started(command[0], None, error) from error
    return child.pid


def _not_started(program: str, cwd: Path | None, error: OSError) -> EngineError:
    if cwd is not None and not cwd.is_dir():
        return EngineError(f"the program {program!r} cannot be started in {cwd}: no such folder")
    if isinstance(error, FileNotFoundError):
        return EngineError(f"the program {program!r} is not on this machine", hint="rocm-images doctor")
    return EngineError(f"the program {program!r} cannot be started: {(error.strerror or str(error)).lower()}")


def _drain(
    stream: IO[str],
    into: list[str],
    on_line: Callable[[str], None] | None,
    failures: list[Exception],
    largest: int,
    end: Callable[[], None],
) -> None:
    """Read a stream to its end. A listener that fails is not called again, but the program never waits for it."""
    size = 0
    while line := stream.readline(_LONGEST_PIECE):
        size += len(line)
        if size > largest:
            end()
            continue
        into.append(line)
        if on_line is not None and not failures:
            try:
                on_line(line.rstrip("\n"))
            except Exception as failure:  # told by the thread that called
                failures.append(failure)


def _end(child: subprocess.Popen[str], program: str, failures: list[Exception]) -> None:
    """End a program that floods us, and say so."""
    failures.insert(0, Flooded(f"the program {program!r} writes without end, and was ended"))
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _feed(stream: IO[str] | None, text: str | None, program: str) -> None:
    if stream is None or text is None:
        return
    try:
        with stream:
            stream.write(text)
    except BrokenPipeError:
        _log.debug("%s did not read its input", program)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let interrupts that come inside this context take effect at its end. They reach the main thread alone."""
    held: list[tuple[int, FrameType | None]] = []
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(name)
            if callable(handler):
                handlers[name] = handler
                signal.signal(name, lambda *what: held.append(what))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if held:
        number, frame = held[0]
        handlers[number](number, frame)


def _stop(child: subprocess.Popen[str]) -> None:
    """End a program and all it has started. A second interrupt ends the patience with it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with suppress(KeyboardInterrupt):
            if not _group_lives(child.pid):
                return
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            begun = time.monotonic()
            while _group_lives(child.pid):
                waited = time.monotonic() - begun
                if waited > _GRACE_SECONDS or (waited > _STRAY_SECONDS and child.poll() is not None):
                    _log.debug("%s ignores signal %d", child.args, number)
                    break
                time.sleep(0.02)


def _group_lives(group: int) -> bool:
    """Return whether a process of a group still runs (proc(5)); what only waits to be reaped does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if of == str(group) and state not in "ZX":
                return True
    return False


@contextmanager
def leash() -> Iterator[None]:
    """End every program that a library starts inside this context when an interrupt or a failure leaves it.

    For libraries that start programs themselves and forget them when they are interrupted.
    """
    before = _children()
    try:
        yield
    except BaseException:
        for number in (signal.SIGINT, signal.SIGKILL):
            with suppress(KeyboardInterrupt):  # the second ends the patience
                left = _children() - before
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
                _wait_until_gone(left)
        raise


def _children() -> set[int]:
    """Return the process ids of this process' children, whichever thread started them (proc(5))."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):
            found.update(int(word) for word in (task / "children").read_text().split())
    return found


def _wait_until_gone(pids: set[int]) -> None:
    deadline = time.monotonic() + _GRACE_SECONDS
    while pids & _children() and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)
