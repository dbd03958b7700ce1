"""How a run looks: stdout carries the result and nothing else, stderr the story."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from builder.errors import Failure
from builder.visible import as_shown, visible

_HEARTBEAT_SECONDS = 20.0
_COMMAND = re.compile(r"^([^\S\n]*):(?=:)|#(?=#\[)", re.MULTILINE)  # of a runner, and what it did before


def in_ci() -> bool:
    """Whether a CI runs this, where warnings about what nobody will look at again are errors."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _colours_wanted() -> bool:
    """Whether a terminal is one that shows colours, and nobody has asked for none (no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


class Console:
    """A `Story` on standard error: plain lines, fold groups in GitHub's CI, colours on a terminal only."""

    def __init__(self) -> None:
        self._err = sys.stderr
        self._lock = threading.Lock()
        self._colour = self._err.isatty() and _colours_wanted()
        self._groups = os.environ.get("GITHUB_ACTIONS") == "true"
        self._depth = 0

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show a step, a sign of life while it lasts, and how long it took."""
        outermost = self._depth == 0
        self._depth += 1
        begun = time.monotonic()
        shown = self._shown(text)
        self._write(
            f"::group::{_as_data(text)}" if self._groups and outermost else f"{self._mark('==>', '1;34')} {shown}"
        )
        over = threading.Event()
        watcher = threading.Thread(target=self._beat, args=(shown, begun, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            self._depth -= 1
            failed = sys.exc_info()[0] is not None
            self._write(f"    {'stopped' if failed else 'done'} after {time.monotonic() - begun:.1f} s: {shown}")
            if self._groups and outermost:
                self._write("::endgroup::")

    def note(self, text: str) -> None:
        """Show a fact inside a step."""
        self._write(self._shown(f"    {text}"))

    def warn(self, text: str) -> None:
        """Show a warning."""
        if self._groups:
            self._write(f"::warning::{_as_data(text)}")
        else:
            self._write(f"{self._mark('warning:', '1;33')} {self._shown(text)}")

    def failure(self, failure: Failure) -> None:
        """Show a failure: what happened, the evidence, what to do."""
        self._write(f"{self._mark('error:', '1;31')} {self._shown(failure.message)}")
        for line in failure.details:
            self._write(self._shown(f"  | {line}"))
        if failure.hint:
            self._write(f"{self._mark('hint:', '1;36')} {self._shown(failure.hint)}")

    def result(self, text: str) -> None:
        """Write a result to standard output: as it is for programs, so that it can be seen on a terminal."""
        shown = visible(text) if sys.stdout.isatty() else text.encode("utf-8", "backslashreplace").decode()
        sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")
        sys.stdout.flush()

    def _beat(self, text: str, begun: float, over: threading.Event) -> None:
        while not over.wait(_HEARTBEAT_SECONDS):
            self._write(f"    still at it after {time.monotonic() - begun:.0f} s: {text}")

    def _shown(self, text: str) -> str:
        """Return text as it may be written: nothing in it acts on a terminal, or as a command on a CI's runner."""
        shown = as_shown(text)
        return _COMMAND.sub(r"\g<0> ", shown) if self._groups else shown

    def _mark(self, word: str, code: str) -> str:
        return f"\033[{code}m{word}\033[0m" if self._colour else word

    def _write(self, line: str) -> None:
        with self._lock:
            self._err.write(line + "\n")
            self._err.flush()


def _as_data(text: str) -> str:
    """Return text as the data of a runner's command, which is one line (GitHub, "Workflow commands")."""
    return as_shown(text).replace("%", "%25").replace("\n", "%0A")
