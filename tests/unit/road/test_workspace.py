"""Files are written whole or not at all, and a workspace is found from anywhere inside it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from builder.errors import RecipeError
from builder.workspace import Workspace, find_workspace, write_atomic


def test_a_file_is_written_with_the_folders_above_it(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a/b/c.txt", "Grüße\n")
    assert (tmp_path / "a/b/c.txt").read_bytes() == "Grüße\n".encode()
    assert (tmp_path / "a/b/c.txt").stat().st_mode & 0o777 == 0o644
    write_atomic(tmp_path / "a/b/c.txt", b"\x00\xff")
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"\x00\xff"
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["c.txt"]


def test_a_failure_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "recipe.lock"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_replaced_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "recipe.lock"
    (folder / "kept").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write_atomic(folder, "new")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "recipe.lock"]


def test_a_reader_sees_the_old_content_or_the_new_and_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "pin.json"
    contents = {str(number) * 200_000 for number in range(10)}
    write_atomic(path, "0" * 200_000)
    seen: set[str] = set()
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for content in sorted(contents) * 3:
        write_atomic(path, content)
    over.set()
    reader.join()
    assert seen
    assert seen <= contents


def test_a_workspace_is_the_nearest_folder_upwards_with_images(tmp_path: Path) -> None:
    (tmp_path / "images/probe/src").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    for start in (tmp_path, tmp_path / "images/probe/src", tmp_path / "other"):
        assert find_workspace(start) == Workspace(root=tmp_path)


def test_a_folder_outside_of_any_workspace_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as failure:
        find_workspace(tmp_path)
    assert failure.value.message == f"{tmp_path}: no images/ folder here or above"
    assert failure.value.hint == "change into a recipe repository, or name it with --root"


def test_paths_are_shown_relative_to_the_workspace_and_whole_outside_of_it(tmp_path: Path) -> None:
    workspace = Workspace(root=tmp_path)
    assert workspace.shown(workspace.recipe("probe")) == "images/probe/recipe.toml"
    assert workspace.shown(workspace.lock("probe")) == "images/probe/recipe.lock"
    assert workspace.shown(Path("/etc/motd")) == "/etc/motd"
    assert workspace.store.is_relative_to(workspace.state)
