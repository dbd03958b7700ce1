"""Reads an image from where it lies, layer by layer: an OCI layout, an archive of `docker save`, a registry.

No layer is unpacked to disk; a file that is too large for memory passes through a temporary one.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from builder import foreign
from builder.audit.contents import AUDIT, Contents, Seeking
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
from builder.sources.archive import Entry
from builder.story import Story

_LARGEST_DOCUMENT = 16 << 20
_MISSHAPEN = (ValueError, KeyError, TypeError, AttributeError, IndexError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """A layer as it is stored: its digest, and its compressed size in bytes; None where nobody says it."""

    digest: str
    size: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What an image is without its files: its manifest's digest, its configuration, its layers, bottom first."""

    digest: Digest | None
    config: Mapping[str, Any]
    layers: tuple[Blob, ...]

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return _labels(self.config)


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
    return read_image(LayoutBlobs(layout), chosen_of(layout, digest), name=str(layout), story=story)


def chosen_of(layout: Path, digest: Digest | None) -> Digest:
    """Return the digest of the only image of a layout, where none is named. Raises `RecipeError`."""
    try:
        index = foreign.loads((layout / "index.json").read_bytes())
        return digest or _chosen(index, str(layout))
    except (*_MISSHAPEN, OSError) as error:
        raise RecipeError(f"{layout}: is no image layout that can be read: {error}") from error


def describe(blobs: Blobs, digest: Digest, *, name: str) -> Described:
    """Read manifest and configuration of an image, no layer. Raises `RecipeError` for broken documents."""
    try:
        manifest = _document(blobs.manifest(digest), digest, name)
        if "manifests" in manifest:
            digest = _chosen(manifest, name)
            manifest = _document(blobs.manifest(digest), digest, name)
        described = Digest(manifest["config"]["digest"])
        config = _document(blobs.blob(described), described, name)
        layers = tuple(
            Blob(digest=str(Digest(each["digest"])), size=_size(each.get("size"))) for each in manifest["layers"]
        )
        _labels(config)
    except _MISSHAPEN as error:
        raise RecipeError(f"{name}: its manifest cannot be read: {type(error).__name__}: {error}") from error
    return Described(digest=digest, config=config, layers=layers)


def read_image(blobs: Blobs, digest: Digest, *, name: str, story: Story) -> Contents:
    """Read the image of a manifest or an index. Raises `RecipeError` when a blob is not what its digest says."""
    return read_layers(blobs, describe(blobs, digest, name=name), name=name, story=story)


def read_layers(
    blobs: Blobs, described: Described, *, name: str, story: Story, seeking: Seeking = AUDIT
) -> Contents:
    """Read all layers of an image. Raises `RecipeError` when a blob is not what its digest says."""
    layers = []
    for number, each in enumerate(described.layers, start=1):
        with story.step(f"reading layer {number} of {len(described.layers)} of {name}"):
            layers.append(verified_layer(blobs, Digest(each.digest), name=name, seeking=seeking))
    return stacked(layers, described.labels)


def read_archive(pieces: Iterable[bytes], *, name: str) -> Contents:
    """Read the image of an archive as `docker save` writes it, in whatever order that has layers and manifest.

    Raises `RecipeError` when it is not whole.
    """
    return read_archived(pieces, name=name)[1]


def read_archived(
    pieces: Iterable[bytes], *, name: str, seeking: Seeking = AUDIT, most: int | None = None
) -> tuple[Described, Contents]:
    """Read an archive as `read_archive` does, with what the image is; layers of more than `most` bytes unread.

    What an engine with the older image store writes is unpacked: its digests are of no registry.
    """
    documents: dict[str, bytes] = {}
    layers: dict[str, Layer] = {}
    sizes: dict[str, int] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=buffered(pieces), mode="r|", bufsize=TAR_BUFFER, tarinfo=Entry) as archive:
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
                    sizes[path] = member.size
                    wanted = most is None or member.size <= most
                    layers[path] = read_layer(stream, seeking) if wanted else Layer()
                elif member.size <= _LARGEST_DOCUMENT:
                    documents[path] = stream.read()
        (listed,) = foreign.loads(documents["manifest.json"])
        names = [clean(str(each)) for each in listed["Layers"]]
        config = foreign.loads(documents[clean(str(listed["Config"]))])
        described = Described(
            digest=_of_archive(documents, name),
            config=config,
            layers=tuple(
                Blob(digest=f"sha256:{each.rpartition('/')[2]}", size=sizes[links.get(each, each)])
                for each in names
            ),
        )
        return described, stacked([layers[links.get(each, each)] for each in names], described.labels)
    except BROKEN as error:
        raise RecipeError(f"{name}: is no complete image archive: {error}") from error
    except _MISSHAPEN as error:
        raise RecipeError(f"{name}: its manifest cannot be read: {type(error).__name__}: {error}") from error


def _of_archive(documents: Mapping[str, bytes], name: str) -> Digest | None:
    """Return the digest of the image's manifest, None where the archive is no layout as well."""
    if "index.json" not in documents:
        return None
    digest = _chosen(foreign.loads(documents["index.json"]), name)
    manifest = foreign.loads(documents[f"blobs/sha256/{digest.hex}"])
    return _chosen(manifest, name) if "manifests" in manifest else digest


def _size(told: object) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) and told >= 0 else None


def verified_layer(blobs: Blobs, digest: Digest, *, name: str, seeking: Seeking = AUDIT) -> Layer:
    """Read a layer and compare all of its bytes with their digest. Raises `RecipeError` where they differ."""
    seen = hashlib.sha256()
    stream = buffered(_hashed(blobs.blob(digest), seen.update))
    try:
        layer = read_layer(stream, seeking)
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
    table = foreign.loads(data)
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
