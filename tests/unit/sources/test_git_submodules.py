"""Submodules of pinned trees: at their commits, nested, gone, and never from this machine."""

from __future__ import annotations

import shutil

import pytest

from builder.errors import LockError, RecipeError

from .repositories import URL, Upstream, content, fetch, trees, upstream


def _inside(engine: Upstream, inner: Upstream, url: str, path: str = "third/inner") -> str:
    commit = inner.git("rev-parse", "HEAD")
    engine.git("config", "-f", ".gitmodules", "submodule.inner.path", path)
    engine.git("config", "-f", ".gitmodules", "submodule.inner.url", url)
    engine.git("add", ".gitmodules")
    engine.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    engine.git("commit", "--quiet", "-m", "nest")
    engine.push("HEAD")
    return engine.git("rev-parse", "HEAD")


@pytest.mark.parametrize("url", ["https://git.example/org/inner.git", "../inner.git"])
def test_submodules_are_fetched_at_their_commits_and_reported(tmp_path, engine, mirrors, cache, url):
    inner = upstream(tmp_path, "inner")
    inner_commit = inner.commit("inner", lib__a="inner file")
    commit = _inside(engine, inner, url)
    inner.commit("a newer one", lib__a="newer")
    tree = fetch(commit, mirrors, cache)
    assert content(tree)["third/inner/lib/a"] == b"inner file"
    assert [(m.path, m.url, m.commit) for m in tree.submodules] == [
        ("third/inner", "https://git.example/org/inner.git", inner_commit)
    ]
    assert tree.tree == engine.git("rev-parse", f"{commit}^{{tree}}")
    (tree.path / "third/inner/lib/a").write_text("changed in the cache")
    assert content(fetch(commit, mirrors, cache))["third/inner/lib/a"] == b"inner file"
    alone = fetch(commit, mirrors, cache, submodules=False)
    assert list((alone.path / "third/inner").iterdir()) == []
    assert alone.submodules == ()


def test_submodules_nest(tmp_path, engine, mirrors, cache):
    innermost = upstream(tmp_path, "innermost")
    innermost.commit("innermost", deep="deep file")
    inner = upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    _inside(inner, innermost, "../innermost.git", "deep")
    tree = fetch(_inside(engine, inner, "../inner.git"), mirrors, cache)
    assert content(tree)["third/inner/deep/deep"] == b"deep file"
    assert [m.path for m in tree.submodules] == ["third/inner", "third/inner/deep"]


def test_a_submodule_that_is_gone_is_named_with_the_repository_that_wants_it(tmp_path, engine, mirrors, cache):
    inner = upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    commit = _inside(engine, inner, "../inner.git")
    shutil.rmtree(inner.bare)
    with pytest.raises(LockError) as refused:
        fetch(commit, mirrors, cache)
    where = (tmp_path / "srv/org/inner.git").as_uri()
    assert refused.value.message == (
        f"submodule 'third/inner' of {URL}: https://git.example/org/inner.git: "
        f"there is no such repository at {where}"
    )
    assert trees(cache) == []


@pytest.mark.parametrize("url", ["file:///etc", "ext::sh -c id", "/srv/inner.git", "-x"])
def test_a_submodule_cannot_reach_into_this_machine(tmp_path, engine, mirrors, cache, url):
    inner = upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    commit = _inside(engine, inner, url)
    with pytest.raises(
        RecipeError, match=r"submodule 'third/inner' of .*: expected the address of a git repository"
    ):
        fetch(commit, mirrors, cache)
    assert trees(cache) == []


def test_a_submodule_with_an_ssh_short_form_is_found_through_a_mirror(tmp_path, engine, mirrors_of, cache):
    inner = upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    commit = _inside(engine, inner, "git@git.example:org/inner.git")
    srv = (tmp_path / "srv").as_uri()
    mirrors = mirrors_of(f'[git]\n"https://git.example" = "{srv}"\n"ssh://git@git.example" = "{srv}"\n')
    tree = fetch(commit, mirrors, cache)
    assert tree.submodules[0].url == "ssh://git@git.example/org/inner.git"


def test_a_submodule_without_an_address_is_an_error(tmp_path, engine, mirrors, cache):
    inner = upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    engine.git("update-index", "--add", "--cacheinfo", f"160000,{inner.git('rev-parse', 'HEAD')},lost")
    engine.git("commit", "--quiet", "-m", "nest")
    engine.push("HEAD")
    commit = engine.git("rev-parse", "HEAD")
    with pytest.raises(LockError, match=f"submodule 'lost' of {commit} has no address in .gitmodules"):
        fetch(commit, mirrors, cache)
    assert fetch(commit, mirrors, cache, submodules=False).commit == commit
