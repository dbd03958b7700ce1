"""What a recipe says about the tags of its image. None of it reaches the image, and its content key."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from builder.grammar import Distinct, Form, NoneOf, type_tuple
from builder.tables import Table

# A version tag ends in twelve digits of a content key; an index of referrers is called by a digest.
_OF_A_CONTENT = r"(?!.*-[0-9a-f]{12}$)(?!sha256-)"
_MEANT_OTHERWISE = ("candidate", "build-cache")

MovingTag = Annotated[
    str,
    Form(
        _OF_A_CONTENT + r"[A-Za-z0-9_][A-Za-z0-9._-]*",
        "a tag such as 'nightly': letters, digits, '.', '_', '-', and not the form of a version tag",
        128,
    ),
    NoneOf(_MEANT_OTHERWISE, "another tag; this one is used for something else, see docs/publishing.md"),
]


class Publish(Table):
    """What names the image beside its version tag, where it is published."""

    moving_tags: Annotated[
        tuple[MovingTag, ...],
        type_tuple,
        Distinct(),
        Field(description="Tags that every publication moves to the image, such as 'nightly'."),
    ] = ()
