"""Moves exactly the tested bytes to where they are pinned: a candidate first, what belongs to it, the tag last.

Decides which tag may be set on which digest. A registry and an image layout are the same to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.destinations import Candidate, Destination, is_tested
from builder.engine.build import BuiltImage
from builder.errors import EngineError, PublishError
from builder.reference import Digest, Place
from builder.story import Story


@dataclass(frozen=True, kw_only=True, slots=True)
class Offered:
    """A tested image at its destination that its version tag is still to name.

    `image` is what is there. `tagged` tells that the tag names it already, `moved_from` is what the tag names
    otherwise, where it may be moved.
    """

    image: Candidate
    tag: str
    tagged: bool
    moved_from: Digest | None


def offer(image: BuiltImage, destination: Destination, tag: str, *, move_tag: bool, story: Story) -> Offered:
    """Bring the tested `image` to its destination, under no version tag.

    What is there already is not sent. Raises `PublishError` when the tag names other bytes, unless `move_tag`, and
    when anything but the tested image ends up there.
    """
    standing = destination.standing(tag)
    if standing is not None:
        there = destination.held(standing)
        if there is not None and is_tested(image, there):
            return Offered(image=there, tag=tag, tagged=True, moved_from=None)
        if not move_tag:
            raise tag_is_taken(destination.place.at(tag=tag), standing, f"tested    {image.digest or image.id}")
    candidate = destination.put(image, story)
    return Offered(image=candidate, tag=tag, tagged=False, moved_from=standing)


def release(offered: Offered, destination: Destination, *, moving: Sequence[str], story: Story) -> None:
    """Let the version tag name what was offered, and then the `moving` tags.

    Raises `PublishError` when the tag was set to other bytes meanwhile, or does not name these afterwards.
    """
    place, digest = destination.place.at(tag=offered.tag), offered.image.digest
    if not offered.tagged:
        standing = destination.standing(offered.tag)
        if standing not in (None, digest, offered.moved_from):
            raise tag_is_taken(place, standing, f"tested    {digest}")
        try:
            with story.step(f"publishing {place}"):
                destination.point(offered.tag, offered.image)
        except KeyboardInterrupt:
            _tell_where_it_ended(place, offered, destination, story)
            raise
        if offered.moved_from is not None:
            story.warn(f"{place}: moved from {offered.moved_from} to {digest}")
    point_moving(digest, destination, moving, story)
    destination.settle(offered.tag, offered.image, story)


def point_moving(digest: Digest, destination: Destination, tags: Sequence[str], story: Story) -> None:
    """Let the tags that a recipe declares as moving name an image. Raises `PublishError` when it is not there."""
    for tag in tags:
        if (standing := destination.standing(tag)) == digest:
            continue
        image = destination.held(digest)
        if image is None:
            raise PublishError(f"{destination.place.at(digest=digest)}: the image went away")
        destination.point(tag, image)
        story.note(f"{destination.place.at(tag=tag)}: now {digest}, before {standing or 'nothing'}")


def tag_is_taken(place: Place, standing: Digest, instead: str) -> PublishError:
    """Return the failure for a tag that names other bytes than those it would have to; `instead` tells those."""
    return PublishError(
        f"{place}: the tag names other bytes already",
        details=(f"published {standing}", instead),
        hint="publish under another tag, or move this one with --move-tag",
    )


def _tell_where_it_ended(place: Place, offered: Offered, destination: Destination, story: Story) -> None:
    """Tell of a tag that was set before the interrupt: it cannot be taken back."""
    try:
        there = destination.standing(offered.tag)
    except (EngineError, PublishError):
        return
    if there == offered.image.digest:
        story.warn(f"{place}: published, but not pinned; the next run tests and pins it")
