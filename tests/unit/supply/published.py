"""An image in a layout with its documents beside it, as a build leaves it, and the record of it at hand."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder import record as records
from builder.lockfile import canonical
from builder.mirrors import load_mirrors
from builder.project import Prepared
from builder.reference import Digest, LayoutReference
from builder.registries.artifacts import Attachment
from builder.registries.client import MANIFEST, Document, digest_of
from builder.registries.layouts import Layout
from builder.story import Silent
from builder.supply.documents import bills, documents, expected
from builder.supply.licences import licences
from builder.supply.signing import Trusted
from builder.supply.verdicts import Verdict
from builder.supply.verify import Held, verify

TAG = "1.0-0123456789ab"
LICENCES = licences({"Jinja2": {"expression": "BSD-3-Clause"}})


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a build left: an image in a layout, its record, and what the record was made of."""

    prepared: Prepared
    layout: Layout
    image: Document
    record: dict[str, Any]
    attachments: tuple[Attachment, ...]

    @property
    def place(self) -> LayoutReference:
        return LayoutReference(folder=str(self.layout.folder), tag=TAG, digest=self.image.digest)

    @property
    def held(self) -> Held:
        return Held(file="pins/probe.json", text=records.dump(self.record))

    def verdict(
        self,
        *,
        place: LayoutReference | None = None,
        record: dict[str, Any] | None = None,
        at_hand: bool = True,
        lock: bool = True,
        deep: bool = False,
        trusted: Trusted | None = None,
    ) -> Verdict:
        held = replace(self.held, text=records.dump(record)) if record is not None else self.held
        return verify(
            place or self.place, held=held if at_hand else None,
            expected=expected(self.prepared) if lock else None,
            trusted=trusted, deep=deep, mirrors=load_mirrors(self.layout.folder), story=Silent(),
        )  # fmt: skip

    def attach(self, **changed: Any) -> None:
        """Put the documents beside the image, those named by a part of their title with other bytes, or none."""
        for each in self.attachments:
            kind = each.title.split(".")[1]
            content = changed.get(kind, each.content)
            if content is not None:
                self.layout.attach(self.image, replace(each, content=content))


def published(root: Path, prepared: Prepared, *, word: str = "one", attached: bool = True) -> Published:
    """Publish an image whose only layer has `word`."""
    layout = Layout(root / "layout")
    image = put_image(layout, prepared, word)
    table = json.loads(image.content)
    made = bills(prepared, digest=image.digest, licences=LICENCES)
    record = records.pin(
        prepared.recipe, prepared.lock, reference=f"registry.example.org/llm/probe:{TAG}@{image.digest}",
        digest=str(image.digest), content_key=prepared.content_key, test_key=prepared.test_key,
        lock_hash=prepared.lock_hash, fingerprint=prepared.fingerprint, patches=[], sbom=made.digests,
        smoke={"tiers": {"cpu": "passed"}, "tests": {}},
        layers=records.owned_layers([(each["digest"], each["size"]) for each in table["layers"]], []),
    )  # fmt: skip
    image_documents = documents(prepared, digest=image.digest, record=record, recipe="7" * 64, made=made)
    whole = Published(prepared=prepared, layout=layout, image=image, record=record, attachments=image_documents)
    if attached:
        whole.attach()
    return whole


def put_image(layout: Layout, prepared: Prepared, word: str, tag: str = TAG) -> Document:
    """Write an image of one layer with the labels that a build gives it."""
    labels = {
        "rocm-images.content-key": prepared.content_key, "rocm-images.fingerprint": prepared.fingerprint,
        "org.opencontainers.image.title": prepared.recipe.name,
        "org.opencontainers.image.version": prepared.recipe.version,
    }  # fmt: skip
    layer = word.encode()
    config = canonical({"architecture": "amd64", "os": "linux", "config": {"Labels": labels}})
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **_named(config)},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **_named(layer)}],
    }  # fmt: skip
    document = Document(media_type=MANIFEST, content=canonical(manifest))
    for content in (layer, config, document.content):
        path = layout.blob_path(digest_of(content))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    layout.point(tag, document)
    return document


def blob_path(layout: Layout, content: bytes) -> Path:
    return layout.blob_path(Digest(f"sha256:{hashlib.sha256(content).hexdigest()}"))


def _named(content: bytes) -> dict[str, object]:
    return {"digest": str(digest_of(content)), "size": len(content)}
