"""Publishes an image of the engine as `rocm-images build` does after its tests: a run that can be killed.

Words: the image's id, where to, the version tag.
"""

from __future__ import annotations

import sys

from builder.destinations import opened
from builder.engine.build import BuiltImage
from builder.mirrors import Mirrors
from builder.publish import offer, release
from builder.reference import Digest, parse_place
from builder.registries.artifacts import Attachment
from builder.sources.transport import Patience
from builder.story import Silent

QUICK = Patience(attempts=3, first=0.05, longest=0.2)
DOCUMENT = Attachment(
    artifact_type="text/plain", media_type="text/plain", title="about.txt", content=b"about it\n"
)


def publish_one(image: str, place: str, tag: str, *, move_tag: bool = False) -> str:
    """Return the digest that was published."""
    built = BuiltImage(id=image, digest=Digest(image))
    with opened(parse_place(place), mirrors=Mirrors(), patience=QUICK) as destination:
        offered = offer(built, destination, tag, move_tag=move_tag, story=Silent())
        destination.attach(offered.image, DOCUMENT)
        release(offered, destination, moving=(), story=Silent())
        return str(offered.image.digest)


if __name__ == "__main__":
    publish_one(*sys.argv[1:])
