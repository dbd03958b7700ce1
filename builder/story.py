"""What effects tell about their work while they do it. The command line decides how it looks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """How far a step is: in words, and as a share of its time, from 0 to 1, where that can be told."""

    words: str
    share: float | None = None


class Story(Protocol):
    """Receives the progress of a run, in words for people. Results never go through it."""

    def step(self, text: str) -> AbstractContextManager[object]:
        """Announce work that takes time. The returned context ends with it; a failure passes through."""
        ...

    def follow(self, how_far: Callable[[], Reached]) -> None:
        """Show with each sign of life how far the current step is; another thread asks `how_far`."""
        ...

    def note(self, text: str) -> None:
        """Tell a fact inside the current step, for example a finished stage."""
        ...

    def warn(self, text: str) -> None:
        """Tell what the user should look at although the run goes on."""
        ...


class Silent:
    """A story nobody listens to."""

    def step(self, text: str) -> AbstractContextManager[object]:
        """See `Story.step`."""
        return nullcontext()

    def follow(self, how_far: Callable[[], Reached]) -> None:
        """See `Story.follow`."""

    def note(self, text: str) -> None:
        """See `Story.note`."""

    def warn(self, text: str) -> None:
        """See `Story.warn`."""
