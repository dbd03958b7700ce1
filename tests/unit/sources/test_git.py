"""Pinned trees from repositories made on the spot: commits, tags and branches that have to agree."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from builder.errors import LockError, RecipeError
from builder.sources.git import check_pin, current_commit
from builder.sources.githash import tree_id

from .repositories import ENV, QUICK, URL, content, fetch, trees, upstream


def test_a_commit_comes_out_as_it_was_committed(engine, mirrors, cache):
    (engine.work / "run").write_text("#!/bin/sh\n")
    (engine.work / "run").chmod(0o755)
    (engine.work / "link").symlink_to("./src//a.py")
    commit = engine.commit("second", src__a_py="x = 1\n")
    tree = fetch(commit, mirrors, cache)
    assert sorted(p.name for p in tree.path.iterdir()) == ["README", "link", "run", "src"]
    assert os.readlink(tree.path / "link") == "./src//a.py"  # noqa: PTH115 - to the byte
    assert (tree.path / "src/a_py").read_text() == "x = 1\n"
    assert tree.path.joinpath("run").stat().st_mode & 0o777 == 0o755
    assert tree.path.joinpath("README").stat().st_mode & 0o777 == 0o644
    assert {p.lstat().st_mtime for p in (tree.path, *tree.path.rglob("*"))} == {1700000000}
    assert (tree.commit, tree.date, tree.submodules) == (commit, 1700000000, ())
    assert tree.tree == engine.git("rev-parse", f"{commit}^{{tree}}") == tree_id(tree.path)


def test_the_umask_of_the_user_does_not_show(engine, mirrors, cache):
    commit = engine.commit("second", src__a="a")
    before = os.umask(0o077)
    try:
        tree = fetch(commit, mirrors, cache)
    finally:
        os.umask(before)
    assert {oct(p.stat().st_mode & 0o777) for p in tree.path.rglob("*") if p.is_dir()} == {"0o755"}
    assert {oct(p.stat().st_mode & 0o777) for p in tree.path.rglob("*") if p.is_file()} == {"0o644"}


def test_f38_attributes_and_large_file_pointers_change_no_byte(engine, mirrors, cache):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 5\n"
    files = {
        ".gitattributes": "*.bat text eol=crlf\n*.bin filter=lfs diff=lfs merge=lfs -text\n*.c ident\n"
        "secret export-ignore\nversion export-subst\nlatin working-tree-encoding=UTF-16\n",
        "a.bin": pointer,
        "a.c": "$Id$\n",
        "secret": "shipped\n",
        "version": "$Format:%H$\n",
        "latin": "text\n",
        "run.bat": "echo\r\nmixed\n",
    }
    for name, data in files.items():  # past git's own filters, as a server accepts them
        blob = engine.git("hash-object", "-w", "--stdin", text=data.encode())
        engine.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    engine.git("commit", "--quiet", "-m", "files that their attributes would rewrite")
    engine.push("HEAD")
    commit = engine.git("rev-parse", "HEAD")
    got = content(fetch(commit, mirrors, cache))
    assert got.pop("README") == b"engine\n"
    assert got == {name: data.encode() for name, data in files.items()}


def test_a_second_fetch_of_a_plain_commit_needs_no_network(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    first = fetch(commit, mirrors, cache)
    shutil.rmtree(engine.bare)
    assert fetch(commit, mirrors, cache) == first


def test_a_tree_that_was_changed_in_the_cache_is_written_again(engine, mirrors, cache):
    commit = engine.commit("second", a="1", b__c="2")
    tree = fetch(commit, mirrors, cache)
    for spoil in (
        lambda: (tree.path / "a").write_text("changed"),
        lambda: (tree.path / "added").write_text(""),
        lambda: (tree.path / "b/c").unlink(),
        lambda: (tree.path / "a").chmod(0o755),
        lambda: shutil.rmtree(tree.path),
    ):
        spoil()
        assert content(fetch(commit, mirrors, cache)) == {"README": b"engine\n", "a": b"1", "b/c": b"2"}
        assert tree_id(tree.path) == tree.tree


def test_a_damaged_copy_is_fetched_again(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    tree = fetch(commit, mirrors, cache)
    shutil.rmtree(tree.path)
    (copy,) = (cache / "git").glob("*.git")
    for pack in (copy / "objects/pack").glob("*.pack"):
        pack.chmod(0o644)
        data = bytearray(pack.read_bytes())
        data[20:60] = bytes(40)
        pack.write_bytes(data)
    assert content(fetch(commit, mirrors, cache))["a"] == b"1"


def test_an_object_replaced_in_the_copy_does_not_pass_for_the_commit(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    tree = fetch(commit, mirrors, cache)
    shutil.rmtree(tree.path)
    (copy,) = (cache / "git").glob("*.git")
    other = upstream(cache.parent, "other")
    evil = other.commit("evil", a="evil")
    # every object of the other repository under its own name, and its commit under the pinned commit's name
    shutil.rmtree(copy / "objects/pack")
    shutil.copytree(other.work / ".git/objects", copy / "objects", dirs_exist_ok=True)
    place = copy / "objects" / commit[:2] / commit[2:]
    place.parent.mkdir(exist_ok=True)
    shutil.copyfile(other.work / ".git/objects" / evil[:2] / evil[2:], place)
    assert content(fetch(commit, mirrors, cache)) == {"README": b"engine\n", "a": b"1"}


@pytest.mark.parametrize("annotated", [False, True])
def test_a_tag_that_points_at_the_commit_proves_it(engine, mirrors, cache, annotated):
    commit = engine.commit("second", a="1")
    engine.git("tag", *(["-a", "-m", "release"] if annotated else []), "v1.0")
    engine.push("v1.0")
    assert fetch(commit, mirrors, cache, tag="v1.0").commit == commit
    assert current_commit(URL, tag="v1.0", mirrors=mirrors, cache=cache, patience=QUICK) == commit


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize("fetched_before", [False, True])
def test_f35_f49_a_moved_tag_is_an_error_with_both_commits(engine, mirrors, cache, annotated, fetched_before):
    how = ["-a", "-m", "release"] if annotated else []
    pinned = engine.commit("second", a="1")
    engine.git("tag", *how, "v1.0")
    engine.push("v1.0")
    if fetched_before:
        fetch(pinned, mirrors, cache, tag="v1.0")
    before = trees(cache)
    moved = engine.commit("third", a="2")
    engine.git("tag", "--force", *how, "v1.0")
    engine.push("v1.0")
    with pytest.raises(LockError) as refused:
        fetch(pinned, mirrors, cache, tag="v1.0")
    assert refused.value.message == f"{URL}: tag 'v1.0' has moved: pinned is {pinned}, it is now at {moved}"
    assert refused.value.hint == ("find out why before you follow it; if the pin should follow: rocm-images lock")
    assert trees(cache) == before
    with pytest.raises(LockError, match="has moved"):
        check_pin(URL, pinned, tag="v1.0", mirrors=mirrors, cache=cache, patience=QUICK)


def test_the_object_of_an_annotated_tag_is_not_its_commit(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    engine.git("tag", "-a", "-m", "release", "v1.0")
    engine.push("v1.0")
    object_ = engine.git("rev-parse", "v1.0")
    with pytest.raises(LockError) as refused:
        fetch(object_, mirrors, cache, tag="v1.0")
    assert refused.value.message == f"{URL}: {object_} is the object of tag 'v1.0', not its commit"
    assert refused.value.hint == f"use commit = '{commit}'"
    with pytest.raises(LockError, match=f"{object_} is a tag, not a commit"):
        fetch(object_, mirrors, cache)
    assert trees(cache) == []


def test_a_tag_that_is_gone_is_named(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    engine.git("branch", "v1.0")  # a branch of that name is no substitute
    engine.push("v1.0")
    with pytest.raises(LockError) as refused:
        fetch(commit, mirrors, cache, tag="v1.0")
    assert refused.value.message == f"{URL}: there is no tag 'v1.0'"
    assert trees(cache) == []


def test_a_branch_that_contains_the_commit_proves_it(engine, mirrors, cache):
    old = engine.commit("second", a="1")
    tip = engine.commit("third", a="2")
    assert content(fetch(old, mirrors, cache, branch="main"))["a"] == b"1"
    assert content(fetch(tip, mirrors, cache, branch="main"))["a"] == b"2"
    assert current_commit(URL, branch="main", mirrors=mirrors, cache=cache, patience=QUICK) == tip


def test_a_commit_that_is_not_on_the_branch_is_an_error(engine, mirrors, cache):
    engine.git("checkout", "-q", "-b", "feature")
    elsewhere = engine.commit("feature", a="1")
    engine.git("checkout", "-q", "main")
    tip = engine.commit("second", b="1")
    with pytest.raises(LockError) as refused:
        fetch(elsewhere, mirrors, cache, branch="main")
    assert refused.value.message == f"{URL}: commit {elsewhere} is not on branch 'main', which is at {tip}"
    assert trees(cache) == []
    with pytest.raises(LockError, match="is not on branch 'main'"):
        check_pin(URL, elsewhere, branch="main", mirrors=mirrors, cache=cache, patience=QUICK)
    assert fetch(elsewhere, mirrors, cache, branch="feature").commit == elsewhere


def test_a_branch_that_was_rewritten_no_longer_proves_the_commit(engine, mirrors, cache):
    old = engine.commit("second", a="1")
    fetch(old, mirrors, cache, branch="main")
    engine.git("reset", "-q", "--hard", "HEAD~1")
    engine.commit("another second", a="2")
    with pytest.raises(LockError, match=f"commit {old} is not on branch 'main'"):
        fetch(old, mirrors, cache, branch="main")


def test_f63_a_branch_that_is_gone_is_named_and_no_other_is_taken(engine, mirrors, cache):
    commit = engine.commit("second", a="1")  # on the default branch
    with pytest.raises(LockError) as refused:
        fetch(commit, mirrors, cache, branch="rdna4")
    assert refused.value.message == f"{URL}: there is no branch 'rdna4'"
    assert trees(cache) == []


def test_a_branch_named_like_a_folder_of_an_earlier_one_is_no_problem(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    engine.commit("third", a="2")
    engine.push("HEAD:refs/heads/release")
    fetch(commit, mirrors, cache, branch="release")
    engine.push(":refs/heads/release", "HEAD:refs/heads/release/1.0")
    assert fetch(commit, mirrors, cache, branch="release/1.0").commit == commit


def test_a_commit_that_does_not_exist_is_named(engine, mirrors, cache):
    with pytest.raises(LockError) as refused:
        fetch("0123456789" * 4, mirrors, cache)
    assert refused.value.message == f"{URL}: there is no commit {'0123456789' * 4}"
    assert trees(cache) == []
    with pytest.raises(LockError, match=r"there is no commit|not our ref"):
        check_pin(URL, "0123456789" * 4, mirrors=mirrors, cache=cache, patience=QUICK)


def test_whether_a_plain_commit_is_still_there_is_asked_of_the_remote_not_of_the_cache(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    fetch(commit, mirrors, cache)
    check_pin(URL, commit, mirrors=mirrors, cache=cache, patience=QUICK)
    shutil.rmtree(engine.bare)
    with pytest.raises(LockError, match="there is no such repository"):
        check_pin(URL, commit, mirrors=mirrors, cache=cache, patience=QUICK)
    assert list(cache.glob(".probe-*")) == []


@pytest.mark.parametrize("wrong", ["main", "0" * 39, "0" * 41, "F" * 40, "0" * 40 + "\n", "v1.0"])
def test_only_a_full_commit_is_a_pin(mirrors, cache, wrong):
    with pytest.raises(RecipeError, match="expected a commit of 40 hex digits, got"):
        fetch(wrong, mirrors, cache)


@pytest.mark.parametrize("wrong", ["--upload-pack=x", "a b", "a..b", "x^{}", "v*", "", "a.lock", "a/", "a\n"])
def test_only_a_name_of_a_ref_is_asked_for(mirrors, cache, wrong):
    with pytest.raises(RecipeError, match="expected the name of a tag, got"):
        fetch("0" * 40, mirrors, cache, tag=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        "ext::sh -c touch% /tmp/x",
        "file:///srv/x",
        "/srv/x",
        "git@github.com:a/b",
        "--upload-pack=x",
        "https://-x/y",
    ],
)
def test_only_addresses_of_remotes_are_fetched_from(mirrors, cache, wrong):
    with pytest.raises(RecipeError, match="expected the address of a git repository"):
        fetch("0" * 40, mirrors, cache, url=wrong)


def test_a_repository_that_is_not_there_is_named(mirrors, cache, tmp_path):
    with pytest.raises(LockError) as refused:
        fetch("0" * 40, mirrors, cache, url="https://git.example/org/absent", tag="v1")
    where = (tmp_path / "srv/org/absent").as_uri()
    assert refused.value.message == f"https://git.example/org/absent: there is no such repository at {where}"
    assert trees(cache) == []


def test_the_configuration_of_the_user_and_of_the_folder_around_has_no_say(engine, mirrors, tmp_path, monkeypatch):
    commit = engine.commit("second", a="1")
    workspace = tmp_path / "workspace"
    subprocess.run(["git", "init", "--quiet", str(workspace)], env=ENV, check=True)
    breaking = (
        '[url "https://stolen.invalid/"]\n\tinsteadOf = file://\n[core]\n\tautocrlf = true\n\thooksPath = /evil\n'
    )
    with (workspace / ".git/config").open("a") as config:
        config.write(breaking)
    home = tmp_path / "someone"
    home.mkdir()
    (home / ".gitconfig").write_text(breaking)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    tree = fetch(commit, mirrors, workspace / ".rocm-images" / "sources", branch="main")
    assert content(tree) == {"README": b"engine\n", "a": b"1"}


def test_a_relative_cache_is_as_good_as_an_absolute_one(engine, mirrors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commit = engine.commit("second", a="1")
    old = engine.git("rev-parse", "HEAD~1")
    assert content(fetch(commit, mirrors, Path("here")))["a"] == b"1"
    assert fetch(old, mirrors, Path("here"), branch="main").path.is_absolute()


def test_an_interrupt_during_the_export_leaves_no_tree(engine, mirrors, cache, monkeypatch):
    commit = engine.commit("second", a="1")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.utime", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch(commit, mirrors, cache)
    assert trees(cache) == []
    assert content(fetch(commit, mirrors, cache))["a"] == b"1"


def test_the_id_of_a_folder_is_the_one_git_computes(engine, tmp_path):
    for name in ("a", "a.b", "a0", "a-b", "ü", "z"):
        (engine.work / name).mkdir()
        (engine.work / name / "f").write_text(name)
    (engine.work / "a-file").write_text("")
    (engine.work / "empty").mkdir()
    (engine.work / "dangling").symlink_to("nowhere/../x/")
    engine.commit("names")
    shutil.copytree(engine.work, tmp_path / "plain", symlinks=True, ignore=shutil.ignore_patterns(".git"))
    assert tree_id(tmp_path / "plain") == engine.git("rev-parse", "HEAD^{tree}")
    (tmp_path / "nothing").mkdir()
    assert tree_id(tmp_path / "nothing") is None
