"""Layers, layouts and archives of images, made by hand."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

LINK = "link to "


def layer(files: Mapping[str, bytes | str | None], *, compression: str | None = None) -> bytes:
    """Return a layer: a file per bytes, a folder per None, a symbolic or, with `LINK`, a hard link per text."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                hard = content.startswith(LINK)
                member.type = tarfile.LNKTYPE if hard else tarfile.SYMTYPE
                member.linkname = content.removeprefix(LINK)
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    data = sink.getvalue()
    if compression == "gzip":
        return gzip.compress(data)
    return zstandard.compress(data) if compression == "zstd" else data


class Layout:
    """An OCI layout that is being written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs/sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def blob(self, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs/sha256" / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def image(self, layers: Sequence[bytes], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        config = self.blob(json.dumps({"config": {"Labels": dict(labels or {})}}).encode())
        listed = [self.blob(data) for data in layers]
        return self.blob(json.dumps({"schemaVersion": 2, "config": config, "layers": listed}).encode())

    def index(self, *manifests: dict[str, Any]) -> Path:
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": list(manifests)}))
        return self.folder


def archive(
    layers: Sequence[bytes], labels: Mapping[str, str] | None = None, *, manifest_first: bool = False
) -> bytes:
    """Return what `docker save` writes, the layers before or after the list of them."""
    names = [f"blobs/sha256/{hashlib.sha256(data).hexdigest()}" for data in layers]
    listed = [{"Config": "blobs/sha256/config", "RepoTags": None, "Layers": names}]
    config = {"config": {"Labels": dict(labels or {})}}
    documents = {"manifest.json": json.dumps(listed).encode(), "blobs/sha256/config": json.dumps(config).encode()}
    blobs = dict(zip(names, layers, strict=True))
    return layer(documents | blobs if manifest_first else blobs | documents)
