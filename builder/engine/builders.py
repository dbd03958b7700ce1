"""Which of buildx' builders builds, and where its images end up: in the engine that tests them, or in an archive.

Tells drivers apart by asking buildx; starts and changes no builder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder import process
from builder.errors import EngineError

DEFAULT = "default"  # buildx calls the engine of the docker command line so
_ENGINES_OWN = "docker"


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """A builder of buildx.

    `in_engine` tells that it is the engine itself: it keeps what it builds, and sees its images. Any other hands
    images over as an archive, and gets local ones as layouts.
    """

    name: str
    driver: str
    in_engine: bool


def builder(name: str | None) -> Builder:
    """Return the builder of this name, the engine's own for None. Raises `EngineError` when there is none."""
    if name is None:
        return Builder(name=DEFAULT, driver=_ENGINES_OWN, in_engine=True)
    asked = process.run(["docker", "buildx", "inspect", name])
    found = re.search(r"^Driver:\s+(\S+)", asked.stdout, re.MULTILINE)
    if asked.status or found is None:
        raise EngineError(f"--builder: there is no builder {name!r}", details=asked.tail, hint="docker buildx ls")
    driver = found[1]
    return Builder(name=name, driver=driver, in_engine=driver == _ENGINES_OWN and name == DEFAULT)
