"""Documents that ride along with an image, as manifests of their own that name it as their subject.

Pure. Source: OCI image specification 1.1, "guidelines for artifact usage": a manifest with an artifact type, the
empty configuration, and the document as its only layer. The same document for the same image is the same manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder import foreign
from builder.lockfile import canonical
from builder.reference import Digest
from builder.registries.client import EMPTY, EMPTY_TYPE, INDEX, MANIFEST, Document, digest_of

TITLE = "org.opencontainers.image.title"


class Misshapen(Exception):
    """A manifest or an index is not what the specification says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """A document about an image: what kind it is, how it is written, what to call the file, and its bytes."""

    artifact_type: str
    media_type: str
    title: str
    content: bytes
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Referrer:
    """A manifest that names an image as its subject; `size` is the manifest's in bytes."""

    digest: Digest
    artifact_type: str
    size: int
    annotations: Mapping[str, str]


def descriptor_of(document: Document) -> dict[str, object]:
    """Return how others name a manifest."""
    return {"mediaType": document.media_type, "digest": str(document.digest), "size": len(document.content)}


def manifest_of(attachment: Attachment, subject: Document) -> Document:
    """Return the manifest of a document about `subject`."""
    content: dict[str, object] = {
        "mediaType": attachment.media_type,
        "digest": str(digest_of(attachment.content)),
        "size": len(attachment.content),
        "annotations": {TITLE: attachment.title},
    }
    manifest: dict[str, object] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": attachment.artifact_type,
        "config": {"mediaType": EMPTY_TYPE, "digest": str(digest_of(EMPTY)), "size": len(EMPTY)},
        "layers": [content],
        "subject": descriptor_of(subject),
    }
    if attachment.annotations:
        manifest["annotations"] = dict(attachment.annotations)
    return Document(media_type=MANIFEST, content=canonical(manifest))


def entry_of(attachment: Attachment, manifest: Document) -> dict[str, object]:
    """Return how an index of referrers names a document."""
    entry = descriptor_of(manifest) | {"artifactType": attachment.artifact_type}
    return entry | ({"annotations": dict(attachment.annotations)} if attachment.annotations else {})


def index_of(entries: Sequence[Mapping[str, object]]) -> Document:
    """Return an index of these entries."""
    table = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [dict(entry) for entry in entries]}
    return Document(media_type=INDEX, content=canonical(table))


def entries_in(index: bytes) -> list[dict[str, Any]]:
    """Return the entries of an index. Raises `Misshapen`."""
    try:
        return [dict(entry) for entry in foreign.loads(index)["manifests"] or ()]
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise Misshapen(f"is no index: {type(error).__name__}: {error}") from error


def referrer_of(entry: Mapping[str, Any]) -> Referrer:
    """Return the referrer that an entry of an index names. Raises `Misshapen`."""
    try:
        return Referrer(
            digest=Digest(entry["digest"]),
            artifact_type=str(entry.get("artifactType") or ""),
            size=int(entry["size"]),
            annotations={str(key): str(value) for key, value in (entry.get("annotations") or {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Misshapen(f"names no referrer: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What the manifest of a document says of it; `subject` is the image's digest, None where it names none."""

    attachment: Attachment  # without its content
    content: Digest
    size: int
    subject: Digest | None


def described(manifest: bytes) -> Described:
    """Read the manifest of a document. Raises `Misshapen` for one of anything else."""
    try:
        table = foreign.loads(manifest)
        (layer,) = table["layers"]
        subject = table.get("subject")
        annotations = table.get("annotations") or {}
        return Described(
            attachment=Attachment(
                artifact_type=str(table.get("artifactType") or table["config"]["mediaType"]),
                media_type=str(layer["mediaType"]),
                title=str((layer.get("annotations") or {}).get(TITLE, "")),
                content=b"",
                annotations={str(key): str(value) for key, value in annotations.items()},
            ),
            content=Digest(layer["digest"]),
            size=int(layer["size"]),
            subject=Digest(subject["digest"]) if subject else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Misshapen(f"is no manifest of one document: {type(error).__name__}: {error}") from error
