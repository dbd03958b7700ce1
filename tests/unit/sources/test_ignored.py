"""What a source leaves out of what is built from it: by pattern, by hash, and on disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from builder.errors import LockError, RecipeError
from builder.ignored import ignoring
from builder.lockfile import LockedSource
from builder.patched import leave_out, with_built
from builder.pinned import PinnedTree
from builder.recipe import Recipe, parse_recipe
from builder.sources.githash import tree_id

RECIPE = """
schema = 1
name = "probe"
description = "Of a folder"
gfx = ["gfx1201"]
python = "3.13"
base.build.debian.suite = "trixie"
base.runtime.debian.suite = "trixie"
source.kernels.path = "kernels"
"""


def recipe(*ignored: str) -> Recipe:
    return parse_recipe(f"{RECIPE}source.kernels.ignore = {list(ignored)}\n", file="recipe.toml")


def tree(folder: Path, *files: str) -> Path:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


@pytest.mark.parametrize(
    ("pattern", "left_out", "stays"),
    [
        ("docs", ("docs", "docs/a.md", "docs/a/b.md"), ("docs.md", "python/docs/a.md", "adocs/b")),
        ("*.md", ("README.md", ".md"), ("python/README.md", "README.mdx")),
        ("**/*.md", ("README.md", "a/b/README.md"), ("README.mdx",)),
        ("a/**/c", ("a/c", "a/b/c", "a/b/b/c/d"), ("c", "b/a/c", "a/bc")),
        ("a/**", ("a/b", "a/b/c"), ("a", "ab/c")),
        ("te*ts/*/data", ("tests/unit/data/x",), ("tests/data/x", "tests/a/b/data")),
        ("a+b(c)", ("a+b(c)/d",), ("aab(c)/d",)),
        ("a.b", ("a.b",), ("axb",)),
    ],
)
def test_a_pattern_names_a_path_from_the_root_and_all_below(
    pattern: str, left_out: tuple[str, ...], stays: tuple[str, ...]
) -> None:
    ignored = ignoring([pattern])
    assert [path for path in left_out if not ignored(path)] == []
    assert [path for path in stays if ignored(path)] == []


def test_nothing_is_left_out_without_patterns() -> None:
    assert not any(map(ignoring([]), ("", "a", "a/b")))


def test_the_id_of_what_is_left_is_that_of_a_tree_without_the_rest(tmp_path: Path) -> None:
    whole = tree(
        tmp_path / "whole", "a.py", "docs/a.md", "python/README.md", "python/docs/b.md", "tests/only/data"
    )
    rest = tree(tmp_path / "rest", "a.py", "python/docs/b.md")
    found = tree_id(whole, left_out=ignoring(["docs", "python/*.md", "tests/**"]))
    assert found == tree_id(rest)
    subprocess.run(["git", "init", "--quiet", str(rest)], check=True)
    git = ["git", "-C", str(rest)]
    subprocess.run([*git, "add", "."], check=True)
    said = subprocess.run([*git, "write-tree"], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == found


def test_what_is_locked_is_what_a_build_gets(tmp_path: Path) -> None:
    of = recipe("docs", "*.md")
    folder = tree(tmp_path / "tree", "README.md", "a.py", "docs/deep/a.md", "python/README.md")
    (folder / "docs/link").symlink_to("../a.py")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("of git")
    made = with_built(of, {"kernels": PinnedTree(path=folder, locked=LockedSource(tree="a" * 40))})
    locked = made["kernels"].locked
    (folder / ".git/config").unlink()
    (folder / ".git").rmdir()
    leave_out(of, "kernels", folder, locked)
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")) == [
        "a.py", "python", "python/README.md",
    ]  # fmt: skip
    assert tree_id(folder) == locked.built
    assert locked.content == {"built": locked.built}


def test_another_tree_than_the_locked_one_is_not_built(tmp_path: Path) -> None:
    of = recipe("docs")
    folder = tree(tmp_path / "tree", "a.py", "docs/a.md")
    with pytest.raises(LockError) as caught:
        leave_out(of, "kernels", folder, LockedSource(tree="a" * 40, built="b" * 40))
    assert "source.kernels" in caught.value.message
    assert caught.value.details[0] == f"locked {'b' * 40}"


def test_a_recipe_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    folder = tree(tmp_path / "tree", "docs/a.md")
    trees = {"kernels": PinnedTree(path=folder, locked=LockedSource(tree="a" * 40))}
    with pytest.raises(RecipeError, match=r"source\.kernels\.ignore: leaves nothing of the tree"):
        with_built(recipe("docs"), trees)


def test_a_source_that_ignores_nothing_is_locked_and_laid_out_as_it_is(tmp_path: Path) -> None:
    of = parse_recipe(RECIPE, file="recipe.toml")
    folder = tree(tmp_path / "tree", "docs/a.md")
    (folder / "empty").mkdir()
    trees = {"kernels": PinnedTree(path=folder, locked=LockedSource(tree="a" * 40))}
    assert with_built(of, trees) == trees
    leave_out(of, "kernels", folder, trees["kernels"].locked)
    assert (folder / "docs/a.md").exists()
    assert (folder / "empty").exists()
