"""Image layouts as a place to publish to: what is in one stays, a tag comes last, and two writers take turns."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from builder.errors import EngineError, PublishError
from builder.reference import Digest
from builder.registries.archives import write_archive
from builder.registries.artifacts import Attachment, Misshapen
from builder.registries.client import Document
from builder.registries.layouts import Layout

SBOM = Attachment(artifact_type="a/b", media_type="a/b+json", title="a.json", content=b'{"a": 1}')


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def described(data: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}


class Image:
    """An image of one layer, and the archives that engines of both stores make of it."""

    def __init__(self, word: str) -> None:
        self.layer = tar({"word": word.encode() * 1000})
        self.blob = zstandard.compress(self.layer)
        self.config = json.dumps({"rootfs": {"diff_ids": [digest_of(self.layer)]}, "word": word}).encode()
        kind = "application/vnd.oci.image."
        self.manifest = json.dumps(
            {
                "schemaVersion": 2, "mediaType": f"{kind}manifest.v1+json",
                "config": described(self.config, f"{kind}config.v1+json"),
                "layers": [described(self.blob, f"{kind}layer.v1.tar+zstd")],
            }
        ).encode()  # fmt: skip
        self.digest = Digest(digest_of(self.manifest))
        self.id = Digest(digest_of(self.config))

    def containerd(self, **changed: bytes) -> list[bytes]:
        parts = {"manifest": self.manifest, "config": self.config, "blob": self.blob} | changed
        names = {"manifest": self.digest, "config": self.id, "blob": Digest(digest_of(self.blob))}
        files = {f"blobs/sha256/{names[part].hex}": data for part, data in parts.items() if data}
        return pieces(tar(files | {"oci-layout": b"{}"}))

    def classic(self) -> list[bytes]:
        layer = f"blobs/sha256/{Digest(digest_of(self.layer)).hex}"
        listed = [{"Config": f"blobs/sha256/{self.id.hex}", "RepoTags": None, "Layers": [layer]}]
        files = {layer: self.layer, f"blobs/sha256/{self.id.hex}": self.config}
        return pieces(tar(files | {"manifest.json": json.dumps(listed).encode()}))


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def pieces(data: bytes) -> list[bytes]:
    return [data[start : start + 700] for start in range(0, len(data), 700)]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "out" / "image")


def taken(layout: Layout, image: Image) -> Document:
    return layout.take(image.containerd(), digest=image.digest, config=image.id)


def files(layout: Layout) -> set[str]:
    return {str(path.relative_to(layout.folder)) for path in layout.folder.rglob("*") if path.is_file()}


def parts(layout: Layout) -> list[Path]:
    return list(layout.folder.glob(".part.*"))


def tags(layout: Layout) -> dict[str, str]:
    entries = json.loads((layout.folder / "index.json").read_bytes())["manifests"]
    key = "org.opencontainers.image.ref.name"
    return {entry["annotations"][key]: entry["digest"] for entry in entries if key in entry.get("annotations", {})}


def test_blobs_come_first_and_to_the_byte_and_the_index_with_the_tag(layout: Layout) -> None:
    image = Image("a")
    document = taken(layout, image)
    assert document.content == image.manifest
    assert files(layout) == {
        f"blobs/sha256/{Digest(digest_of(data)).hex}" for data in (image.blob, image.config, image.manifest)
    }
    assert layout.standing("1.0") is None
    layout.point("1.0", document)
    assert layout.standing("1.0") == document
    assert json.loads((layout.folder / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    assert tags(layout) == {"1.0": str(image.digest)}


def test_an_engine_without_manifests_gets_one_of_the_very_configuration(layout: Layout) -> None:
    image = Image("a")
    made = layout.take(image.classic(), digest=None, config=image.id)
    table = json.loads(made.content)
    assert table["config"]["digest"] == str(image.id)
    (layer,) = table["layers"]
    blob = layout.blob_path(Digest(layer["digest"])).read_bytes()
    assert zstandard.ZstdDecompressor().stream_reader(blob).read() == image.layer
    assert layer["size"] == len(blob)
    assert layout.take(image.classic(), digest=None, config=image.id) == made
    assert layout.is_whole(made)


def test_images_and_tags_that_are_there_stay(layout: Layout) -> None:
    first, second = taken(layout, Image("a")), taken(layout, Image("b"))
    for tag, document in (("1.0", first), ("nightly", first), ("2.0", second), ("nightly", second)):
        layout.point(tag, document)
    assert tags(layout) == {"1.0": str(first.digest), "2.0": str(second.digest), "nightly": str(second.digest)}
    assert (layout.standing("1.0"), layout.standing("nightly")) == (first, second)


def test_what_a_moved_tag_named_stays_by_digest(layout: Layout) -> None:
    first, second = taken(layout, Image("a")), taken(layout, Image("b"))
    layout.point("1.0", first)
    layout.point("1.0", second)
    entries = json.loads((layout.folder / "index.json").read_bytes())["manifests"]
    assert [entry["digest"] for entry in entries] == [str(first.digest), str(second.digest)]
    assert tags(layout) == {"1.0": str(second.digest)}
    layout.point("1.0", first)
    assert tags(layout) == {"1.0": str(first.digest)}
    assert len(json.loads((layout.folder / "index.json").read_bytes())["manifests"]) == 2


def test_a_document_beside_an_image_is_put_there_once_and_read_back(layout: Layout) -> None:
    image = taken(layout, Image("a"))
    digests = {layout.attach(image, SBOM) for _ in range(2)}
    layout.point("1.0", image)
    (found,) = layout.referrers(image.digest)
    assert {found.digest} == digests
    assert found.artifact_type == SBOM.artifact_type
    assert layout.fetched(found.digest) == SBOM
    layout.blob_path(Digest(digest_of(SBOM.content))).write_bytes(b"{}")
    with pytest.raises(Misshapen, match="holds other bytes"):
        layout.fetched(found.digest)


def test_an_image_with_a_part_missing_or_cut_short_does_not_stand(layout: Layout) -> None:
    image = Image("a")
    layout.point("1.0", taken(layout, image))
    blob = layout.blob_path(Digest(digest_of(image.blob)))
    blob.write_bytes(image.blob[:-1])
    assert layout.standing("1.0") is None
    blob.unlink()
    assert layout.standing("1.0") is None
    layout.point("1.0", taken(layout, image))
    assert layout.standing("1.0") is not None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"blob": b""}, "the engine's archive lacks sha256:"),
        ({"blob": b"other"}, "has the bytes of sha256:"),
        ({"manifest": b"{}"}, "has the bytes of sha256:"),
    ],
)
def test_an_archive_without_the_very_bytes_is_refused(
    layout: Layout, changed: dict[str, bytes], words: str
) -> None:
    image = Image("a")
    with pytest.raises(PublishError, match=words):
        layout.take(image.containerd(**changed), digest=image.digest, config=image.id)
    assert not (layout.folder / "index.json").exists()
    assert parts(layout) == []


def test_a_layer_of_other_content_than_was_tested_is_refused(layout: Layout) -> None:
    image, other = Image("a"), Image("b")
    image.layer, image.config = other.layer, image.config
    with pytest.raises(PublishError, match=f"the engine gave the layer {digest_of(other.layer)}, tested was"):
        layout.take(image.classic(), digest=None, config=image.id)
    with pytest.raises(PublishError, match=f"the engine gave {other.id}, tested was {image.id}"):
        layout.take(other.classic(), digest=None, config=image.id)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_engine_that_breaks_off_leaves_a_layout_as_it_was(layout: Layout, count: int) -> None:
    first = taken(layout, Image("a"))
    layout.point("1.0", first)
    before = files(layout)

    def broken() -> Iterator[bytes]:
        yield from Image("b").containerd()[:count]

    with pytest.raises((EngineError, PublishError), match=r"the engine broke off|the engine's archive lacks"):
        layout.take(broken(), digest=Image("b").digest, config=Image("b").id)
    assert files(layout) == before
    assert layout.standing("1.0") == first


def test_what_a_killed_run_left_is_taken_away_and_what_a_living_one_holds_is_not(layout: Layout) -> None:
    (layout.folder / ".part.of-a-killed-run").mkdir(parents=True)
    (layout.folder / ".part.of-a-killed-run/blob").touch()
    there = threading.Event()
    held: list[Path] = []

    def slow() -> Iterator[bytes]:
        yield from Image("a").containerd()[:2]
        there.wait()
        held.extend(parts(layout))
        yield from Image("a").containerd()[2:]

    def run() -> None:
        layout.take(slow(), digest=Image("a").digest, config=Image("a").id)

    thread = threading.Thread(target=run)
    thread.start()
    taken(layout, Image("b"))
    there.set()
    thread.join()
    assert len(held) == 1
    assert parts(layout) == []


def test_writers_at_the_same_time_lose_nothing(layout: Layout) -> None:
    documents = {str(number): taken(layout, Image(str(number))) for number in range(8)}
    threads = [threading.Thread(target=layout.point, args=each) for each in documents.items()]
    threads += [threading.Thread(target=layout.attach, args=(each, SBOM)) for each in documents.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tags(layout) == {tag: str(each.digest) for tag, each in documents.items()}
    assert all(len(layout.referrers(each.digest)) == 1 for each in documents.values())


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PublishError, match="the image layout cannot be written: not a directory"):
        taken(Layout(tmp_path / "file" / "image"), Image("a"))


def test_an_index_that_is_none_is_told_and_left_alone(layout: Layout) -> None:
    document = taken(layout, Image("a"))
    (layout.folder / "index.json").write_text("[]")
    for ask in (lambda: layout.standing("1.0"), lambda: layout.point("1.0", document)):
        with pytest.raises(Misshapen, match="is no index"):
            ask()
    assert (layout.folder / "index.json").read_text() == "[]"


def test_an_archive_for_an_engine_has_the_image_alone_and_in_both_forms(layout: Layout, tmp_path: Path) -> None:
    image = Image("a")
    document = taken(layout, image)
    taken(layout, Image("b"))
    write_archive(document, tmp_path / "a.tar", name="example.local/a:1", blob=layout.blob_path)
    with tarfile.open(tmp_path / "a.tar") as archive:
        content = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert {content[name] for name in content if name.startswith("blobs/")} == {
        image.manifest, image.config, image.blob
    }  # fmt: skip
    (entry,) = json.loads(content["index.json"])["manifests"]
    assert entry["digest"] == str(image.digest)
    assert entry["annotations"]["io.containerd.image.name"] == "example.local/a:1"
    (listed,) = json.loads(content["manifest.json"])
    assert listed["RepoTags"] == ["example.local/a:1"]
    assert content[listed["Config"]] == image.config
    assert [content[name] for name in listed["Layers"]] == [image.blob]
