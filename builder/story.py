"""What effects tell about their work while they do it. The command line decides how it looks."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Story(Protocol):
    """Receives the progress of a run, in words for people. Results never go through it."""

    def step(self, text: str) -> AbstractContextManager[object]:
        """Announce work that takes time. The returned context ends with it; a failure passes through."""
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

    def note(self, text: str) -> None:
        """See `Story.note`."""

    def warn(self, text: str) -> None:
        """See `Story.warn`."""
