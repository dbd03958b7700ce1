"""Puts the documents of an image beside it at its destination, and signs it, before a tag names it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from builder.destinations import Candidate, Destination
from builder.errors import RecipeError
from builder.mirrors import Mirrors
from builder.project import Prepared
from builder.reference import Digest, ImageReference, Place
from builder.story import Story
from builder.supply import signing
from builder.supply.documents import PROVENANCE, Bills, bills, documents
from builder.supply.installed import licences_in
from builder.supply.parts import parts_of
from builder.supply.signing import Signer
from builder.workspace import Workspace


def require_signable(signer: Signer | None, target: Place | None) -> None:
    """Raise `RecipeError` or `EngineError` when nothing could be signed in the end, before anything is built."""
    if signer is None:
        return
    if not isinstance(target, ImageReference):
        where = "nothing is published" if target is None else f"{target} is an image layout"
        raise RecipeError(
            f"--sign: {where}; cosign signs images in registries", hint="--publish HOST/NAMESPACE --sign KEY"
        )
    signing.require_ready(signer)


def bills_of(prepared: Prepared, image: str, digest: Digest, story: Story) -> Bills:
    """Return the bills of materials of an image: `image` in the engine's store, `digest` where it is published."""
    has_python = any(part.kind == "python" and part.served for part in parts_of(prepared))
    found = licences_in(image, story) if has_python else {}
    return bills(prepared, digest=digest, licences=found)


def accompany(
    prepared: Prepared,
    image: Candidate,
    record: Mapping[str, object],
    made: Bills,
    *,
    destination: Destination,
    workspace: Workspace,
    signer: Signer | None,
    mirrors: Mirrors,
    story: Story,
) -> None:
    """Put bills of materials, record and provenance beside an image, and sign it.

    `record` has the digests of `made`. What is there already is not written again. Raises `PublishError`.
    """
    recipe = hashlib.sha256(workspace.recipe(prepared.recipe.name).read_bytes()).hexdigest()
    attachments = documents(prepared, digest=image.digest, record=record, recipe=recipe, made=made)
    with story.step(f"putting {len(attachments)} documents beside {image.digest}"):
        for attachment in attachments:
            destination.attach(image, attachment)
    place = destination.place
    if signer is not None and isinstance(place, ImageReference):
        (statement,) = (each.content for each in attachments if each.artifact_type == PROVENANCE)
        signing.sign(place.at(digest=image.digest), statement, signer, mirrors=mirrors, story=story)


def is_accompanied(
    record: Mapping[str, object],
    digest: Digest,
    *,
    destination: Destination,
    signer: Signer | None,
    mirrors: Mirrors,
) -> bool:
    """Tell whether an image has its documents, by its record, and the signature that is asked for now.

    Who signs without a key is nobody in particular here: any such signature counts that the record tells of.
    """
    place = destination.place
    if record.get("sbom") is None or signer is None or not isinstance(place, ImageReference):
        return record.get("sbom") is not None
    subject = place.at(digest=digest)
    if record.get("signed") != signer.kind:
        return False
    if signer.key is None:
        return all(destination.standing(tag) is not None for tag in signing.signature_tags(subject))
    return signing.is_signed(subject, signer, mirrors=mirrors)
