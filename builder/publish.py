"""Moves exactly the tested bytes to a registry, and nothing else."""

from __future__ import annotations

from builder.engine import images
from builder.engine.build import BuiltImage
from builder.errors import PublishError
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
    if standing is not None and image.digest is not None and standing != image.digest and not move_tag:
        raise PublishError(
            f"{reference}: the tag names other bytes already",
            details=(f"published {standing}", f"tested    {image.digest}"),
            hint="publish under another tag, or move this one with --move-tag",
        )
    with story.step(f"publishing {reference}"):
        images.push(image.id, reference, story)
    served = images.published_digest(reference)
    if served is None:
        raise PublishError(f"{reference}: the registry took the image and does not serve it")
    manifest = images.manifest(reference.at(digest=served))
    # The older image store knows no manifest before the push; its images are called by their configuration.
    same = served == image.digest if image.digest is not None else manifest.config == image.id
    if not same:
        raise PublishError(
            f"{reference}: the registry serves another image than the one that was tested",
            details=(
                f"tested {image.digest or image.id}",
                f"served {served} with configuration {manifest.config}",
            ),
        )
    return served, manifest
