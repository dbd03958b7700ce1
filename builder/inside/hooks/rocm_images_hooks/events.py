"""Tells what happens to hooks: a line of JSON per event where a log is asked for, and why an interpreter ends."""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False  # as type checkers know it; see __init__
if TYPE_CHECKING:
    from typing import NoReturn

    from .registry import Hook

REFUSED = 97  # exit status of an interpreter with a hook that does not fit; no convention has this number
LOG = "ROCM_IMAGES_HOOK_LOG"
_LONGEST = 2000

_warned = False


def tell(event: str, hook: Hook, detail: str | None = None) -> None:
    """Append an event to the log, in one write, so that lines of several processes do not mix."""
    global _warned  # noqa: PLW0603
    path = os.environ.get(LOG)
    if not path:
        return
    line = {
        "event": event, "hook": hook.name, "module": hook.module, "attribute": hook.attribute, "pid": os.getpid(),
        "time": round(time.time(), 3), "detail": detail,
    }  # fmt: skip
    try:
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(log, json.dumps(line).encode() + b"\n")
        finally:
            os.close(log)
    except (OSError, ValueError) as error:  # the log is for looking on; the hooks do not depend on it
        if not _warned:
            _warned = True
            say(f"the log of hooks cannot be written: {error}")


def say(message: str) -> None:
    """Write a line to standard error, past every buffer and whatever a program put in its place."""
    try:  # noqa: SIM105 -- one import less for every interpreter
        os.write(2, f"rocm-images: {message}\n".encode(errors="backslashreplace"))
    except OSError:
        pass


def stop(message: str) -> NoReturn:
    """End this interpreter at once. An exception could be caught, and `site` ends with status 0 after one."""
    try:
        say(f"{message}; the interpreter stops with status {REFUSED}")
    finally:
        os._exit(REFUSED)


def shown(value: object) -> str:
    """Return a value as messages show it."""
    try:
        text = repr(value)
    except BaseException as error:  # of a foreign class
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def reason(error: BaseException) -> str:
    """Return an exception as messages show it: its kind, what it says, and where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
    try:
        said = str(error)
    except BaseException:
        said = "?"
    return f"{type(error).__name__}: {said}{where}" if said else f"{type(error).__name__}{where}"
