"""Turns what a probe did into one line of JSON. It must run in any image and swallow no cause."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MARK = "rocm-images probe: "
_TELLING = re.compile(
    r"(?i)\b(fatal|error|undefined reference|undefined symbol|cannot find|no such file|not found|permission denied"
    r"|read-only file system|required)\b"
)
_MOST_LINES = 24


class Wrong(Exception):
    """The thing under test answered, and the answer is not acceptable. The message is a fact in lower case."""

    def __init__(self, message: str, lines: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.lines = tuple(lines)


def answer(
    name: str, probe: Callable[..., dict[str, Any]], arguments: dict[str, Any], limit: float, token: str
) -> None:
    """Run a probe and print its answer, which starts with `token`.

    After `limit` seconds the process shows where it hangs, and ends.
    """
    faulthandler.enable()
    faulthandler.dump_traceback_later(limit, exit=True)
    begun = time.monotonic()
    told: dict[str, Any] = {"probe": name}
    try:
        told["figures"] = probe(**arguments)
        told["ok"] = True
    except (Exception, SystemExit) as error:
        told["ok"] = False
        told["chain"] = chain(error)
        told["compiler"] = compiler_lines(error)
    told["seconds"] = round(time.monotonic() - begun, 3)
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.flush()
    sys.stderr.flush()
    # A line of its own, also when a library left the cursor elsewhere.
    sys.stdout.write("\n" + MARK + token + " " + json.dumps(told, sort_keys=True) + "\n")
    sys.stdout.flush()


def chain(error: BaseException) -> list[dict[str, str]]:
    """Return an exception and what it was raised from, the innermost first."""
    return [{"type": type(each).__name__, "message": str(each)[:4000]} for each in reversed(_linked(error))]


def compiler_lines(error: BaseException) -> list[str]:
    """Return the lines that tell why a program failed, out of everything an exception chain carries."""
    texts: list[str] = []
    for each in _linked(error):
        if isinstance(each, Wrong) and each.lines:
            return list(each.lines)[:_MOST_LINES]
        for attribute in ("stderr", "stdout", "output"):
            text = getattr(each, attribute, None)
            if isinstance(text, bytes):
                text = text.decode("utf-8", "replace")
            if isinstance(text, str):
                texts.append(text)
        texts.append(str(each))
    return telling_lines(max(texts, key=lambda text: text.count("\n"), default=""))


def telling_lines(text: str) -> list[str]:
    """Return the lines of a program's output that say what failed, each with the two after it."""
    lines = [line.rstrip() for line in text.splitlines()]
    kept: list[int] = []
    for number, line in enumerate(lines):
        if _TELLING.search(line) and len(line) < 2000:
            kept.extend(range(number, min(number + 3, len(lines))))
    return [lines[number] for number in sorted(set(kept)) if lines[number].strip()][:_MOST_LINES]


def scratch(writable: Iterable[str]) -> str:
    """Return a fresh directory in the first declared directory that takes one."""
    refused: list[str] = []
    for parent in writable:
        try:
            return tempfile.mkdtemp(dir=parent, prefix="probe-")
        except OSError as error:
            refused.append(f"{type(error).__name__}: {error}")
    if not refused:
        raise Wrong("no writable directory is declared, so nothing can be compiled at run time")
    raise Wrong(f"none of the declared directories takes a file: {'; '.join(refused)}", refused)


def run(argv: list[str], cwd: str | None = None) -> tuple[int, str]:
    """Run a program of the image and return its status and everything it wrote."""
    import subprocess

    done = subprocess.run(
        argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def find_hipcc() -> str:
    """Return hipcc as an engine would find it: on PATH, else below the ROCm root that is set."""
    roots = [os.environ[name] for name in ("ROCM_HOME", "ROCM_PATH", "HIP_PATH") if os.environ.get(name)]
    for root in roots:
        candidate = Path(root, "bin", "hipcc")
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("hipcc")
    if found is None:
        raise FileNotFoundError(2, "No such file or directory", "hipcc")
    return found


def initial_environment() -> dict[str, str]:
    """Return the environment as this process was given it, before Python adjusted its locale."""
    given = Path("/proc/self/environ").read_bytes()
    pairs = [entry.partition(b"=") for entry in given.split(b"\0") if b"=" in entry]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _linked(error: BaseException) -> list[BaseException]:
    """Return an exception, then what it was raised from or while handling, outermost first."""
    seen: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in seen:
        seen.append(each)
        each = each.__cause__ if each.__cause__ is not None or each.__suppress_context__ else each.__context__
    return seen
