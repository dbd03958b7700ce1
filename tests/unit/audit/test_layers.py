"""Layers on one another: what is on top wins, and what it takes away is not there."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from builder.audit.contents import Contents
from builder.audit.layers import BROKEN, buffered, read_layer, stacked
from builder.audit.oci_images import read_archive, read_layout
from builder.errors import RecipeError
from builder.reference import Digest
from builder.story import Silent

from ..codeobjects import forge
from .images import LINK, Layout, archive, layer

OLD, NEW = forge.program(forge.bundle("gfx942")), forge.program(forge.bundle("gfx1201"))


def pile(*layers: dict[str, bytes | str | None]) -> Contents:
    return stacked([read_layer(buffered([layer(each)])) for each in layers], {})


def targets(contents: Contents) -> dict[str, list[str]]:
    return {
        path: [each.target for bundle in code.bundles for each in bundle.objects]
        for path, code in contents.code.items()
    }


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_the_files_with_gpu_code_of_a_layer_are_found(compression: str | None) -> None:
    files = {
        "./usr/lib/a.so": NEW,
        "/usr/lib/b.so": OLD,
        "etc/passwd": b"root:x:0:0::/:/bin/sh\n",
        "usr/lib/c.so": b"",
    }
    read = read_layer(buffered([layer(files, compression=compression)]))
    assert targets(stacked([read], {})) == {"usr/lib/a.so": ["gfx1201"], "usr/lib/b.so": ["gfx942"]}
    assert read.files == {"usr/lib/a.so", "usr/lib/b.so", "usr/lib/c.so", "etc/passwd"}


def test_a_file_on_top_replaces_the_one_below() -> None:
    contents = pile({"lib/a.so": OLD, "lib/b.so": OLD}, {"lib/a.so": NEW})
    assert targets(contents) == {"lib/a.so": ["gfx1201"], "lib/b.so": ["gfx942"]}
    assert contents.layer_of == {"lib/a.so": 1, "lib/b.so": 0}
    assert targets(pile({"lib/a.so": OLD}, {"lib/a.so": b"no code any more"})) == {}


@pytest.mark.parametrize(
    "above",
    [
        {"lib/.wh.a.so": b""},
        {".wh.lib": b""},
        {"lib/.wh..wh..opq": b""},
        {".wh..wh..opq": b""},
        {"lib": b"a file where a folder was"},
        {"lib": "usr/lib"},
        {"lib/a.so": "other.so"},
        {"lib/a.so": None},
    ],
)
def test_what_a_layer_takes_away_is_not_there(above: dict[str, bytes | str | None]) -> None:
    assert targets(pile({"lib/a.so": OLD}, above)) == {}
    assert targets(pile({"lib/a.so": OLD}, above, {"lib/a.so": NEW})) == {"lib/a.so": ["gfx1201"]}


def test_an_emptied_folder_keeps_what_its_own_layer_puts_there() -> None:
    contents = pile({"lib/a.so": OLD}, {"lib/b.so": NEW, "lib/.wh..wh..opq": b""})
    assert targets(contents) == {"lib/b.so": ["gfx1201"]}


def test_a_whiteout_reaches_no_further_than_its_name() -> None:
    contents = pile({"lib/a.so": OLD, "lib/a.so.1": OLD, "liba/x.so": OLD}, {"lib/.wh.a.so": b"", ".wh.li": b""})
    assert targets(contents) == {"lib/a.so.1": ["gfx942"], "liba/x.so": ["gfx942"]}


def test_a_hard_link_is_the_file_and_a_symbolic_one_is_not() -> None:
    contents = pile({"lib/a.so": NEW, "lib/b.so": f"{LINK}lib/a.so", "lib/c.so": "a.so"})
    assert targets(contents) == {"lib/a.so": ["gfx1201"], "lib/b.so": ["gfx1201"]}


def test_a_name_does_not_lead_out_of_the_image() -> None:
    assert targets(pile({"../../etc/a.so": NEW})) == {"etc/a.so": ["gfx1201"]}


def test_a_large_file_passes_through_a_temporary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builder.audit.contents._IN_MEMORY", 1000)
    assert targets(pile({"lib/a.so": NEW})) == {"lib/a.so": ["gfx1201"]}


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
@pytest.mark.parametrize("kept", [0.2, 0.4, 0.6])
def test_a_layer_that_is_cut_off_is_refused(compression: str | None, kept: float) -> None:
    data = layer({"lib/a.so": NEW, "lib/b.so": OLD}, compression=compression)
    with pytest.raises(BROKEN):
        read_layer(buffered([data[: int(len(data) * kept)]]))


@pytest.mark.parametrize("manifest_first", [True, False])
@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_an_archive_of_docker_save_is_read_in_any_order(*, manifest_first: bool, compression: str | None) -> None:
    layers = [
        layer({"lib/a.so": OLD, "lib/b.so": OLD}, compression=compression),
        layer({}, compression=compression),
        layer({"lib/.wh.a.so": b""}, compression=compression),
    ]
    data = archive(layers, {"rocm-images.gfx": "gfx942"}, manifest_first=manifest_first)
    pieces = [data[at : at + 700] for at in range(0, len(data), 700)]
    contents = read_archive(pieces, name="it")
    assert targets(contents) == {"lib/b.so": ["gfx942"]}
    assert (contents.labels, contents.layers) == ({"rocm-images.gfx": "gfx942"}, 3)


def test_an_archive_without_one_of_its_layers_is_refused() -> None:
    data = archive([layer({"lib/a.so": OLD})]).replace(b"manifest.json", b"manifest.jsom")
    with pytest.raises(RecipeError, match=r"it: its manifest cannot be read: KeyError: 'manifest.json'"):
        read_archive([data], name="it")
    with pytest.raises(RecipeError, match="it: is no complete image archive: "):
        read_archive([data[:3000]], name="it")


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_a_layout_is_read(tmp_path: Path, compression: str | None) -> None:
    layout = Layout(tmp_path / "it")
    layers = [layer({"lib/a.so": OLD}, compression=compression), layer({"lib/b.so": NEW}, compression=compression)]
    contents = read_layout(layout.index(layout.image(layers, {"a": "b"})), None, story=Silent())
    assert targets(contents) == {"lib/a.so": ["gfx942"], "lib/b.so": ["gfx1201"]}
    assert contents.labels == {"a": "b"}


def test_of_several_images_in_a_layout_the_one_for_this_platform_is_read(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "it")
    here, there = layout.image([layer({"a.so": NEW})]), layout.image([layer({"a.so": OLD})])
    proof = layout.image([])
    inner = {"manifests": [
        here | {"platform": {"architecture": "amd64"}}, there | {"platform": {"architecture": "arm64"}},
        proof | {"platform": {"architecture": "unknown"}},
    ]}  # fmt: skip
    folder = layout.index(layout.blob(str(inner).replace("'", '"').encode()))
    assert targets(read_layout(folder, None, story=Silent())) == {"a.so": ["gfx1201"]}

    layout.index(here, there)
    with pytest.raises(RecipeError, match="holds 2 images for linux/amd64, expected one") as refused:
        read_layout(folder, None, story=Silent())
    assert refused.value.hint == f"name one: {folder}@{here['digest']}"
    assert targets(read_layout(folder, Digest(there["digest"]), story=Silent())) == {"a.so": ["gfx942"]}


def test_a_layout_with_other_bytes_than_its_digests_say_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "it")
    data = layer({"a.so": NEW})
    folder = layout.index(layout.image([data]))
    blob = folder / "blobs/sha256" / layout.blob(data)["digest"].removeprefix("sha256:")
    blob.write_bytes(layer({"a.so": OLD}))
    with pytest.raises(RecipeError, match="has other bytes than its digest says"):
        read_layout(folder, None, story=Silent())
    blob.unlink()
    with pytest.raises(RecipeError, match="cannot be read: no such file"):
        read_layout(folder, None, story=Silent())


@pytest.mark.parametrize(
    "index", ["", "[]", '{"manifests": []}', '{"manifests": [{"digest": "sha256:00"}]}', "{}"]
)
def test_a_layout_whose_index_says_nothing_is_refused(tmp_path: Path, index: str) -> None:
    layout = Layout(tmp_path / "it")
    (layout.folder / "index.json").write_text(index)
    with pytest.raises(RecipeError, match="it: "):
        read_layout(layout.folder, None, story=Silent())


def test_a_stream_of_pieces_is_a_file() -> None:
    stream = buffered(iter([b"ab", b"", b"cdef", b"g"]))
    assert (stream.peek(1)[:1], stream.read(3), stream.read()) == (b"a", b"abc", b"defg")
    assert isinstance(stream, io.BufferedReader)
