"""Which layer of an image each wheel is in.

A component has a layer of its own. What the resolution brings beside the components is divided, so that a node
pulls little when one of them changes: large distributions are alone, and the others share a few layers by the hash
of their names, which no other distribution moves. An image can have some 120 layers, those of its base among them;
hence so few.
"""

from __future__ import annotations

import hashlib

from builder.lockfile import DEPENDENCIES, Lock, PythonFile

__all__ = ["GROUPS", "LARGE", "MOST_ALONE", "dependency_layers", "layer_of", "part_of"]

LARGE = 4 * 2**20  # bytes of a wheel from which on it is worth a layer
MOST_ALONE = 12
GROUPS = 8


def dependency_layers(lock: Lock) -> dict[str, tuple[PythonFile, ...]]:
    """Return the layers of what is no component, by name, in the order they are stacked, with the wheels of each.

    `dependencies.PROJECT` has a large one alone, `dependencies.N` those of a group; where all that are not large
    are too small to be divided, they are the layer `dependencies`.
    """
    wheels = lock.wheels(DEPENDENCIES)
    # A name of digits would be that of a group.
    large = [each for each in wheels if (each.size or 0) >= LARGE and not each.project.isdigit()]
    alone = sorted(large, key=lambda each: -(each.size or 0))[:MOST_ALONE]
    shared = [each for each in wheels if each not in alone]
    divided = sum(each.size or 0 for each in shared) >= LARGE
    layers: dict[str, tuple[PythonFile, ...]] = {}
    for each in shared:
        name = f"{DEPENDENCIES}.{_group(each.project)}" if divided else DEPENDENCIES
        layers[name] = (*layers.get(name, ()), each)
    layers |= {f"{DEPENDENCIES}.{each.project}": (each,) for each in alone}
    return dict(sorted(layers.items()))


def layer_of(lock: Lock) -> dict[PythonFile, str]:
    """Return the layer that each wheel of a lock is in, or what it builds: `NAME.build`."""
    divided = {each: name for name, wheels in dependency_layers(lock).items() for each in wheels}
    return {each: divided.get(each, each.layer) for each in lock.python}


def part_of(layer: str) -> str:
    """Return the part of an image that a layer belongs to: a component, `dependencies`, or what else owns it."""
    return DEPENDENCIES if layer.startswith(f"{DEPENDENCIES}.") else layer


def _group(project: str) -> int:
    return int.from_bytes(hashlib.sha256(project.encode()).digest()) % GROUPS + 1
