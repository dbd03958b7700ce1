"""Patched trees on disk: the same whatever disk, clock and locale say, and never in the source itself."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from builder import process
from builder.errors import PatchError, RecipeError
from builder.patches.diff import parse_patch
from builder.patches.tree import LINK, PROGRAM, Entry
from builder.sources.githash import tree_id
from builder.sources.worktree import FolderTree, patched_tree

from .making import entries, git, git_diff, hunk, lay_out

EPOCH = 1_700_000_000
TREE: dict[str, bytes | Entry] = {
    "a.py": b"x = 1\n", "d/e/f": b"1\n", "d/run": Entry(mode=PROGRAM, data=b"#!/bin/sh\n"),
    "d/link": Entry(mode=LINK, data=b"e/f"), "ünïcode/é.txt": b"1\n", "\udcff": b"bytes\n",
}  # fmt: skip
AFTER: dict[str, bytes | Entry] = {
    "a.py": b"x = 2\n", "g/h/new.py": b"y = 1\n", "d/run": b"#!/bin/sh\n", "d/link": Entry(mode=LINK, data=b"run"),
    "ünïcode/é.txt": b"2\n", "\udcff": b"bytes\n",
}  # fmt: skip
MAKE = """
import sys
from pathlib import Path
from builder.patches.diff import parse_patch
from builder.sources.worktree import patched_tree
source, patch, into = map(Path, sys.argv[1:])
print(patched_tree(source, [parse_patch(patch.read_bytes(), name="p")], into, epoch=1700000000, where="w").tree)
"""


def patched(source: Path, patch: bytes, into: Path) -> str:
    return patched_tree(source, [parse_patch(patch, name="1.patch")], into, epoch=EPOCH, where="w").tree


def test_the_patched_tree_is_the_one_that_git_has_and_the_source_is_untouched(tmp_path: Path) -> None:
    patch = git_diff(tmp_path, TREE, AFTER)
    source = lay_out(tmp_path / "source", TREE)
    before = snapshot(source)
    tree = patched(source, patch, tmp_path / "into")
    wanted = lay_out(tmp_path / "wanted", AFTER)
    assert entries(tmp_path / "into") == entries(wanted)
    git(wanted, "init", "--quiet")
    git(wanted, "add", "--all")
    assert tree == git(wanted, "write-tree").strip() == tree_id(tmp_path / "into")
    assert snapshot(source) == before


def test_dates_modes_and_empty_folders_do_not_matter(tmp_path: Path) -> None:
    patch = git_diff(tmp_path, TREE, AFTER)
    source = lay_out(tmp_path / "source", TREE)
    (source / "empty/inner").mkdir(parents=True)
    (source / "d").chmod(0o700)
    (source / "a.py").chmod(0o600)
    old = os.umask(0o077)
    try:
        tree = patched(source, patch, tmp_path / "into")
    finally:
        os.umask(old)
    assert tree == patched(lay_out(tmp_path / "again", TREE), patch, tmp_path / "into2")
    seen = {
        str(p.relative_to(tmp_path / "into")): (p.lstat().st_mode & 0o777, p.lstat().st_mtime)
        for p in [tmp_path / "into", *(tmp_path / "into").rglob("*")]
        if not p.is_symlink()
    }
    assert {date for _, date in seen.values()} == {EPOCH}
    assert (tmp_path / "into/d/link").lstat().st_mtime == EPOCH
    assert {path for path, (mode, _) in seen.items() if mode == 0o755} == {".", "d", "g", "g/h", "ünïcode"}
    assert {mode for mode, _ in seen.values()} == {0o755, 0o644}


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX", "en_US.ISO-8859-1", "tr_TR.UTF-8"])
def test_locale_and_order_on_disk_do_not_matter(tmp_path: Path, locale: str) -> None:
    patch = tmp_path / "p"
    patch.write_bytes(git_diff(tmp_path, TREE, AFTER))
    wanted = patched(lay_out(tmp_path / "source", TREE), patch.read_bytes(), tmp_path / "into")
    names = list(TREE)
    random.Random(locale).shuffle(names)
    shuffled = lay_out(tmp_path / "shuffled", {name: TREE[name] for name in names})
    for extra in ({}, {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}):
        env = {"LC_ALL": locale, "LANG": locale, "PYTHONHASHSEED": str(len(extra) + 1), **extra}
        done = process.run([sys.executable, "-c", MAKE, shuffled, patch, tmp_path / "there"], env=env)
        assert done.stdout.strip() == wanted, done.stderr
        assert entries(tmp_path / "there") == entries(tmp_path / "into")


def test_nothing_of_git_reaches_a_patched_tree(tmp_path: Path) -> None:
    source = lay_out(tmp_path / "source", {**TREE, ".git/config": b"", "d/.git": b"gitdir: ../..\n"})
    tree = patched(source, hunk("a.py", "-x = 1", "+x = 2").encode(), tmp_path / "into")
    assert not [path for path in entries(tmp_path / "into") if ".git" in path]
    assert tree == patched(
        lay_out(tmp_path / "clean", TREE), hunk("a.py", "-x = 1", "+x = 2").encode(), tmp_path / "2"
    )


def test_where_a_patch_does_not_apply_nothing_is_written(tmp_path: Path) -> None:
    source = lay_out(tmp_path / "source", TREE)
    into = lay_out(tmp_path / "into", {"old": b"1\n"})
    with pytest.raises(PatchError) as raised:
        patched(source, hunk("a.py", "-x = 3", "+x = 2").encode(), into)
    assert raised.value.exit_code == 4
    assert raised.value.message == "w: 1 patch does not apply"
    assert entries(into) == {"old": Entry(mode=0o100644, data=b"1\n")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", "source"]


def test_a_link_that_leads_out_of_the_tree_is_not_followed(tmp_path: Path) -> None:
    outside = lay_out(tmp_path / "outside", {"x": b"secret\n"})
    source = lay_out(tmp_path / "source", {**TREE, "lib": Entry(mode=LINK, data=os.fsencode(outside))})
    with pytest.raises(PatchError) as raised:
        patched(source, hunk("lib/x", "-secret", "+changed").encode(), tmp_path / "into")
    assert raised.value.details == (
        "1.patch: conflicts",
        f"  lib/x: its path goes through the link 'lib', which leads to '{outside}', outside the tree",
    )
    assert entries(outside) == {"x": Entry(mode=0o100644, data=b"secret\n")}


def test_what_is_neither_file_folder_nor_link_is_no_source(tmp_path: Path) -> None:
    source = lay_out(tmp_path / "source", TREE)
    os.mkfifo(source / "pipe")
    with pytest.raises(RecipeError, match="pipe: expected a file, a folder or a link in a source"):
        patched(source, hunk("a.py", "-x = 1", "+x = 2").encode(), tmp_path / "into")


def test_nothing_is_read_through_a_link(tmp_path: Path) -> None:
    outside = lay_out(tmp_path / "outside", {"d/x": b"secret\n"})
    link = Entry(mode=LINK, data=os.fsencode(outside))
    tree = FolderTree(lay_out(tmp_path / "source", {"lib": link, "real/x": b"1\n"}))
    assert [tree.read(path) for path in ("lib/d/x", "lib/d")] == [None, None]
    assert [tree.kind(path) for path in ("lib", "lib/d", "lib/d/x", "real/x")] == ["link", None, None, "file"]
    assert tree.read("lib") == link


def test_a_folder_is_read_as_a_tree(tmp_path: Path) -> None:
    tree = FolderTree(lay_out(tmp_path / "source", TREE))
    assert [tree.kind(path) for path in ("", "d", "d/link", "d/run", "gone", "a.py/x")] == [
        "folder", "folder", "link", "file", None, None,
    ]  # fmt: skip
    assert tree.read("d") is None
    assert tree.read("a.py/x") is None
    assert tree.read("d/run") == TREE["d/run"]
    assert tree.read("\udcff") == Entry(mode=0o100644, data=b"bytes\n")


def snapshot(folder: Path) -> dict[str, tuple[Entry, float, int]]:
    return {
        path: (entry, (folder / path).lstat().st_mtime, (folder / path).lstat().st_mode)
        for path, entry in entries(folder).items()
    }
