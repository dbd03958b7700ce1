"""Tells problems that a recipe accepts from those that make an image unfit. It knows no test and no image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from builder.smoke.findings import Unfit, unfit
from builder.smoke.pythonset import Accepted

_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something an image must not have: what it is about, as `smoke.accept` names it, and a fact."""

    subject: str
    cause: str
    details: tuple[str, ...] = ()


def require_none(
    finding: str, problems: Sequence[Problem], accepted: Sequence[Accepted], versions: Mapping[str, str]
) -> list[str]:
    """Return what is accepted, in words. Raises `Unfit` for the rest, and for what is accepted in vain.

    `versions` are those of the image's distributions, by normal name.
    """
    ours = [each for each in accepted if each.finding == finding]
    valid = [each for each in ours if _lasts(each, versions)]
    left, excused = [], []
    for problem in problems:
        excuse = next((each for each in valid if fnmatchcase(problem.subject, each.subject)), None)
        if excuse is None:
            left.append(problem)
        else:
            excused.append(f"{problem.cause}; accepted until {excuse.until}: {excuse.reason}")
    if left:
        raise _unfit(left, [each for each in ours if each not in valid], versions)
    for each in ours:
        if not any(fnmatchcase(problem.subject, each.subject) for problem in problems):
            raise unfit(
                f"smoke.accept: {finding} {each.subject!r} excuses nothing in this image",
                hint="take it out of the recipe",
            )
    return excused


def _unfit(left: Sequence[Problem], ended: Sequence[Accepted], versions: Mapping[str, str]) -> Unfit:
    told = [problem.cause for problem in left[:_TOLD]]
    more = [f"and {len(left) - _TOLD} more"] if len(left) > _TOLD else []
    over = [
        f"smoke.accept: {each.subject!r} ended: it was for {each.until}, the image has {_has(each, versions)}"
        for each in ended
        if any(fnmatchcase(problem.subject, each.subject) for problem in left)
    ]
    details = [line for problem in left for line in problem.details] + [each.cause for each in left[_TOLD:]]
    return unfit("; ".join(told + more + over), details=tuple(details[:30]))


def _lasts(each: Accepted, versions: Mapping[str, str]) -> bool:
    try:
        wanted = Requirement(each.until)
        found = versions.get(canonicalize_name(wanted.name))
        return found is not None and wanted.specifier.contains(found, prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return False


def _has(each: Accepted, versions: Mapping[str, str]) -> str:
    try:
        name = Requirement(each.until).name
    except InvalidRequirement:
        return "no such thing"
    return f"{name} {versions.get(canonicalize_name(name), 'not at all')}"
