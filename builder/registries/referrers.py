"""Puts documents beside an image in a registry, lists them, and fetches them with every hash checked.

A registry without the referrers API of the OCI distribution specification 1.1 gets the index under the tag
`sha256-HEX` that the specification names for that case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from builder.errors import EngineError, LockError, PublishError
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference, parse_reference, registry_unusable
from builder.registries.artifacts import (
    Attachment,
    Misshapen,
    Referrer,
    described,
    entries_in,
    entry_of,
    index_of,
    manifest_of,
    referrer_of,
)
from builder.registries.client import EMPTY, Document, Refused, Repository, repository
from builder.registries.reading import login_told
from builder.sources.download import NETWORK_HINT
from builder.sources.transport import Missing, Patience, Unreachable

__all__ = ["Attachment", "Referrer", "attach", "attach_in", "fetched", "referrers"]

LARGEST = 256 << 20  # of a document, in bytes
_LISTED_AGAIN = 5


def attach(
    subject: ImageReference, attachment: Attachment, *, mirrors: Mirrors, patience: Patience | None = None
) -> Digest:
    """Put a document beside an image that its registry has; return the digest of its manifest.

    The registry is exactly the one that is named, no mirror. Raises `PublishError` for one that refuses, and
    `EngineError` for one that does not answer.
    """
    with writing_told(subject), repository(subject, mirrors=mirrors, patience=patience, writing=True) as registry:
        image = registry.manifest(str(subject.digest or subject.tag))
        if image is None:
            raise PublishError(f"{subject}: the registry does not serve it, so nothing can be put beside it")
        return attach_in(registry, image, attachment)


def attach_in(registry: Repository, image: Document, attachment: Attachment) -> Digest:
    """Put a document beside an image of an open repository. Raises what that does."""
    manifest = manifest_of(attachment, image)
    if registry.digest_of(str(manifest.digest)) != manifest.digest:
        registry.put_blob(EMPTY)
        registry.put_blob(attachment.content)
    # Written also where it is there: the answer tells who has to keep the list.
    if not registry.put_manifest(str(manifest.digest), manifest):
        _list(registry, image.digest, entry_of(attachment, manifest))
    return manifest.digest


def referrers(
    subject: ImageReference,
    *,
    mirrors: Mirrors,
    artifact_type: str | None = None,
    patience: Patience | None = None,
) -> tuple[Referrer, ...]:
    """Return what refers to an image, in the registry's order; of one kind where `artifact_type` says so.

    Raises `LockError` for an image that is not there, `EngineError` for a registry that cannot be asked.
    """
    asked = parse_reference(mirrors.registry(str(subject)))
    with _reading_told(subject), repository(asked, mirrors=mirrors, patience=patience) as registry:
        digest = asked.digest or registry.digest_of(asked.tag or "latest")
        if digest is None:
            raise LockError(f"{subject}: the registry has no such image")
        pages = registry.referrers(digest, artifact_type)
        if pages is None:
            listed = registry.manifest(_listing(digest))
            pages = iter(() if listed is None else (listed.content,))
        found = [referrer_of(entry) for page in pages for entry in entries_in(page)]
    # Whether it filters is the registry's choice.
    wanted = [each for each in found if artifact_type in (None, each.artifact_type)]
    return tuple({each.digest: each for each in wanted}.values())


def fetched(
    subject: ImageReference, digest: Digest, *, mirrors: Mirrors, patience: Patience | None = None
) -> Attachment:
    """Return a document by the digest of its manifest: every byte is what digests say, and it is about `subject`.

    Raises `LockError` for one that is not there or is about another image, `EngineError` for a registry that
    cannot be asked or answers with other bytes.
    """
    asked = parse_reference(mirrors.registry(str(subject)))
    with _reading_told(subject), repository(asked, mirrors=mirrors, patience=patience) as registry:
        manifest = registry.manifest(str(digest))
        if manifest is None:
            raise LockError(f"{subject}: the registry does not serve {digest}, which refers to it")
        told = described(manifest.content)
        if subject.digest is not None and told.subject != subject.digest:
            raise LockError(f"{subject}: {digest} is about {told.subject or 'no image'}")
        try:
            content = registry.blob(told.content, largest=min(told.size, LARGEST))
        except Missing as error:
            raise LockError(f"{subject}: the registry does not serve {told.content}, part of {digest}") from error
        return replace(told.attachment, content=content)


def _list(registry: Repository, image: Digest, entry: dict[str, object]) -> None:
    """Put a referrer into the index that a registry without the API has under a tag.

    Who writes at the same time may write an index without it: it is read back, and put in again.
    """
    tag = _listing(image)
    for _ in range(_LISTED_AGAIN):
        there = registry.manifest(tag)
        entries = entries_in(there.content) if there is not None else []
        if any(each.get("digest") == entry["digest"] for each in entries):
            return
        registry.put_manifest(tag, index_of([*entries, entry]))
    there = registry.manifest(tag)
    if there is None or all(each.get("digest") != entry["digest"] for each in entries_in(there.content)):
        raise Refused(f"the index {tag} does not keep {entry['digest']}")


def _listing(digest: Digest) -> str:
    """Return the tag of the index of referrers, as the specification names it."""
    return f"sha256-{digest.hex}"


@contextmanager
def writing_told(reference: ImageReference) -> Iterator[None]:
    """Turn what a registry says to a write into failures that say what to do."""
    try:
        yield
    except Refused as refused:
        raise PublishError(
            f"{reference}: the registry refuses: {refused}",
            hint=f"docker login {reference.host}" if refused.login else None,
        ) from refused
    except Misshapen as error:
        raise PublishError(f"{reference}: what the registry has beside it {error}") from error
    except Unreachable as error:
        raise registry_unusable(reference, str(error)) from error


@contextmanager
def _reading_told(subject: ImageReference) -> Iterator[None]:
    try:
        with login_told(subject):
            yield
    except Misshapen as error:
        raise EngineError(f"{subject}: what the registry has beside it {error}") from error
    except Unreachable as error:
        raise EngineError(f"{subject}: cannot be asked for: {error}", hint=NETWORK_HINT) from error
