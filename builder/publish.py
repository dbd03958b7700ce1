"""Moves exactly the tested bytes to a registry, and nothing else."""

from __future__ import annotations

from builder.engine import images
from builder.engine.build import BuiltImage
from builder.errors import EngineError, PublishError
from builder.reference import Digest, ImageReference
from builder.story import Story


def publish(
    image: BuiltImage, reference: ImageReference, *, move_tag: bool, story: Story
) -> tuple[Digest, images.Manifest]:
    """Push the tested `image` under the tag of `reference`; return the digest it has there, and its manifest.

    The tag is never moved from other bytes unless `move_tag`. Raises `PublishError` when the registry ends up
    with anything but the tested image.
    """
    standing = images.published_digest(reference)
    if standing is not None and not move_tag and not _is(image, standing, reference):
        raise tag_is_taken(reference, standing, f"tested    {image.digest or image.id}")
    try:
        with story.step(f"publishing {reference}"):
            images.push(image.id, reference, story)
    except KeyboardInterrupt:
        _tell_where_it_ended(image, reference, story)
        raise
    served = images.published_digest(reference)
    if served is None:
        raise PublishError(f"{reference}: the registry took the image and does not serve it")
    manifest = images.manifest(reference.at(digest=served))
    if not _is(image, served, reference):
        raise PublishError(
            f"{reference}: the registry serves another image than the one that was tested",
            details=(
                f"tested {image.digest or image.id}",
                f"served {served} with configuration {manifest.config}",
            ),
        )
    return served, manifest


def tag_is_taken(reference: ImageReference, standing: Digest, instead: str) -> PublishError:
    """Return the failure for a tag that names other bytes than those it would have to; `instead` tells those."""
    return PublishError(
        f"{reference}: the tag names other bytes already",
        details=(f"published {standing}", instead),
        hint="publish under another tag, or move this one with --move-tag",
    )


def _is(image: BuiltImage, digest: Digest, reference: ImageReference) -> bool:
    """Tell whether what the registry serves under a digest is the tested image.

    The older image store knows no manifest before the push; its images are called by their configuration.
    """
    if image.digest is not None:
        return digest == image.digest
    return images.manifest(reference.at(digest=digest)).config == image.id


def _tell_where_it_ended(image: BuiltImage, reference: ImageReference, story: Story) -> None:
    """Tell of a tag that the registry had taken before the interrupt: it cannot be taken back."""
    try:
        there = images.published_digest(reference)
    except EngineError:
        return
    if there is not None and _is(image, there, reference):
        story.warn(f"{reference}: published, but not pinned; the next run tests and pins it")
