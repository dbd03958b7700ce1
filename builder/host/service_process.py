"""Knows services that outlive the program: which process is the one that was started, and how it is ended.

A process id alone says nothing, ids are used again. Identity here is the id together with the time the process
was started and the boot it belongs to; signals go through a process file descriptor, so that they cannot reach
another process that has got the id in the meantime.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from builder.errors import EngineError
from builder.owner import started
from builder.story import Story
from builder.workspace import write_atomic

_PROC = Path("/proc")
_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessMark:
    """One process and no other: `started` is in clock ticks after the boot with the id `boot`."""

    pid: int
    started: int
    boot: str


def mark(pid: int) -> ProcessMark | None:
    """Return the mark of the process that has this id now, or None when there is none that still runs."""
    at = started(pid)
    return None if at is None else ProcessMark(pid=pid, started=at, boot=_boot())


def is_running(process: ProcessMark) -> bool:
    """Tell whether exactly this process still runs. One that ended but was not waited for does not."""
    return mark(process.pid) == process


def children(pid: int) -> tuple[ProcessMark, ...]:
    """Return the running children of a process."""
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == pid and (child := mark(int(entry.name))) is not None:
                found.append(child)
    return tuple(found)


def stop(process: ProcessMark, *, grace_seconds: float) -> bool:
    """End exactly this process and return whether it went by itself: SIGTERM, time to clean up, then SIGKILL.

    A process that does not run any more counts as gone by itself.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not is_running(process):
            return True
        for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
            # readable when the process has ended: pidfd_open(2)
            if select.select([descriptor], [], [], seconds)[0]:
                return number == signal.SIGTERM
        raise EngineError(
            f"process {process.pid} does not end, not even when it is killed",
            hint=f"see what it waits for: cat /proc/{process.pid}/stack",
        )
    finally:
        os.close(descriptor)


def wait_until(ready: Callable[[], bool], process: ProcessMark, *, seconds: float) -> bool:
    """Wait until the service is ready and return True; False as soon as its process is gone, or time is up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ready():
            return True
        if not is_running(process):
            return False
        time.sleep(_POLL_SECONDS)
    return False


@contextlib.contextmanager
def exclusive(lock: Path, story: Story) -> Iterator[None]:
    """Hold a lock file, so that two runs never start or stop the same service at once.

    A file or folder of the service that cannot be used is an `EngineError` that names it.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("ab") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                story.note(f"another run holds {lock}; waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise EngineError(
            f"{error.filename or lock}: {error.strerror or error}", hint=f"ls -ld {error.filename or lock}"
        ) from error


def read_state(path: Path) -> dict[str, Any]:
    """Return what `write_state` wrote, or an empty mapping when there is no such file."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise EngineError(f"{path}: {error}", hint=f"rm {path}") from error
    if not isinstance(state, dict):
        raise EngineError(f"{path}: expected an object", hint=f"rm {path}")
    return state


def write_state(path: Path, state: Mapping[str, Any], process: ProcessMark | None) -> None:
    """Write the state of a service, with the mark of its process while one runs."""
    held = dict(state) | ({"process": asdict(process)} if process is not None else {})
    write_atomic(path, json.dumps(held, indent=2, sort_keys=True) + "\n")


def recorded(state: Mapping[str, Any]) -> ProcessMark | None:
    """Return the process a state file names if exactly that one still runs."""
    held = state.get("process")
    try:
        process = ProcessMark(**held) if isinstance(held, dict) else None
    except TypeError:
        return None
    return process if process is not None and is_running(process) else None


def last_lines(log: Path, *, since: int = 0, count: int = 15) -> tuple[str, ...]:
    """Return the last lines of a log that were written after the byte `since`."""
    try:
        with log.open("rb") as source:
            source.seek(since)
            text = source.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ()
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-count:]


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
