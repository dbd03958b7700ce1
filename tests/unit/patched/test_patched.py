"""Sources with their patches on disk: applied in order, never in place, and proven against the lock each time."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli
import tomli_w

from builder.errors import LockError, PatchError
from builder.lockfile import Lock, LockedSource, asked
from builder.mirrors import Mirrors
from builder.patched import Applied, apply_patches, fetch_patched, patch_trees, tell
from builder.pinned import PinnedTree, fetch_source
from builder.project import tree_hash
from builder.recipe import Recipe, parse_recipe
from builder.scope import scope_of
from builder.story import Silent
from builder.workspace import Workspace

ROOT = Path(__file__).resolve().parents[3]
IMAGE = ROOT / "tests/data/images/patched"
PATCHES = ROOT / "tests/data/patches/toy"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    shutil.copytree(IMAGE, tmp_path / "images/patched")
    shutil.copytree(PATCHES, tmp_path / "patches/toy")
    return Workspace(root=tmp_path)


class Told(Silent):
    """A story that remembers."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def recipe(workspace: Workspace, change: Change | None = None) -> Recipe:
    table = tomli.loads(workspace.recipe("patched").read_text())
    if change is not None:
        change({patch["name"]: patch for patch in table["patch"]} | {"recipe": table})
    return parse_recipe(tomli_w.dumps(table), file="images/patched/recipe.toml", name="patched")


def toy(workspace: Workspace) -> Path:
    return workspace.images / "patched/toy"


def applied(workspace: Workspace, of: Recipe | None = None) -> Applied:
    return apply_patches(
        of or recipe(workspace),
        "toy",
        toy(workspace),
        workspace.root / "into",
        workspace=workspace,
        others={},
        epoch=0,
    )


def lock(workspace: Workspace, of: Recipe) -> Lock:
    """Lock the source and the patches of the image, as `make_lock` does."""
    found = fetch_source(
        of, "toy", locked=None, into=workspace.root / "x", workspace=workspace, mirrors=Mirrors(), story=Silent()
    )
    trees, patches = patch_trees(
        of, {"toy": found}, scope_of(of, None, None), place=workspace.root / "place", workspace=workspace, epoch=0,
        story=Silent(), strict=True,
    )  # fmt: skip
    return Lock(
        schema_=1, image="patched", epoch=0, asked=asked(of), source={"toy": trees["toy"].locked}, patch=patches
    )


def fetched(workspace: Workspace, of: Recipe, locked: Lock, into: str = "built") -> PinnedTree:
    return fetch_patched(
        of, "toy", lock=locked, into=workspace.root / into, workspace=workspace, mirrors=Mirrors(), story=Silent()
    )


def test_a_series_an_edit_and_an_overlay_make_one_tree_and_leave_the_source_alone(workspace: Workspace) -> None:
    before = tree_hash(toy(workspace))
    done = applied(workspace)
    text = (done.path / "toy/limits.py").read_text()
    assert "DEPTH = 2" in text
    assert "WIDTH = 16" in text
    assert (done.path / "toy/next.py").is_file()
    assert not (done.path / "toy/old.py").exists()
    assert (done.path / "toy/table.py").read_bytes() == (
        workspace.images / "patched/overlays/table.py"
    ).read_bytes()
    assert tree_hash(toy(workspace)) == before


def test_the_lock_has_every_file_with_hash_state_and_hunks(workspace: Workspace) -> None:
    series, wider, rows = applied(workspace).patches
    data = (PATCHES / "0001-Make-the-toy-deeper.patch").read_bytes()
    first = series.file[0]
    assert (first.file, first.sha256) == (
        "patches/toy/0001-Make-the-toy-deeper.patch", hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    assert [(file.state, file.hunks) for file in series.file] == [("applies", 2), ("applies", 1)]
    assert (wider.state, wider.file) == ("applies", ())
    assert (rows.state, [file.file for file in rows.file]) == ("applies", ["overlays/table.py"])


def test_the_order_of_patches_is_that_of_the_recipe(workspace: Workspace) -> None:
    def reversed_order(parts: dict[str, Any]) -> None:
        parts["wider"]["edit"] = {"file": "toy/next.py", "find": "NEXT = True", "replace": "NEXT = False"}

    assert (
        "NEXT = False" in (applied(workspace, recipe(workspace, reversed_order)).path / "toy/next.py").read_text()
    )

    def edit_first(parts: dict[str, Any]) -> None:
        reversed_order(parts)
        parts["recipe"]["patch"].insert(0, parts["recipe"]["patch"].pop(1))

    with pytest.raises(PatchError) as failure:
        applied(workspace, recipe(workspace, edit_first))
    assert "wider: target-missing" in failure.value.details


def test_all_patches_that_fail_are_named_and_nothing_is_written(workspace: Workspace) -> None:
    def broken(parts: dict[str, Any]) -> None:
        parts["wider"]["edit"]["find"] = "WIDTH = 9"
        parts["rows"]["overlay"]["replaces"] = "0" * 64

    with pytest.raises(PatchError) as failure:
        applied(workspace, recipe(workspace, broken))
    assert failure.value.message == "images/patched/recipe.toml: source.toy: 2 of 4 patches do not apply"
    assert {"wider: conflicts", "rows: conflicts"} <= set(failure.value.details)
    assert not (workspace.root / "into").exists()


def test_a_series_comes_from_another_source(workspace: Workspace, tmp_path: Path) -> None:
    def from_fork(parts: dict[str, Any]) -> None:
        parts["deeper"]["series"] |= {"source": "fork", "directory": "series"}
        commit = {"git": "https://git.example/fork", "branch": "main", "commit": "a" * 40}
        parts["recipe"]["source"]["fork"] = commit

    shutil.copytree(PATCHES, tmp_path / "fork/series")
    shutil.rmtree(workspace.root / "patches")
    done = apply_patches(
        recipe(workspace, from_fork), "toy", toy(workspace), tmp_path / "into", workspace=workspace,
        others={"fork": tmp_path / "fork"}, epoch=0,
    )  # fmt: skip
    assert done.patches[0].file[0].file == "series/0001-Make-the-toy-deeper.patch"
    assert done.tree == applied_tree(tmp_path)


def applied_tree(tmp_path: Path) -> str:
    place = tmp_path / "again"
    shutil.copytree(IMAGE, place / "images/patched")
    shutil.copytree(PATCHES, place / "patches/toy")
    return applied(Workspace(root=place)).tree


def test_a_locked_source_is_patched_again_and_proven(workspace: Workspace) -> None:
    of = recipe(workspace)
    locked = lock(workspace, of)
    first, second = fetched(workspace, of, locked, "one"), fetched(workspace, of, locked, "two")
    assert first.path != second.path
    assert tree_hash(first.path) == tree_hash(second.path) != tree_hash(toy(workspace))
    assert locked.source["toy"].patched == applied(workspace).tree


def test_what_lies_where_the_patched_tree_is_to_be_is_never_used(workspace: Workspace) -> None:
    of = recipe(workspace)
    locked = lock(workspace, of)
    left = workspace.root / "built/toy"
    left.mkdir(parents=True)
    (left / "limits.py").write_text("WIDTH = 16  # of somebody else\n")
    (left / "stale.py").write_text("")
    found = fetched(workspace, of, locked)
    assert not (found.path / "toy/stale.py").exists()
    assert "somebody" not in (found.path / "toy/limits.py").read_text()


def test_another_patched_tree_than_the_locked_one_is_refused_with_both(workspace: Workspace) -> None:
    of = recipe(workspace)
    locked = lock(workspace, of)
    other = locked.source["toy"].model_copy(update={"patched": "0" * 40})
    with pytest.raises(LockError) as failure:
        fetched(workspace, of, locked.model_copy(update={"source": {"toy": other}}))
    assert failure.value.details == (f"locked {'0' * 40}", f"found  {locked.source['toy'].patched}")


def test_a_patch_file_that_is_not_the_locked_one_is_refused_before_it_is_applied(workspace: Workspace) -> None:
    of = recipe(workspace)
    locked = lock(workspace, of)
    file = workspace.root / "patches/toy/0001-Make-the-toy-deeper.patch"
    file.write_text("no patch at all")
    with pytest.raises(LockError, match=r"recipe\.lock: patch\.deeper: its files are not the locked ones"):
        fetched(workspace, of, locked)


def test_an_unpatched_source_is_where_it_was(workspace: Workspace) -> None:
    of = recipe(workspace)
    plain = lock(workspace, of).model_copy(
        update={"source": {"toy": LockedSource(tree=tree_hash(toy(workspace)))}}
    )
    assert fetched(workspace, of, plain).path == toy(workspace)


def test_a_redundant_patch_is_a_warning_and_an_error_where_it_is_strict(workspace: Workspace) -> None:
    def again(parts: dict[str, Any]) -> None:
        parts["wider"]["edit"] = {"file": "toy/limits.py", "find": "DEPTH = 1", "replace": "DEPTH = 2"}

    of = recipe(workspace, again)
    done, story = applied(workspace, of), Told()
    assert done.patches[1].state == "redundant"
    tell(of, done, story, strict=False)
    assert story.warnings == ["patch wider: wider is redundant: the tree has its change already"]
    with pytest.raises(PatchError) as failure:
        tell(of, done, Told(), strict=True)
    assert failure.value.exit_code == 4

    def acknowledged(parts: dict[str, Any]) -> None:
        again(parts)
        parts["wider"]["acknowledge-redundant"] = "it goes with the next release"

    of = recipe(workspace, acknowledged)
    quiet = Told()
    tell(of, applied(workspace, of), quiet, strict=True)
    assert quiet.warnings == []


def test_f44_a_folder_that_a_series_was_not_made_for_is_refused(workspace: Workspace) -> None:
    of = recipe(workspace)
    (toy(workspace) / "toy/more.py").write_text("")
    with pytest.raises(PatchError, match=r"patch\.deeper\.series\.made-for: made for toy ba4de541"):
        lock(workspace, of)
