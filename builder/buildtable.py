"""What a recipe says about the machine that builds it. None of it reaches the image, and its content key."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from builder import grammar
from builder.tables import Table


class Build(Table):
    """What a machine needs to build the image."""

    disk: Annotated[
        grammar.Size | None,
        Field(description="The most that a build from nothing takes of the engine's disk, for example '60g'."),
    ] = None
    memory_per_job: Annotated[
        grammar.Size, Field(description="Memory that one of the compilers running side by side takes.")
    ] = "2g"
