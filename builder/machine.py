"""What a build asks of the machine it runs on: memory for compilers side by side. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builder.grammar import in_bytes
from builder.patchset import unpatched
from builder.recipe import Recipe


def job_memory(recipe: Recipe) -> int:
    """Return the memory, in bytes, that a build step counts for each compiler it runs.

    It is what one compiler takes, times the number of steps that BuildKit may run at the same time.
    """
    return in_bytes(recipe.build.memory_per_job) * max(1, side_by_side(recipe))


def side_by_side(recipe: Recipe) -> int:
    """Return how many builds of sources may run at the same time: the most of which none waits for another."""
    built = {c.name: c for c in recipe.component if c.source is not None}
    needs = {name: tuple(need for need in component.needs if need in built) for name, component in built.items()}
    twice = {component.name for component in unpatched(recipe)}
    waits = {name: _all_needs(name, needs) for name in needs}
    # Where a component is built with and without its patches, both are on the way.
    nodes = [(name, way) for name in built for way in range(2 if name in twice else 1)]
    return len(nodes) - _most_pairs(
        {here: [there for there in nodes if there[0] in waits[here[0]]] for here in nodes}
    )


def _all_needs(name: str, needs: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(needs[name])
    while waiting:
        if (need := waiting.pop()) not in found:
            found.add(need)
            waiting += needs[need]
    return found


def _most_pairs(later: Mapping[tuple[str, int], Sequence[tuple[str, int]]]) -> int:
    """Return how large a matching of `later` with its values can be; the rest of all is the width (Dilworth)."""
    taken: dict[tuple[str, int], tuple[str, int]] = {}

    def place(node: tuple[str, int], seen: set[tuple[str, int]]) -> bool:
        for other in later[node]:
            if other in seen:
                continue
            seen.add(other)
            if other not in taken or place(taken[other], seen):
                taken[other] = node
                return True
        return False

    return sum(place(node, set()) for node in later)
