"""What a look at this machine finds, one thing each. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing the program needs. `state` is what was found; `remedy`, a command or a sentence, gets it."""

    name: str
    found: bool
    state: str
    needed_for: str
    remedy: str | None


def check(name: str, *, found: bool, state: str, needed_for: str, remedy: str) -> Check:
    """Return a check; the remedy stays only where it is needed."""
    return Check(name=name, found=found, state=state, needed_for=needed_for, remedy=None if found else remedy)
