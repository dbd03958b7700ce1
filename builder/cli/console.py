"""How a run looks: stdout carries the result and nothing else, stderr the story."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from builder.errors import Failure

_HEARTBEAT_SECONDS = 20.0


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
        self._write(f"::group::{text}" if self._groups and outermost else f"{self._mark('==>', '1;34')} {text}")
        over = threading.Event()
        watcher = threading.Thread(target=self._beat, args=(text, begun, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            self._depth -= 1
            failed = sys.exc_info()[0] is not None
            self._write(f"    {'stopped' if failed else 'done'} after {time.monotonic() - begun:.1f} s: {text}")
            if self._groups and outermost:
                self._write("::endgroup::")

    def note(self, text: str) -> None:
        """Show a fact inside a step."""
        self._write(f"    {text}")

    def warn(self, text: str) -> None:
        """Show a warning."""
        self._write(f"::warning::{text}" if self._groups else f"{self._mark('warning:', '1;33')} {text}")

    def failure(self, failure: Failure) -> None:
        """Show a failure: what happened, the evidence, what to do."""
        self._write(f"{self._mark('error:', '1;31')} {failure.message}")
        for line in failure.details:
            self._write(f"  | {line}")
        if failure.hint:
            self._write(f"{self._mark('hint:', '1;36')} {failure.hint}")

    def result(self, text: str) -> None:
        """Write a result to standard output."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()

    def _beat(self, text: str, begun: float, over: threading.Event) -> None:
        while not over.wait(_HEARTBEAT_SECONDS):
            self._write(f"    still at it after {time.monotonic() - begun:.0f} s: {text}")

    def _mark(self, word: str, code: str) -> str:
        return f"\033[{code}m{word}\033[0m" if self._colour else word

    def _write(self, line: str) -> None:
        with self._lock:
            self._err.write(line + "\n")
            self._err.flush()
