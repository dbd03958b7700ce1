"""Reads an image from where it lies, layer by layer: an OCI layout, an archive of `docker save`, a registry.

No layer is unpacked to disk; a file that is too large for memory passes through a temporary one.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from builder.audit.contents import Contents
from builder.audit.layers import (
    BROKEN,
    TAR_BUFFER,
    Layer,
    buffered,
    clean,
    is_layer,
    pieces_of,
    read_layer,
    stacked,
)
from builder.errors import RecipeError
from builder.reference import Digest
from builder.story import Story

_LARGEST_DOCUMENT = 16 << 20
_MISSHAPEN = (ValueError, KeyError, TypeError, AttributeError, IndexError)


class Blobs(Protocol):
    """Where the documents and layers of images can be read by digest, piece by piece."""

    def manifest(self, digest: Digest) -> Iterator[bytes]:
        """Yield a manifest or an index."""
        ...

    def blob(self, digest: Digest) -> Iterator[bytes]:
        """Yield a configuration or a layer."""
        ...


class LayoutBlobs:
    """The blobs of an OCI layout in a folder."""

    def __init__(self, layout: Path) -> None:
        self._layout = layout

    def manifest(self, digest: Digest) -> Iterator[bytes]:
        """See `blob`: a layout has them all in one place."""
        return self.blob(digest)

    def blob(self, digest: Digest) -> Iterator[bytes]:
        """Yield a blob. Raises `RecipeError` when it cannot be read."""
        try:
            with (self._layout / "blobs/sha256" / digest.hex).open("rb") as file:
                yield from pieces_of(file)
        except OSError as error:
            raise RecipeError(
                f"{self._layout}: the blob {digest} cannot be read: {(error.strerror or str(error)).lower()}"
            ) from error


def is_layout(folder: Path) -> bool:
    """Tell whether a folder is an OCI image layout."""
    return (folder / "oci-layout").is_file() and (folder / "index.json").is_file()


def read_layout(layout: Path, digest: Digest | None, *, story: Story) -> Contents:
    """Read the image with this digest, or the only one, of a layout. Raises `RecipeError` for a broken one."""
    blobs = LayoutBlobs(layout)
    try:
        index = json.loads((layout / "index.json").read_bytes())
        chosen = digest or _chosen(index, str(layout))
    except (*_MISSHAPEN, OSError) as error:
        raise RecipeError(f"{layout}: is no image layout that can be read: {error}") from error
    return read_image(blobs, chosen, name=str(layout), story=story)


def read_image(blobs: Blobs, digest: Digest, *, name: str, story: Story) -> Contents:
    """Read the image of a manifest or an index. Raises `RecipeError` when a blob is not what its digest says."""
    try:
        manifest = _document(blobs.manifest(digest), digest, name)
        if "manifests" in manifest:
            chosen = _chosen(manifest, name)
            manifest = _document(blobs.manifest(chosen), chosen, name)
        described = Digest(manifest["config"]["digest"])
        config = _document(blobs.blob(described), described, name)
        descriptors = [Digest(layer["digest"]) for layer in manifest["layers"]]
        labels = _labels(config)
    except _MISSHAPEN as error:
        raise RecipeError(f"{name}: its manifest cannot be read: {type(error).__name__}: {error}") from error
    layers = []
    for number, each in enumerate(descriptors, start=1):
        with story.step(f"reading layer {number} of {len(descriptors)} of {name}"):
            layers.append(_verified(blobs, each, name))
    return stacked(layers, labels)


def read_archive(pieces: Iterable[bytes], *, name: str) -> Contents:
    """Read the image of an archive as `docker save` writes it, in whatever order that has layers and manifest.

    Raises `RecipeError` when it is not whole.
    """
    documents: dict[str, bytes] = {}
    layers: dict[str, Layer] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=buffered(pieces), mode="r|", bufsize=TAR_BUFFER) as archive:
            for member in archive:
                path = clean(member.name)
                if member.issym() or member.islnk():
                    base = path.rpartition("/")[0] if member.issym() else ""
                    links[path] = clean(f"{base}/{member.linkname}")
                    continue
                content = archive.extractfile(member)
                if content is None:
                    continue
                stream = cast("io.BufferedReader", content)
                if is_layer(stream):
                    layers[path] = read_layer(stream)
                elif member.size <= _LARGEST_DOCUMENT:
                    documents[path] = stream.read()
        (listed,) = json.loads(documents["manifest.json"])
        names = [clean(str(each)) for each in listed["Layers"]]
        config = json.loads(documents[clean(str(listed["Config"]))])
        labels = _labels(config)
        return stacked([layers[links.get(each, each)] for each in names], labels)
    except BROKEN as error:
        raise RecipeError(f"{name}: is no complete image archive: {error}") from error
    except _MISSHAPEN as error:
        raise RecipeError(f"{name}: its manifest cannot be read: {type(error).__name__}: {error}") from error


def _verified(blobs: Blobs, digest: Digest, name: str) -> Layer:
    """Read a layer and compare all of its bytes with their digest."""
    seen = hashlib.sha256()
    stream = buffered(_hashed(blobs.blob(digest), seen.update))
    try:
        layer = read_layer(stream)
    except BROKEN as error:
        raise RecipeError(f"{name}: the layer {digest} is no complete archive: {error}") from error
    for _ in pieces_of(stream):  # what follows the archive's end is part of the blob
        pass
    if seen.hexdigest() != digest.hex:
        raise RecipeError(f"{name}: the layer {digest} has other bytes than its digest says")
    return layer


def _hashed(pieces: Iterator[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    for piece in pieces:
        update(piece)
        yield piece


def _document(pieces: Iterator[bytes], digest: Digest, name: str) -> dict[str, Any]:
    data = b""
    for piece in pieces:
        data += piece
        if len(data) > _LARGEST_DOCUMENT:
            raise RecipeError(f"{name}: the document {digest} has more than {_LARGEST_DOCUMENT} bytes")
    if hashlib.sha256(data).hexdigest() != digest.hex:
        raise RecipeError(f"{name}: the document {digest} has other bytes than its digest says")
    table = json.loads(data)
    if not isinstance(table, dict):
        raise TypeError("expected a table")
    return table


def _chosen(index: Mapping[str, Any], name: str) -> Digest:
    """Return the image for linux/amd64 in an index, or the only one."""
    images = [
        entry
        for entry in index["manifests"]
        if (entry.get("platform") or {}).get("architecture", "amd64") in ("amd64", "")
        and "vnd.docker.reference.type" not in (entry.get("annotations") or {})
    ]
    digests = list(dict.fromkeys(str(entry["digest"]) for entry in images))
    if len(digests) != 1:
        raise RecipeError(
            f"{name}: holds {len(digests)} images for linux/amd64, expected one", details=tuple(digests),
            hint=f"name one: {name}@{digests[0]}" if digests else None,
        )  # fmt: skip
    return Digest(digests[0])


def _labels(config: Mapping[str, Any]) -> dict[str, str]:
    told = (config.get("config") or {}).get("Labels") or {}
    return {str(key): str(value) for key, value in told.items()}
