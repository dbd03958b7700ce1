"""The failures a user can meet, each with the exit code of its class and, where one exists, a remedy.

Only the command line prints these and ends the process; everything below it raises them.
"""

from __future__ import annotations

from typing import ClassVar

from builder.visible import as_shown


class Failure(Exception):
    """Root of all expected failures.

    `message` states a fact in lower case and names file and key where there is one. `hint` says what to do,
    best as a command. `details` are lines of evidence, for example what a compiler printed. What they quote may
    be anybody's: what is not seen is escaped here, and the logins of addresses are left out.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, details: tuple[str, ...] = ()) -> None:
        self.message = as_shown(message)
        self.hint = as_shown(hint) if hint is not None else None
        self.details = tuple(map(as_shown, details))
        super().__init__(self.message)


class RecipeError(Failure):
    """Wrong usage, or a recipe, mirror file or other input of the user that cannot be accepted."""

    exit_code = 2


class LockError(Failure):
    """A lock that is missing, stale or broken, or a pin that can no longer be fetched as it was locked."""

    exit_code = 3


class PatchError(Failure):
    """A patch that does not apply, or has no effect."""

    exit_code = 4


class BuildError(Failure):
    """A step of the image build that failed."""

    exit_code = 5


class SmokeError(Failure):
    """An image that was built but did not pass its smoke tests."""

    exit_code = 6


class PublishError(Failure):
    """An image that could not be published, or a tag that may not be moved."""

    exit_code = 7


class EngineError(Failure):
    """A container engine, a registry or a tool of the host that is not there or does not answer."""

    exit_code = 8


class Interrupted(Failure):
    """The user, or the system, asked the program to stop."""

    exit_code = 130
