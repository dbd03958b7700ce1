"""What `check` finds: values that people read, programs read, and exit codes follow from.

A finding states one fact about one key of one file. How it was found, and how it looks, is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from builder.errors import Failure, LockError, PatchError, RecipeError

Severity = Literal["error", "warning", "note"]

WEIGHT: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
RECIPE = RecipeError.exit_code
LOCK = LockError.exit_code
PATCH = PatchError.exit_code
_FILE = re.compile(r"\S+\.(?:toml|lock)")
_KEY = re.compile(r"[A-Za-z0-9_.\[\]\"+-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing found in an image.

    `exit_code` is the class of failure an error belongs to; it counts for errors alone. `check` is the name of
    the check, or of the rule, that found it, and what an override names. `key` is '' for a whole file.
    """

    image: str
    severity: Severity
    exit_code: int
    check: str
    file: str
    key: str
    message: str
    hint: str | None = None
    details: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """File, key and fact in one line."""
        return ": ".join(part for part in (self.file, self.key, self.message) if part)

    def plain(self) -> dict[str, object]:
        """Return it as JSON can hold it."""
        return {
            "image": self.image, "severity": self.severity, "exit-code": self.exit_code, "check": self.check,
            "file": self.file, "key": self.key, "message": self.message, "hint": self.hint,
            "details": list(self.details),
        }  # fmt: skip


def from_failure(failure: Failure, *, image: str, file: str, check: str, key: str = "") -> tuple[Finding, ...]:
    """Return the findings a failure tells of: one for each line of its message, which start with file and key.

    `file` is what a line without one is about.
    """
    found = []
    for line in failure.message.splitlines():
        start, colon, said = line.partition(": ")
        if colon and _FILE.fullmatch(start):
            file = start
        else:
            said = line
        first, colon, rest = said.partition(": ")
        named = said != line and bool(colon) and _KEY.fullmatch(first) is not None
        found.append(
            Finding(
                image=image, severity="error", exit_code=failure.exit_code, check=check, file=file,
                key=first if named else key, message=rest if named else said, hint=failure.hint,
                details=failure.details,
            )
        )  # fmt: skip
    return tuple(found)


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by image, errors first; those of one severity stay in the order they were found."""
    return tuple(sorted(findings, key=lambda finding: (finding.image, WEIGHT[finding.severity])))


def exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code a run with these findings ends with: the class of the worst error, 0 without one.

    What the user wrote outranks what was locked, and that what could not be asked: the first is the cause more
    often than not, and the last says least about the pins.
    """
    codes = {finding.exit_code for finding in findings if finding.severity == "error"}
    return min(codes, default=0)
