"""Image layouts on disk as a place to publish to: blobs first, the index last, several images and tags in one.

Source: OCI image specification 1.1, "image layout". Knows no engine; what one gives is an archive as `docker save`
writes it. Writers of one layout take turns at its index; a blob has the name of its content and needs none.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from builder import foreign, oci
from builder.errors import PublishError
from builder.lockfile import canonical
from builder.reference import Digest
from builder.registries.archives import LAYOUT_VERSION, REF_NAME, parts_of, unpacked, write_archive
from builder.registries.artifacts import (
    Attachment,
    Misshapen,
    Referrer,
    described,
    descriptor_of,
    entries_in,
    entry_of,
    index_of,
    manifest_of,
    referrer_of,
)
from builder.registries.client import EMPTY, MANIFEST, Document, digest_of
from builder.workspace import write_atomic

_PART = ".part."
_Entry = dict[str, Any]


class Layout:
    """One image layout. The folder need not exist before something is written.

    What is written raises `PublishError` for a full or read-only disk; what is read raises `Misshapen` for a
    folder that is no layout.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def standing(self, tag: str) -> Document | None:
        """Return what a tag names, None without it and where a part of that is missing or has another size."""
        entry = next((each for each in self._entries() if _tag_of(each) == tag), None)
        if entry is None:
            return None
        try:
            found = self.document(Digest(str(entry.get("digest"))))
        except ValueError as error:
            raise Misshapen(f"names no image by {tag}: {error}") from error
        return found if found is not None and self.is_whole(found) else None

    def document(self, digest: Digest) -> Document | None:
        """Return a manifest, None where it is not there or not whole."""
        try:
            content = self.blob_path(digest).read_bytes()
        except OSError:
            return None
        if digest_of(content) != digest:
            return None
        media_type = foreign.loads(content).get("mediaType", MANIFEST)
        return Document(media_type=str(media_type), content=content)

    def write_archive(self, image: Document, target: Path, *, name: str) -> None:
        """Write an image for an engine to load as `name`."""
        write_archive(image, target, name=name, blob=self.blob_path)

    def blob_path(self, digest: Digest) -> Path:
        """Return where a blob is, or would be."""
        return self.folder / "blobs/sha256" / digest.hex

    def take(self, archive: Iterable[bytes], *, digest: Digest | None, config: Digest) -> Document:
        """Take the blobs of one image out of an archive of an engine; no tag names them yet.

        `digest` is what the image's manifest has to be, None for an engine that knows none: then one is made, of
        the layers compressed here and the very configuration, `config`. Raises `PublishError` for an archive that
        does not hold that.
        """
        with _written(self.folder), self._part() as part:
            files, links = unpacked(archive, part)
            try:
                if digest is None:
                    return self._made(files, links, config, part)
                return self._kept(files, digest)
            except (OSError, PublishError):
                raise
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise PublishError(
                    f"{self.folder}: the engine's archive cannot be read: {type(error).__name__}: {error}"
                ) from error

    def point(self, tag: str, image: Document) -> None:
        """Let a tag name an image whose blobs are there. What it named before stays, by digest."""

        def pointed(entries: list[_Entry]) -> list[_Entry]:
            untagged = [_without_tag(each) if _tag_of(each) == tag else each for each in entries]
            tagged = {**descriptor_of(image), "annotations": {REF_NAME: tag}}
            held = {each["digest"] for each in (*untagged, tagged) if _tag_of(each)}
            return [each for each in untagged if _tag_of(each) or each["digest"] not in held] + [tagged]

        self._index(pointed)

    def attach(self, image: Document, attachment: Attachment) -> Digest:
        """Put a document beside an image of the layout; return the digest of its manifest."""
        manifest = manifest_of(attachment, image)
        entry = entry_of(attachment, manifest)
        with _written(self.folder):
            for content in (EMPTY, attachment.content, manifest.content):
                place = self.blob_path(digest_of(content))
                if not place.is_file() or place.stat().st_size != len(content):
                    write_atomic(place, content)
        self._index(lambda entries: [*(e for e in entries if e.get("digest") != entry["digest"]), entry])
        return manifest.digest

    def referrers(self, digest: Digest) -> tuple[Referrer, ...]:
        """Return what refers to an image, in the order of the index."""
        found = []
        for entry in self._entries():
            manifest = self.document(Digest(str(entry.get("digest"))))
            about = foreign.loads(manifest.content).get("subject") if manifest is not None else None
            if about is not None and about.get("digest") == str(digest):
                found.append(referrer_of(entry))
        return tuple(found)

    def fetched(self, digest: Digest) -> Attachment:
        """Return a document by the digest of its manifest. Raises `Misshapen` where a byte of it is another."""
        manifest = self.document(digest)
        if manifest is None:
            raise Misshapen(f"does not hold {digest}")
        told = described(manifest.content)
        try:
            content = self.blob_path(told.content).read_bytes()
        except OSError as error:
            raise Misshapen(f"does not hold {told.content}, part of {digest}") from error
        if digest_of(content) != told.content:
            raise Misshapen(f"holds other bytes as {told.content}")
        return replace(told.attachment, content=content)

    def _kept(self, files: Mapping[str, Path], digest: Digest) -> Document:
        """Keep the blobs of the image `digest` as they are."""
        manifest = self._blob(files, digest)
        content = manifest.read_bytes()
        table = foreign.loads(content)
        if "manifests" in table:
            raise PublishError(f"{self.folder}: expected one image, {digest} is an index of several")
        self._install([self._blob(files, each) for each in reversed(parts_of(table))])
        self._install([manifest])
        return Document(media_type=str(table.get("mediaType", MANIFEST)), content=content)

    def _blob(self, files: Mapping[str, Path], digest: Digest) -> Path:
        """Return where a blob is: in the archive, or in the layout already. Its bytes are what its name says."""
        place = files.get(f"blobs/sha256/{digest.hex}", self.blob_path(digest))
        try:
            with place.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError as error:
            raise PublishError(f"{self.folder}: the engine's archive lacks {digest}") from error
        if found != digest.hex:
            raise PublishError(f"{self.folder}: {place.name} has the bytes of sha256:{found}")
        return place

    def _made(self, files: Mapping[str, Path], links: Mapping[str, str], config: Digest, part: Path) -> Document:
        """Make the manifest of an image whose engine has none, from its configuration and its layers."""
        (listed,) = foreign.loads(files["manifest.json"].read_bytes())
        told = files[str(listed["Config"])]
        content = told.read_bytes()
        if digest_of(content) != config:
            raise PublishError(f"{self.folder}: the engine gave {digest_of(content)}, tested was {config}")
        contents = foreign.loads(content)["rootfs"]["diff_ids"]
        blobs = part / "layout"
        (blobs / "blobs/sha256").mkdir(parents=True)
        layers = []
        for name, wanted in zip(listed["Layers"], contents, strict=True):
            plain, layer = oci.compress_layer(files[links.get(str(name), str(name))], blobs)
            if plain != wanted:
                raise PublishError(f"{self.folder}: the engine gave the layer {plain}, tested was {wanted}")
            layers.append(layer)
        table = {
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": layers,
            "config": {"mediaType": oci.CONFIG, "digest": str(config), "size": len(content)},
        }  # fmt: skip
        document = Document(media_type=MANIFEST, content=canonical(table))
        named = blobs / "blobs/sha256" / config.hex
        told.rename(named)
        self._install(
            [blobs / "blobs/sha256" / Digest(str(each["digest"])).hex for each in _distinct(layers)] + [named]
        )
        write_atomic(self.blob_path(document.digest), document.content)
        return document

    def _install(self, blobs: Sequence[Path]) -> None:
        """Move whole blobs to where they belong, on the disk before they have their name."""
        folder = self.folder / "blobs/sha256"
        folder.mkdir(parents=True, exist_ok=True)
        for blob in blobs:
            if blob.parent == folder:
                continue
            with blob.open("rb") as file:
                os.fsync(file.fileno())
            blob.chmod(0o644)
            blob.replace(folder / blob.name)

    def is_whole(self, image: Document) -> bool:
        """Tell whether every part of an image is there, in its size."""
        try:
            table = foreign.loads(image.content)
            parts = {Digest(each["digest"]): int(each["size"]) for each in (table["config"], *table["layers"])}
            return all(self.blob_path(digest).stat().st_size == size for digest, size in parts.items())
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _entries(self) -> list[_Entry]:
        try:
            return entries_in((self.folder / "index.json").read_bytes())
        except FileNotFoundError:
            return []

    def _index(self, change: Callable[[list[_Entry]], list[_Entry]]) -> None:
        """Change the entries of the index, one writer at a time; readers see the old one or the new."""
        with _written(self.folder), self._turn():
            if not (self.folder / "oci-layout").is_file():
                write_atomic(self.folder / "oci-layout", LAYOUT_VERSION)
            write_atomic(self.folder / "index.json", index_of(change(self._entries())).content)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until no other writer holds the layout, and hold it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def _part(self) -> Iterator[Path]:
        """Give a folder on the same file system, and take away those of runs that were killed."""
        with ExitStack() as stack:
            with self._turn():
                for left in self.folder.glob(f"{_PART}*"):
                    with suppress(BlockingIOError, FileNotFoundError), _held(left):
                        shutil.rmtree(left)
                part = Path(tempfile.mkdtemp(dir=self.folder, prefix=_PART))
                stack.enter_context(_held(part))
            stack.callback(shutil.rmtree, part)
            yield part


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder for as long as this process lives. Raises `BlockingIOError` when another one does."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _distinct(layers: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    return list({str(each["digest"]): each for each in layers}.values())


def _tag_of(entry: Mapping[str, Any]) -> str | None:
    return (entry.get("annotations") or {}).get(REF_NAME)


def _without_tag(entry: _Entry) -> _Entry:
    annotations = {key: value for key, value in entry["annotations"].items() if key != REF_NAME}
    rest = {key: value for key, value in entry.items() if key != "annotations"}
    return rest | ({"annotations": annotations} if annotations else {})


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    """Turn what the disk says into a failure that names the layout."""
    try:
        yield
    except OSError as error:
        raise PublishError(
            f"{folder}: the image layout cannot be written: {(error.strerror or str(error)).lower()}",
            hint="nothing was tagged; make room or choose another folder, and run it again",
        ) from error
