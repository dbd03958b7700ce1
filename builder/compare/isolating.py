"""Plans the builds between two locks that change one part at a time, so that what changed can be attributed.

Which mixes of the two go together is the business of a judge, who is given; pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from builder.compare.mixing import (
    BASE,
    CONTRACT,
    GFX,
    ORDER,
    PYTHON,
    SETTINGS,
    State,
    component_of,
    differing,
    mixed,
)
from builder.errors import Failure, RecipeError
from builder.lockfile import DEPENDENCIES

Judge = Callable[[State], frozenset[str]]
"""Returns, in words, what does not go together in a recipe with its lock."""
_WORDS = {
    BASE: "the base and the packages of the distribution", CONTRACT: "the environment contract",
    GFX: "the GPU targets", ORDER: "the order of the components", PYTHON: "the version of Python",
    SETTINGS: "settings of the recipe", DEPENDENCIES: "the dependencies",
}  # fmt: skip
_MOST_REASONS = 3
_MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A build: what changes in it, in words, and its recipe and lock.

    `because` says why parts that do not change alone go together; it is empty for one part.
    """

    parts: tuple[str, ...]
    what: str
    because: tuple[str, ...]
    state: State


def steps(old: State, new: State, judge: Judge, *, file: str) -> tuple[Step, ...]:
    """Return the builds from `old` to `new`; after the last one everything is as in `new`.

    As few parts as go together change in a step; of several that could, those are first that others stand on. What
    does not go together in `old` or in `new` either is their own affair.
    """
    accepted = judge(old) | judge(new)
    left = list(differing(old, new))
    taken: frozenset[str] = frozenset()
    found: list[Step] = []
    while left:
        group, because, reached = _next(old, new, taken, left, judge, accepted, file)
        taken |= set(group)
        left = [part for part in left if part not in group]
        what = ", ".join(_words(part, old, new) for part in group)
        found.append(Step(parts=group, what=what, because=because, state=reached if left else new))
    return tuple(found)


def _next(
    old: State,
    new: State,
    taken: frozenset[str],
    left: Sequence[str],
    judge: Judge,
    accepted: frozenset[str],
    file: str,
) -> tuple[tuple[str, ...], tuple[str, ...], State]:
    """Return the fewest parts that can change now, why not fewer, and what that comes to."""
    refused: dict[tuple[str, ...], tuple[str, ...]] = {}
    for size in range(1, len(left) + 1):
        for group in combinations(left, size):
            if len(group) == len(left):
                return group, _reasons(group, refused), new
            try:
                reached = mixed(old, new, taken | set(group), file=file)
                wrong = sorted(judge(reached) - accepted)
            except (Failure, KeyError) as error:
                wrong = [error.message.splitlines()[0] if isinstance(error, Failure) else f"{error} is missing"]
            if not wrong:
                return group, _reasons(group, refused), reached
            refused[group] = tuple(wrong)
    raise RecipeError(f"{file}: nothing differs")


def _reasons(group: tuple[str, ...], refused: dict[tuple[str, ...], tuple[str, ...]]) -> tuple[str, ...]:
    """Return why the parts of a group could not change one by one."""
    if len(group) == 1:
        return ()
    told = {f"{part} alone: {wrong}": None for part in group for wrong in refused.get((part,), ())[:_MOST_REASONS]}
    return tuple(told)


def _words(part: str, old: State, new: State) -> str:
    if part == DEPENDENCIES:
        return f"{_WORDS[part]}: {_dependencies(old, new)}"
    if part in _WORDS:
        return _WORDS[part]
    before, after = component_of(old.recipe, part), component_of(new.recipe, part)
    if before is None:
        return f"{part} {after.version if after else ''} added"
    if after is None:
        return f"{part} {before.version} removed"
    if before.version == after.version:
        return f"{part} {after.version}, otherwise made"
    return f"{part} {before.version} -> {after.version}"


def _dependencies(old: State, new: State) -> str:
    """Return which distributions that are no component are others, the first of many."""
    before, after = (
        {file.project: file.version for file in each.lock.wheels(DEPENDENCIES)} for each in (old, new)
    )
    told = [
        f"{name} {before.get(name, 'none')} -> {after.get(name, 'none')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ] or ["other files of the same versions"]
    more = len(told) - _MOST_NAMED
    return ", ".join(told[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
