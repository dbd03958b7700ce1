"""`rocm-images inspect --gfx` on folders, files and layouts, as it is called where no engine is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from builder.audit.contents import MANIFEST
from builder.audit.folder import read_folder
from builder.cli.app import app
from builder.errors import EngineError, Failure, RecipeError, SmokeError

from ..codeobjects import forge
from .images import Layout, layer


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without an engine, in a folder without recipes."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ROCM_IMAGES_MIRRORS", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "lib").mkdir(parents=True)
    (root / "hsa/gfx942").mkdir(parents=True)
    (root / "lib/libkernels.so").write_bytes(forge.program(forge.bundle("gfx1201", "gfx942")))
    (root / "hsa/gfx942/k.co").write_bytes(forge.code("gfx942"))
    (root / "lib/link.so").symlink_to("libkernels.so")
    (root / "lib/README").write_text("not a program")
    return root


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["inspect", *words])


def failure(result: Result, kind: type[Failure]) -> Failure:
    assert isinstance(result.exception, kind), result.output
    return result.exception


def test_a_folder_is_shown_as_a_table(folder: Path) -> None:
    result = call(str(folder), "--gfx")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "component  part               target   bundles  bytes",
        "unowned    hsa/               gfx942         1    256",
        "unowned    lib/libkernels.so  gfx942         1    256",
        "                              gfx1201        1    256",
        "parts: 2, 1024 bytes in files, 768 uncompressed; nothing to compare with",
    ]


def test_f75_missing_targets_are_a_failure_that_names_every_part(folder: Path) -> None:
    result = call(str(folder), "--gfx", "--want", "gfx1201,gfx1150")
    told = failure(result, SmokeError)
    assert told.exit_code == 6
    assert told.message == f"{folder}: 2 of 2 parts with GPU code lack gfx1150, gfx1201"
    assert told.details == (
        "unowned: hsa/ lacks gfx1150, gfx1201", "unowned: lib/libkernels.so lacks gfx1150",
    )  # fmt: skip
    assert result.stdout.splitlines()[1:4] == [
        "unowned    hsa/               gfx942         1    256  surplus",
        "                              gfx1150        -      -  missing",
        "                              gfx1201        -      -  missing",
    ]


def test_the_same_as_json(folder: Path) -> None:
    result = call(str(folder), "--gfx", "--want", "gfx942", "--json")
    assert result.exit_code == 0
    table = json.loads(result.stdout)
    assert (table["passed"], table["wanted"], table["unread"]) == (True, ["gfx942"], [])
    (component,) = table["components"]
    assert component["surplus"] == ["gfx1201"]
    assert [part["path"] for part in component["parts"]] == ["hsa/", "lib/libkernels.so"]


def test_one_file_is_read(folder: Path) -> None:
    assert "gfx1201" in call(str(folder / "lib/libkernels.so"), "--gfx").stdout
    assert call(str(folder / "lib/README"), "--gfx").stdout == f"{folder / 'lib/README'}: no GPU code\n"


def test_an_image_is_compared_with_what_it_says_it_was_made_for(tmp_path: Path, folder: Path) -> None:
    layout = Layout(tmp_path / "layout")
    data = layer({"lib/k.so": forge.program(forge.bundle("gfx942"))})
    layout.index(layout.image([data], {"rocm-images.gfx": "gfx1201,gfx942"}))
    told = failure(call(str(layout.folder), "--gfx"), SmokeError)
    assert told.details == ("unowned: lib/k.so lacks gfx1201",)
    assert call(str(layout.folder), "--gfx", "--want", "gfx942").exit_code == 0

    (folder / MANIFEST).parent.mkdir(parents=True)
    (folder / MANIFEST).write_text('{"gfx": ["gfx1201"]}')
    assert failure(call(str(folder), "--gfx"), SmokeError).details == ("unowned: hsa/ lacks gfx1201",)


def test_what_cannot_be_looked_into_is_told(folder: Path) -> None:
    (folder / "lib/gfx1201.kdb").write_bytes(b"SQLite format 3\0")
    (folder / "lib/broken.so").write_bytes(forge.program(forge.compressed(forge.bundle("gfx1201"), says=3)))
    lines = call(str(folder), "--gfx").stdout.splitlines()
    assert lines[-3:-1] == [
        "unreadable: lib/broken.so: zstd, version 3: it decompresses to more than the 3 bytes that it says it has",
        "not looked into: lib/gfx1201.kdb",
    ]


def test_names_from_an_image_do_not_reach_the_terminal_as_commands(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a\x1b[2J\n.so").write_bytes(forge.program(forge.bundle("gfx942")))
    result = call(str(tmp_path / "tree"), "--gfx", "--want", "gfx1201")
    assert "a?[2J?.so" in result.stdout
    assert failure(result, SmokeError).details == ("unowned: a?[2J?.so lacks gfx1201",)


def test_a_folder_holds_links_sockets_and_holes(folder: Path) -> None:
    os.mkfifo(folder / "lib/pipe.so")
    (folder / "lib/nowhere.so").symlink_to("/nonexistent")
    (folder / "round").symlink_to(folder)
    (folder / "lib/empty.so").touch()
    with (folder / "lib/sparse.so").open("wb") as file:
        file.truncate(1 << 32)
    assert sorted(read_folder(folder).code) == ["hsa/gfx942/k.co", "lib/libkernels.so"]


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (["./none", "--gfx"], RecipeError, "./none: no such file or folder"),
        (["tree", "--gfx", "--want", "gfx12,gfx942"], RecipeError, "--want: expected a target such as 'gfx1201'"),
        (["none", "--gfx"], EngineError, "no container engine answers"),
    ],
)
def test_what_cannot_be_inspected_is_refused(
    folder: Path, words: list[str], kind: type[Failure], message: str
) -> None:
    assert folder.is_dir()
    assert failure(call(*words), kind).message.startswith(message)
