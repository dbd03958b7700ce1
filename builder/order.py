"""In which order images are made that build on one another, and the matrix that hosted CI runs them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.plan import Action, Plan
from builder.whatchanged import in_short


class Circle(Exception):
    """Images that are, one over the other, built on themselves. `path` begins and ends with the same one."""

    def __init__(self, path: Sequence[str]) -> None:
        super().__init__(f"a circle: {' -> '.join(path)}")
        self.path = tuple(path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """An image in its place: `level` 0 needs no other image, level N one of level N-1."""

    image: str
    needs: tuple[str, ...]
    level: int


def order(bases: Mapping[str, Sequence[str]]) -> tuple[Placed, ...]:
    """Return all images, each after those it is built on, by level and name.

    `bases` maps every image to the images it is built on, which are all in it. Raises `Circle`.
    """
    levels: dict[str, int] = {}
    while len(levels) < len(bases):
        ready = [name for name in bases if name not in levels and all(base in levels for base in bases[name])]
        if not ready:
            raise Circle(_circle({name: bases[name] for name in bases if name not in levels}))
        levels |= {name: max((levels[base] + 1 for base in bases[name]), default=0) for name in ready}
    placed = (Placed(image=name, needs=tuple(sorted(bases[name])), level=levels[name]) for name in bases)
    return tuple(sorted(placed, key=lambda each: (each.level, each.image)))


def matrix(placed: Sequence[Placed], plans: Mapping[str, Plan]) -> dict[str, list[dict[str, object]]]:
    """Return the job matrix of hosted CI for the images that need work, in order.

    `needs` names only images of the matrix: what is skipped need not be waited for.
    """
    work = {name for name, plan in plans.items() if plan.action is not Action.SKIP}
    return {
        "include": [
            {
                "image": each.image,
                "action": str(plans[each.image].action),
                "needs": [name for name in each.needs if name in work],
                "level": each.level,
            }
            for each in placed
            if each.image in work
        ]
    }


def in_levels(
    jobs: Mapping[str, Sequence[Mapping[str, object]]],
) -> dict[str, dict[str, list[Mapping[str, object]]] | None]:
    """Split a matrix into the images that need no other of it, under '', and the rest, under '-above'.

    A job of the rest finds what it needs published, or brings it itself where it is of the rest as well. None is a
    part without images, of which hosted CI makes no jobs.
    """
    parts = {
        "": [entry for entry in jobs["include"] if not entry["needs"]],
        "-above": [entry for entry in jobs["include"] if entry["needs"]],
    }
    return {end: {"include": part} if part else None for end, part in parts.items()}


def told(placed: Sequence[Placed], plans: Mapping[str, Plan]) -> str:
    """Return the plan of all images as a table in Markdown."""
    rows = []
    for each in placed:
        plan = plans[each.image]
        why = "; ".join(in_short(plan.reasons)).replace("|", "\\|").replace("\n", " ")
        rows.append(f"| {each.image} | {plan.action} | {why} |")
    return "\n".join(["### Plan", "", "| image | answer | why |", "| --- | --- | --- |", *rows])


def _circle(bases: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one circle, its first image again at its end; every image given is on one or needs one."""
    path = [min(bases)]
    while (base := min(base for base in bases[path[-1]] if base in bases)) not in path:
        path.append(base)
    return [*path[path.index(base) :], base]
