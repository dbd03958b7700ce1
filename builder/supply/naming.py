"""Identifiers that follow from content, so that the same image has the same documents. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID, uuid5

from builder.lockfile import canonical

TOOL = "rocm-images"  # without a version: another version that says the same is to write the same document
_SPACE = uuid5(UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8"), f"urn:{TOOL}:documents")  # RFC 9562, namespace URL


def uuid_of(document: Mapping[str, object]) -> str:
    """Return a UUID in URN form that only an equal document has."""
    return uuid5(_SPACE, hashlib.sha256(canonical(document)).hexdigest()).urn


def moment(epoch: int) -> str:
    """Return seconds since 1970 as documents write them."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
