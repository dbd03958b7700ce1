"""Writes a root file system as an OCI image layout of one zstd layer. Knows the format, not where it goes.

Source: OCI image format specification 1.1, sections layout, manifest and configuration.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import zstandard

from builder.lockfile import canonical
from builder.reference import Digest

_LEVEL = 3
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
CONFIG = "application/vnd.oci.image.config.v1+json"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CHUNK = 1 << 20


def write_layout(root: Path, target: Path, *, epoch: int, origin: str) -> Digest:
    """Write the tar file `root` as an image layout into the new folder `target` and return the manifest's digest.

    `origin` becomes the history's only entry. The same tar and epoch (seconds since 1970) give the same digest.
    """
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
        part = Path(name) / "layout"
        (part / "blobs/sha256").mkdir(parents=True)
        content, layer = compress_layer(root, part)
        config = _blob(
            part,
            CONFIG,
            {
                "architecture": "amd64", "os": "linux", "created": created, "config": {"Env": [_PATH]},
                "rootfs": {"type": "layers", "diff_ids": [content]},
                "history": [{"created": created, "created_by": origin}],
            },
        )  # fmt: skip
        manifest = _blob(
            part, _MANIFEST, {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": [layer]}
        )
        (part / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        index = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [manifest],
        }
        (part / "index.json").write_bytes(canonical(index))
        part.rename(target)
    return Digest(str(manifest["digest"]))


def layout_digest(layout: Path) -> Digest | None:
    """Return the digest of the only image of a layout whose blobs are all there and whole, or None."""
    try:
        pending = list(json.loads((layout / "index.json").read_bytes())["manifests"])
        digest = Digest(pending[0]["digest"])
        manifest = json.loads(_path(layout, digest).read_bytes())
        pending += [manifest["config"], *manifest["layers"]]
        for descriptor in pending:
            with _path(layout, Digest(descriptor["digest"])).open("rb") as blob:
                if hashlib.file_digest(blob, "sha256").hexdigest() != Digest(descriptor["digest"]).hex:
                    return None
    except (OSError, ValueError, KeyError, IndexError, TypeError):  # of a file that is no layout
        return None
    return digest


def write_archive(layout: Path, target: Path, *, name: str) -> None:
    """Write the only image of a layout as `docker save` does, for engines that cannot read layouts.

    `name` is what the engine calls it. Its layer is not compressed there; the configuration stays as it is.
    """
    index = json.loads((layout / "index.json").read_bytes())
    manifest = json.loads(_path(layout, Digest(index["manifests"][0]["digest"])).read_bytes())
    config = _path(layout, Digest(manifest["config"]["digest"])).read_bytes()
    described = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with (
        tempfile.TemporaryFile(dir=target.parent) as content,
        _path(layout, Digest(manifest["layers"][0]["digest"])).open("rb") as layer,
        tarfile.open(target, "w") as archive,
    ):
        _, size = zstandard.ZstdDecompressor().copy_stream(layer, content)
        content.seek(0)
        layer_member = tarfile.TarInfo("layer.tar")
        layer_member.size = size
        archive.addfile(layer_member, content)
        for file, data in (("config.json", config), ("manifest.json", described)):
            member = tarfile.TarInfo(file)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def compress_layer(content: Path, layout: Path) -> tuple[str, dict[str, object]]:
    """Put a tar file, compressed, among a layout's blobs; return its own digest and the layer's descriptor."""
    plain, compressed, size = hashlib.sha256(), hashlib.sha256(), 0
    part = layout / "layer.part"
    compressor = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=content.stat().st_size)
    with content.open("rb") as source, part.open("wb") as sink:
        while chunk := source.read(_CHUNK):
            plain.update(chunk)
            out = compressor.compress(chunk)
            compressed.update(out)
            size += sink.write(out)
        out = compressor.flush()
        compressed.update(out)
        size += sink.write(out)
    digest = f"sha256:{compressed.hexdigest()}"
    part.rename(_path(layout, Digest(digest)))
    return f"sha256:{plain.hexdigest()}", {"mediaType": LAYER, "digest": digest, "size": size}


def _blob(layout: Path, media_type: str, content: dict[str, object]) -> dict[str, object]:
    data = canonical(content)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    _path(layout, Digest(digest)).write_bytes(data)
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def _path(layout: Path, digest: Digest) -> Path:
    return layout / "blobs/sha256" / digest.hex
