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
        pushed = images.push(image.id, reference, story)
    served = images.published_digest(reference)
    if served != pushed or (image.digest is not None and served != image.digest):
        raise PublishError(
            f"{reference}: the registry serves another digest than the one that was tested",
            details=(f"tested {image.digest or image.id}", f"pushed {pushed}", f"served {served}"),
        )
    manifest = images.manifest(reference.at(tag=None, digest=served))
    if image.digest is None and manifest.config != image.id:
        raise PublishError(
            f"{reference}: the registry serves another configuration than the tested image's",
            details=(f"tested {image.id}", f"served {manifest.config}"),
        )
    return served, manifest
