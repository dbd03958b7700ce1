"""Image layouts: the same tar gives the same digest, and a layout is only as good as its bytes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
import zstandard

from builder.oci import layout_digest, write_layout
from builder.reference import Digest

EPOCH = 1795252544


def a_tar(path: Path, *, content: bytes = b"hello\n" * 5000) -> Path:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo("etc/motd")
        info.size, info.mtime = len(content), EPOCH
        tar.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    target = tmp_path / "layout"
    write_layout(a_tar(tmp_path / "root.tar"), target, epoch=EPOCH, origin="a test")
    return target


def blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def manifest(layout: Path) -> dict[str, object]:
    index = json.loads((layout / "index.json").read_bytes())
    return dict(json.loads(blob(layout, index["manifests"][0]["digest"]).read_bytes()))


def test_the_same_tar_gives_the_same_digest_and_the_same_files(tmp_path: Path) -> None:
    digests = {
        write_layout(a_tar(tmp_path / f"{name}.tar"), tmp_path / name, epoch=EPOCH, origin="a test")
        for name in ("one", "two")
    }
    assert len(digests) == 1
    files = [
        {
            str(path.relative_to(tmp_path / name)): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("one", "two")
    ]
    assert files[0] == files[1]


@pytest.mark.parametrize("change", [{"epoch": EPOCH + 1}, {"origin": "another test"}, {"content": b"other"}])
def test_another_tar_time_or_origin_gives_another_digest(
    change: dict[str, object], layout: Path, tmp_path: Path
) -> None:
    content = change.pop("content", None)
    tar = a_tar(tmp_path / "other.tar", **({"content": content} if content else {}))  # type: ignore[arg-type]
    settings = {"epoch": EPOCH, "origin": "a test"} | change
    other = write_layout(tar, tmp_path / "other", **settings)  # type: ignore[arg-type]
    assert other != layout_digest(layout)


def test_a_layout_is_what_the_specification_asks_for(layout: Path, tmp_path: Path) -> None:
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((layout / "index.json").read_bytes())
    assert index["schemaVersion"] == 2
    (entry,) = index["manifests"]
    raw = blob(layout, entry["digest"]).read_bytes()
    assert (entry["size"], entry["digest"]) == (len(raw), f"sha256:{hashlib.sha256(raw).hexdigest()}")
    inner = json.loads(raw)
    (layer,) = inner["layers"]
    assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+zstd"
    compressed = blob(layout, layer["digest"]).read_bytes()
    assert layer["size"] == len(compressed)
    plain = zstandard.ZstdDecompressor().decompress(compressed)
    assert plain == (tmp_path / "root.tar").read_bytes()
    config = json.loads(blob(layout, inner["config"]["digest"]).read_bytes())
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]
    assert config["created"] == "2026-11-21T09:15:44Z"
    assert config["history"] == [{"created": config["created"], "created_by": "a test"}]


def test_nothing_but_the_layout_is_left(layout: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layout", "root.tar"]
    assert len(list((layout / "blobs/sha256").iterdir())) == 3


def test_a_whole_layout_tells_its_digest(layout: Path) -> None:
    digest = layout_digest(layout)
    assert isinstance(digest, Digest)
    assert blob(layout, str(digest)).exists()


@pytest.mark.parametrize("part", ["manifest", "config", "layer"])
@pytest.mark.parametrize("damage", ["one bit", "cut short", "gone", "empty", "longer"])
def test_a_damaged_blob_is_detected(part: str, damage: str, layout: Path) -> None:
    inner = manifest(layout)
    digest = {
        "manifest": str(layout_digest(layout)),
        "config": inner["config"]["digest"],  # type: ignore[index]
        "layer": inner["layers"][0]["digest"],  # type: ignore[index]
    }[part]
    path = blob(layout, digest)
    raw = path.read_bytes()
    match damage:
        case "one bit":
            path.write_bytes(raw[:20] + bytes([raw[20] ^ 1]) + raw[21:])
        case "cut short":
            path.write_bytes(raw[:-1])
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case _:
            path.write_bytes(raw + b"\n")
    assert layout_digest(layout) is None


NO_INDEX = (
    "", "{}", "[]", "null", '{"manifests": []}', '{"manifests": [{}]}', '{"manifests": [{"digest": "../../x"}]}',
    '{"manifests": 3}', '{"manifests": [3]}', '{"manifests": {"a": 1}}',
)  # fmt: skip


@pytest.mark.parametrize("index", NO_INDEX)
def test_a_damaged_index_is_detected(index: str, layout: Path) -> None:
    (layout / "index.json").write_text(index)
    assert layout_digest(layout) is None


def test_a_folder_that_is_no_layout_has_no_digest(tmp_path: Path) -> None:
    assert layout_digest(tmp_path) is None
    assert layout_digest(tmp_path / "nowhere") is None


def test_a_layout_is_never_half_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_layout(tmp_path / "no.tar", tmp_path / "layout", epoch=EPOCH, origin="a test")
    assert list(tmp_path.iterdir()) == []
