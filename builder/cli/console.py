"""How a run looks: stdout carries the result and nothing else, stderr the story."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from builder.errors import Failure
from builder.story import Reached
from builder.visible import as_shown, visible

_HEARTBEAT_SECONDS = 20.0
_EARLY = 0.05  # the share of its time before which nothing is said of the rest
_COMMAND = re.compile(r"^([^\S\n]*):(?=:)|#(?=#\[)", re.MULTILINE)  # of a runner, and what it did before


def in_ci() -> bool:
    """Whether a CI runs this, where warnings about what nobody will look at again are errors."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _colours_wanted() -> bool:
    """Whether a terminal is one that shows colours, and nobody has asked for none (no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


@dataclass(eq=False, kw_only=True, slots=True)
class _Step:
    """A step that has not ended, as it is shown."""

    shown: str
    begun: float
    over: threading.Event = field(default_factory=threading.Event)
    how_far: Callable[[], Reached] | None = None


class Console:
    """A `Story` on standard error: plain lines, fold groups in GitHub's CI, colours on a terminal only."""

    def __init__(self) -> None:
        self._err = sys.stderr
        self._lock = threading.Lock()
        self._colour = self._err.isatty() and _colours_wanted()
        self._groups = os.environ.get("GITHUB_ACTIONS") == "true"
        self._open: list[_Step] = []

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show a step, a sign of life while it lasts, and how long it took."""
        outermost = not self._open
        step = _Step(shown=self._shown(text), begun=time.monotonic())
        self._open.append(step)
        self._write(
            f"::group::{_as_data(text)}"
            if self._groups and outermost
            else f"{self._mark('==>', '1;34')} {step.shown}"
        )
        watcher = threading.Thread(target=self._beat, args=(step,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            step.over.set()
            watcher.join()
            self._open.remove(step)
            failed = sys.exc_info()[0] is not None
            self._write(
                f"    {'stopped' if failed else 'done'} after {time.monotonic() - step.begun:.1f} s: {step.shown}"
            )
            if self._groups and outermost:
                self._write("::endgroup::")

    def follow(self, how_far: Callable[[], Reached]) -> None:
        """See `Story.follow`."""
        self._open[-1].how_far = how_far

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

    def _beat(self, step: _Step) -> None:
        while not step.over.wait(_HEARTBEAT_SECONDS):
            seconds = time.monotonic() - step.begun
            so_far = self._shown(told(step.how_far(), seconds)) if step.how_far is not None else ""
            self._write(f"    still at it after {seconds:.0f} s{so_far}: {step.shown}")

    def _shown(self, text: str) -> str:
        """Return text as it may be written: nothing in it acts on a terminal, or as a command on a CI's runner."""
        shown = as_shown(text)
        return _COMMAND.sub(r"\g<0> ", shown) if self._groups else shown

    def _mark(self, word: str, code: str) -> str:
        return f"\033[{code}m{word}\033[0m" if self._colour else word

    def _write(self, line: str) -> None:
        with self._lock:
            try:
                self._err.write(line + "\n")
                self._err.flush()
            except OSError:  # nobody reads on, or the terminal was closed: what is under way comes to its end
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._err.fileno())
                os.close(nowhere)


def _as_data(text: str) -> str:
    """Return text as the data of a runner's command, which is one line (GitHub, "Workflow commands")."""
    return as_shown(text).replace("%", "%25").replace("\n", "%0A")


def told(reached: Reached, seconds: float) -> str:
    """Return in words how far a step is after so many seconds, and about how long it goes on."""
    words = f", {reached.words}" if reached.words else ""
    if reached.share is None or not _EARLY <= reached.share < 1:
        return words
    left = seconds * (1 - reached.share) / reached.share
    return f"{words}, about {f'{left:.0f} s' if left < 90 else f'{left / 60:.0f} min'} left"
