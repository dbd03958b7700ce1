"""The tables of a lock that are about patches, and how every table of a lock behaves."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from builder.grammar import HEX64, Between
from builder.recipe import type_tuple


class LockTable(BaseModel):
    """A table of a lock: immutable, keys in kebab case, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
        populate_by_name=True,
    )


State = Literal["applies", "redundant"]


class LockedPatchFile(LockTable):
    """One file of a patch."""

    file: Annotated[
        str, Field(description="Its path: in the project, beside the recipe, or in the source it comes from.")
    ]
    sha256: Annotated[str, Field(pattern=HEX64, description="Hash of the file.")]
    state: Annotated[
        State | None, Field(description="Of a file of a series: whether the tree took it, or has it already.")
    ] = None
    hunks: Annotated[
        int | None, Between(0, 10**9), Field(description="Of a file of a series: how many changes it has.")
    ] = None


class LockedPatch(LockTable):
    """What a patch consists of, and what it did to the tree of a source."""

    name: Annotated[str, Field(description="Its name in the recipe.")]
    state: Annotated[
        State | None, Field(description="Of what changes the tree of a source: whether it had an effect there.")
    ] = None
    file: Annotated[
        tuple[LockedPatchFile, ...], type_tuple, Field(description="Its files, in the order they are applied.")
    ] = ()
