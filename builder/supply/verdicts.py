"""What looking at a published image came to, check by check. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

State = Literal["passed", "failed", "not checked"]
_MOST_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What one look at an image came to. `words` are lines: the first says what, the others are evidence."""

    name: str
    state: State
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """All checks of an image. `undecided` names those that were asked for and could not be decided."""

    reference: str
    digest: str | None
    checks: tuple[Check, ...]
    undecided: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.state == "failed")

    def to_plain(self) -> dict[str, object]:
        """Return it as a value for JSON."""
        return {
            "reference": self.reference, "digest": self.digest,
            "verified": not self.failed and not self.undecided, "undecided": list(self.undecided),
            "checks": [
                {"name": check.name, "state": check.state, "words": list(check.words)} for check in self.checks
            ],
        }  # fmt: skip


@dataclass(kw_only=True, slots=True)
class Findings:
    """The checks of an image while they are made."""

    checks: list[Check] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def say(self, name: str, state: State, *words: str) -> None:
        """Add a check; of much evidence, what people read."""
        first, *rest = words
        more = [f"and {len(rest) - _MOST_SHOWN} more"] if len(rest) > _MOST_SHOWN else []
        self.checks.append(Check(name=name, state=state, words=(first, *rest[:_MOST_SHOWN], *more)))

    def leave_open(self, name: str, words: str) -> None:
        """Add a check that was asked for and could not be decided."""
        self.undecided.append(name)
        self.say(name, "not checked", words)
