"""The documents that ride along with a published image, as bytes: two bills of materials, provenance, the record.

Pure. The bills of materials come first, because the record names them by hash; the provenance names all three.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from builder import record as records
from builder.project import Prepared
from builder.reference import Digest
from builder.registries.artifacts import Attachment
from builder.supply.cyclonedx import cyclonedx
from builder.supply.licences import Licence
from builder.supply.parts import parts_of, suite_of
from builder.supply.provenance import statement
from builder.supply.spdx import spdx

SPDX = "application/spdx+json"
CYCLONEDX = "application/vnd.cyclonedx+json"
PROVENANCE = "application/vnd.in-toto+json"
RECORD = "application/vnd.rocm-images.record.v1+json"
_SAID_OF = {
    SPDX: "bill of materials, SPDX 2.3",
    CYCLONEDX: "bill of materials, CycloneDX 1.6",
    PROVENANCE: "how the image was made, SLSA provenance v1",
    RECORD: "record of the tested image",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bills:
    """The two bills of materials of an image, as they are written."""

    spdx: bytes
    cyclonedx: bytes

    @property
    def digests(self) -> dict[str, str]:
        """Their digests, as the record has them."""
        return {"spdx": _digest(self.spdx), "cyclonedx": _digest(self.cyclonedx)}


def bills(prepared: Prepared, *, digest: Digest, licences: Mapping[str, Licence]) -> Bills:
    """Return the bills of materials of the image `digest`; `licences` are those of its Python distributions."""
    recipe, parts, epoch = prepared.recipe, parts_of(prepared), prepared.lock.epoch
    return Bills(
        spdx=_written(
            spdx(
                parts, name=recipe.name, version=recipe.version, digest=digest, epoch=epoch, licences=licences
            )
        ),
        cyclonedx=_written(
            cyclonedx(
                parts, name=recipe.name, version=recipe.version, digest=digest, epoch=epoch,
                suite=suite_of(prepared, "runtime"), licences=licences,
            )
        ),
    )  # fmt: skip


def provenance(prepared: Prepared, *, digest: Digest, recipe: str, record: bytes, made: Bills) -> bytes:
    """Return the statement of how the image `digest` was made; `recipe` is the sha256 of its file."""
    name = prepared.recipe.name
    beside = ((SPDX, made.spdx), (CYCLONEDX, made.cyclonedx), (RECORD, record))
    return _written(
        statement(
            parts_of(prepared), name=name, digest=digest, recipe=recipe, lock=prepared.lock_hash,
            content_key=prepared.content_key, epoch=prepared.lock.epoch,
            byproducts={
                title(name, kind): (kind, hashlib.sha256(content).hexdigest()) for kind, content in beside
            },
        )
    )  # fmt: skip


def expected(prepared: Prepared) -> dict[str, object]:
    """Return a statement of how the image would be made, with what goes in and no more."""
    name = prepared.recipe.name
    return statement(
        parts_of(prepared), name=name, digest=Digest(f"sha256:{'0' * 64}"), recipe="", lock=prepared.lock_hash,
        content_key=prepared.content_key, epoch=prepared.lock.epoch, byproducts={},
    )  # fmt: skip


def documents(
    prepared: Prepared, *, digest: Digest, record: Mapping[str, object], recipe: str, made: Bills
) -> tuple[Attachment, ...]:
    """Return what is put beside the image `digest`, in this order.

    `record` is its record with the digests of `made`, `recipe` the sha256 of the recipe's file. The same of all
    these gives the same bytes.
    """
    name, written = prepared.recipe.name, records.dump(record).encode()
    content = {
        SPDX: made.spdx,
        CYCLONEDX: made.cyclonedx,
        RECORD: written,
        PROVENANCE: provenance(prepared, digest=digest, recipe=recipe, record=written, made=made),
    }
    return tuple(
        Attachment(
            artifact_type=kind, media_type=kind, title=title(name, kind), content=text,
            annotations={"org.opencontainers.image.description": _SAID_OF[kind]},
        )
        for kind, text in content.items()
    )  # fmt: skip


def title(name: str, kind: str) -> str:
    """Return what the file of a document is called."""
    words = {SPDX: "spdx", CYCLONEDX: "cdx", PROVENANCE: "provenance", RECORD: "record"}
    return f"{name}.{words[kind]}.json"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _written(document: Mapping[str, object]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
