"""Pinned trees from repositories made on the spot, over smart HTTP, plain files and folders."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.errors import EngineError, LockError, RecipeError
from builder.mirrors import Mirrors
from builder.sources.git import GitTree, check_pin, current_commit, fetch_commit
from builder.sources.githash import tree_id
from builder.sources.transport import Patience

QUICK = Patience(attempts=2, first=0.01, longest=0.02)
URL = "https://git.example/org/engine"
_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0100",
    "GIT_COMMITTER_DATE": "1700000000 +0100",
    "GIT_ALLOW_PROTOCOL": "file",
}


@dataclass
class Upstream:
    """A bare repository and a working copy to change it with."""

    bare: Path
    work: Path

    def git(self, *words: str, text: bytes | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.work, env=_ENV, input=text, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def commit(self, message: str, **files: str | bytes) -> str:
        for name, data in files.items():
            path = self.work / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.encode() if isinstance(data, str) else data)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        self.git("push", "--quiet", "--force", "origin", "HEAD")
        return self.git("rev-parse", "HEAD")

    def push(self, *refs: str) -> None:
        self.git("push", "--quiet", "--force", "origin", *refs)


def _upstream(root: Path, name: str = "engine") -> Upstream:
    bare, work = root / "srv/org" / f"{name}.git", root / "work" / name
    for words in (
        ["init", "--quiet", "--bare", "-b", "main", str(bare)],
        ["init", "--quiet", "-b", "main", str(work)],
    ):
        subprocess.run(["git", *words], env=_ENV, check=True)
    made = Upstream(bare, work)
    made.git("remote", "add", "origin", str(bare))
    return made


@pytest.fixture
def engine(tmp_path: Path) -> Upstream:
    made = _upstream(tmp_path)
    made.commit("first", README="engine\n")
    return made


@pytest.fixture
def mirrors(tmp_path: Path, mirrors_of) -> Mirrors:
    return mirrors_of(f'[git]\n"https://git.example" = "{(tmp_path / "srv").as_uri()}"\n')


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _fetch(commit: str, mirrors: Mirrors, cache: Path, url: str = URL, **options) -> GitTree:
    return fetch_commit(url, commit, mirrors=mirrors, cache=cache, patience=QUICK, **options)


def _trees(cache: Path) -> list[str]:
    folder = cache / "trees"
    return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def _content(tree: GitTree) -> dict[str, bytes]:
    return {str(p.relative_to(tree.path)): p.read_bytes() for p in sorted(tree.path.rglob("*")) if p.is_file()}


def test_a_commit_comes_out_as_it_was_committed(engine, mirrors, cache):
    (engine.work / "run").write_text("#!/bin/sh\n")
    (engine.work / "run").chmod(0o755)
    (engine.work / "link").symlink_to("./src//a.py")
    commit = engine.commit("second", src__a_py="x = 1\n")
    tree = _fetch(commit, mirrors, cache)
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
        tree = _fetch(commit, mirrors, cache)
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
    got = _content(_fetch(commit, mirrors, cache))
    assert got.pop("README") == b"engine\n"
    assert got == {name: data.encode() for name, data in files.items()}


def test_a_second_fetch_of_a_plain_commit_needs_no_network(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    first = _fetch(commit, mirrors, cache)
    shutil.rmtree(engine.bare)
    assert _fetch(commit, mirrors, cache) == first


def test_a_tree_that_was_changed_in_the_cache_is_written_again(engine, mirrors, cache):
    commit = engine.commit("second", a="1", b__c="2")
    tree = _fetch(commit, mirrors, cache)
    for spoil in (
        lambda: (tree.path / "a").write_text("changed"),
        lambda: (tree.path / "added").write_text(""),
        lambda: (tree.path / "b/c").unlink(),
        lambda: (tree.path / "a").chmod(0o755),
        lambda: shutil.rmtree(tree.path),
    ):
        spoil()
        assert _content(_fetch(commit, mirrors, cache)) == {"README": b"engine\n", "a": b"1", "b/c": b"2"}
        assert tree_id(tree.path) == tree.tree


def test_a_damaged_copy_is_fetched_again(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    tree = _fetch(commit, mirrors, cache)
    shutil.rmtree(tree.path)
    (copy,) = (cache / "git").glob("*.git")
    for pack in (copy / "objects/pack").glob("*.pack"):
        pack.chmod(0o644)
        data = bytearray(pack.read_bytes())
        data[20:60] = bytes(40)
        pack.write_bytes(data)
    assert _content(_fetch(commit, mirrors, cache))["a"] == b"1"


def test_an_object_replaced_in_the_copy_does_not_pass_for_the_commit(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    tree = _fetch(commit, mirrors, cache)
    shutil.rmtree(tree.path)
    (copy,) = (cache / "git").glob("*.git")
    other = _upstream(cache.parent, "other")
    evil = other.commit("evil", a="evil")
    # every object of the other repository under its own name, and its commit under the pinned commit's name
    shutil.rmtree(copy / "objects/pack")
    shutil.copytree(other.work / ".git/objects", copy / "objects", dirs_exist_ok=True)
    place = copy / "objects" / commit[:2] / commit[2:]
    place.parent.mkdir(exist_ok=True)
    shutil.copyfile(other.work / ".git/objects" / evil[:2] / evil[2:], place)
    assert _content(_fetch(commit, mirrors, cache)) == {"README": b"engine\n", "a": b"1"}


@pytest.mark.parametrize("annotated", [False, True])
def test_a_tag_that_points_at_the_commit_proves_it(engine, mirrors, cache, annotated):
    commit = engine.commit("second", a="1")
    engine.git("tag", *(["-a", "-m", "release"] if annotated else []), "v1.0")
    engine.push("v1.0")
    assert _fetch(commit, mirrors, cache, tag="v1.0").commit == commit
    assert current_commit(URL, tag="v1.0", mirrors=mirrors, cache=cache, patience=QUICK) == commit


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize("fetched_before", [False, True])
def test_f35_f49_a_moved_tag_is_an_error_with_both_commits(engine, mirrors, cache, annotated, fetched_before):
    how = ["-a", "-m", "release"] if annotated else []
    pinned = engine.commit("second", a="1")
    engine.git("tag", *how, "v1.0")
    engine.push("v1.0")
    if fetched_before:
        _fetch(pinned, mirrors, cache, tag="v1.0")
    before = _trees(cache)
    moved = engine.commit("third", a="2")
    engine.git("tag", "--force", *how, "v1.0")
    engine.push("v1.0")
    with pytest.raises(LockError) as refused:
        _fetch(pinned, mirrors, cache, tag="v1.0")
    assert refused.value.message == f"{URL}: tag 'v1.0' has moved: pinned is {pinned}, it is now at {moved}"
    assert refused.value.hint == ("find out why before you follow it; if the pin should follow: rocm-images lock")
    assert _trees(cache) == before
    with pytest.raises(LockError, match="has moved"):
        check_pin(URL, pinned, tag="v1.0", mirrors=mirrors, cache=cache, patience=QUICK)


def test_the_object_of_an_annotated_tag_is_not_its_commit(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    engine.git("tag", "-a", "-m", "release", "v1.0")
    engine.push("v1.0")
    object_ = engine.git("rev-parse", "v1.0")
    with pytest.raises(LockError) as refused:
        _fetch(object_, mirrors, cache, tag="v1.0")
    assert refused.value.message == f"{URL}: {object_} is the object of tag 'v1.0', not its commit"
    assert refused.value.hint == f"use commit = '{commit}'"
    with pytest.raises(LockError, match=f"{object_} is a tag, not a commit"):
        _fetch(object_, mirrors, cache)
    assert _trees(cache) == []


def test_a_tag_that_is_gone_is_named(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    engine.git("branch", "v1.0")  # a branch of that name is no substitute
    engine.push("v1.0")
    with pytest.raises(LockError) as refused:
        _fetch(commit, mirrors, cache, tag="v1.0")
    assert refused.value.message == f"{URL}: there is no tag 'v1.0'"
    assert _trees(cache) == []


def test_a_branch_that_contains_the_commit_proves_it(engine, mirrors, cache):
    old = engine.commit("second", a="1")
    tip = engine.commit("third", a="2")
    assert _content(_fetch(old, mirrors, cache, branch="main"))["a"] == b"1"
    assert _content(_fetch(tip, mirrors, cache, branch="main"))["a"] == b"2"
    assert current_commit(URL, branch="main", mirrors=mirrors, cache=cache, patience=QUICK) == tip


def test_a_commit_that_is_not_on_the_branch_is_an_error(engine, mirrors, cache):
    engine.git("checkout", "-q", "-b", "feature")
    elsewhere = engine.commit("feature", a="1")
    engine.git("checkout", "-q", "main")
    tip = engine.commit("second", b="1")
    with pytest.raises(LockError) as refused:
        _fetch(elsewhere, mirrors, cache, branch="main")
    assert refused.value.message == f"{URL}: commit {elsewhere} is not on branch 'main', which is at {tip}"
    assert _trees(cache) == []
    with pytest.raises(LockError, match="is not on branch 'main'"):
        check_pin(URL, elsewhere, branch="main", mirrors=mirrors, cache=cache, patience=QUICK)
    assert _fetch(elsewhere, mirrors, cache, branch="feature").commit == elsewhere


def test_a_branch_that_was_rewritten_no_longer_proves_the_commit(engine, mirrors, cache):
    old = engine.commit("second", a="1")
    _fetch(old, mirrors, cache, branch="main")
    engine.git("reset", "-q", "--hard", "HEAD~1")
    engine.commit("another second", a="2")
    with pytest.raises(LockError, match=f"commit {old} is not on branch 'main'"):
        _fetch(old, mirrors, cache, branch="main")


def test_f63_a_branch_that_is_gone_is_named_and_no_other_is_taken(engine, mirrors, cache):
    commit = engine.commit("second", a="1")  # on the default branch
    with pytest.raises(LockError) as refused:
        _fetch(commit, mirrors, cache, branch="rdna4")
    assert refused.value.message == f"{URL}: there is no branch 'rdna4'"
    assert _trees(cache) == []


def test_a_branch_named_like_a_folder_of_an_earlier_one_is_no_problem(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    engine.commit("third", a="2")
    engine.push("HEAD:refs/heads/release")
    _fetch(commit, mirrors, cache, branch="release")
    engine.push(":refs/heads/release", "HEAD:refs/heads/release/1.0")
    assert _fetch(commit, mirrors, cache, branch="release/1.0").commit == commit


def test_a_commit_that_does_not_exist_is_named(engine, mirrors, cache):
    with pytest.raises(LockError) as refused:
        _fetch("0123456789" * 4, mirrors, cache)
    assert refused.value.message == f"{URL}: there is no commit {'0123456789' * 4}"
    assert _trees(cache) == []
    with pytest.raises(LockError, match=r"there is no commit|not our ref"):
        check_pin(URL, "0123456789" * 4, mirrors=mirrors, cache=cache, patience=QUICK)


def test_whether_a_plain_commit_is_still_there_is_asked_of_the_remote_not_of_the_cache(engine, mirrors, cache):
    commit = engine.commit("second", a="1")
    _fetch(commit, mirrors, cache)
    check_pin(URL, commit, mirrors=mirrors, cache=cache, patience=QUICK)
    shutil.rmtree(engine.bare)
    with pytest.raises(LockError, match="there is no such repository"):
        check_pin(URL, commit, mirrors=mirrors, cache=cache, patience=QUICK)
    assert list(cache.glob(".probe-*")) == []


@pytest.mark.parametrize("wrong", ["main", "0" * 39, "0" * 41, "F" * 40, "0" * 40 + "\n", "v1.0"])
def test_only_a_full_commit_is_a_pin(mirrors, cache, wrong):
    with pytest.raises(RecipeError, match="expected a commit of 40 hex digits, got"):
        _fetch(wrong, mirrors, cache)


@pytest.mark.parametrize("wrong", ["--upload-pack=x", "a b", "a..b", "x^{}", "v*", "", "a.lock", "a/", "a\n"])
def test_only_a_name_of_a_ref_is_asked_for(mirrors, cache, wrong):
    with pytest.raises(RecipeError, match="expected the name of a tag, got"):
        _fetch("0" * 40, mirrors, cache, tag=wrong)


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
        _fetch("0" * 40, mirrors, cache, url=wrong)


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
    inner = _upstream(tmp_path, "inner")
    inner_commit = inner.commit("inner", lib__a="inner file")
    commit = _inside(engine, inner, url)
    inner.commit("a newer one", lib__a="newer")
    tree = _fetch(commit, mirrors, cache)
    assert _content(tree)["third/inner/lib/a"] == b"inner file"
    assert [(m.path, m.url, m.commit) for m in tree.submodules] == [
        ("third/inner", "https://git.example/org/inner.git", inner_commit)
    ]
    assert tree.tree == engine.git("rev-parse", f"{commit}^{{tree}}")
    (tree.path / "third/inner/lib/a").write_text("changed in the cache")
    assert _content(_fetch(commit, mirrors, cache))["third/inner/lib/a"] == b"inner file"
    alone = _fetch(commit, mirrors, cache, submodules=False)
    assert list((alone.path / "third/inner").iterdir()) == []
    assert alone.submodules == ()


def test_submodules_nest(tmp_path, engine, mirrors, cache):
    innermost = _upstream(tmp_path, "innermost")
    innermost.commit("innermost", deep="deep file")
    inner = _upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    _inside(inner, innermost, "../innermost.git", "deep")
    tree = _fetch(_inside(engine, inner, "../inner.git"), mirrors, cache)
    assert _content(tree)["third/inner/deep/deep"] == b"deep file"
    assert [m.path for m in tree.submodules] == ["third/inner", "third/inner/deep"]


def test_a_submodule_that_is_gone_is_named_with_the_repository_that_wants_it(tmp_path, engine, mirrors, cache):
    inner = _upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    commit = _inside(engine, inner, "../inner.git")
    shutil.rmtree(inner.bare)
    with pytest.raises(LockError) as refused:
        _fetch(commit, mirrors, cache)
    where = (tmp_path / "srv/org/inner.git").as_uri()
    assert refused.value.message == (
        f"submodule 'third/inner' of {URL}: https://git.example/org/inner.git: "
        f"there is no such repository at {where}"
    )
    assert _trees(cache) == []


@pytest.mark.parametrize("url", ["file:///etc", "ext::sh -c id", "/srv/inner.git", "-x"])
def test_a_submodule_cannot_reach_into_this_machine(tmp_path, engine, mirrors, cache, url):
    inner = _upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    commit = _inside(engine, inner, url)
    with pytest.raises(
        RecipeError, match=r"submodule 'third/inner' of .*: expected the address of a git repository"
    ):
        _fetch(commit, mirrors, cache)
    assert _trees(cache) == []


def test_a_submodule_with_an_ssh_short_form_is_found_through_a_mirror(tmp_path, engine, mirrors_of, cache):
    inner = _upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    commit = _inside(engine, inner, "git@git.example:org/inner.git")
    srv = (tmp_path / "srv").as_uri()
    mirrors = mirrors_of(f'[git]\n"https://git.example" = "{srv}"\n"ssh://git@git.example" = "{srv}"\n')
    tree = _fetch(commit, mirrors, cache)
    assert tree.submodules[0].url == "ssh://git@git.example/org/inner.git"


def test_a_submodule_without_an_address_is_an_error(tmp_path, engine, mirrors, cache):
    inner = _upstream(tmp_path, "inner")
    inner.commit("inner", a="1")
    engine.git("update-index", "--add", "--cacheinfo", f"160000,{inner.git('rev-parse', 'HEAD')},lost")
    engine.git("commit", "--quiet", "-m", "nest")
    engine.push("HEAD")
    commit = engine.git("rev-parse", "HEAD")
    with pytest.raises(LockError, match=f"submodule 'lost' of {commit} has no address in .gitmodules"):
        _fetch(commit, mirrors, cache)
    assert _fetch(commit, mirrors, cache, submodules=False).commit == commit


def test_a_repository_that_is_not_there_is_named(mirrors, cache, tmp_path):
    with pytest.raises(LockError) as refused:
        _fetch("0" * 40, mirrors, cache, url="https://git.example/org/absent", tag="v1")
    where = (tmp_path / "srv/org/absent").as_uri()
    assert refused.value.message == f"https://git.example/org/absent: there is no such repository at {where}"
    assert _trees(cache) == []


def test_the_configuration_of_the_user_and_of_the_folder_around_has_no_say(engine, mirrors, tmp_path, monkeypatch):
    commit = engine.commit("second", a="1")
    workspace = tmp_path / "workspace"
    subprocess.run(["git", "init", "--quiet", str(workspace)], env=_ENV, check=True)
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
    tree = _fetch(commit, mirrors, workspace / ".rocm-images" / "sources", branch="main")
    assert _content(tree) == {"README": b"engine\n", "a": b"1"}


def test_a_relative_cache_is_as_good_as_an_absolute_one(engine, mirrors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commit = engine.commit("second", a="1")
    old = engine.git("rev-parse", "HEAD~1")
    assert _content(_fetch(commit, mirrors, Path("here")))["a"] == b"1"
    assert _fetch(old, mirrors, Path("here"), branch="main").path.is_absolute()


def test_an_interrupt_during_the_export_leaves_no_tree(engine, mirrors, cache, monkeypatch):
    commit = engine.commit("second", a="1")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.utime", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _fetch(commit, mirrors, cache)
    assert _trees(cache) == []
    assert _content(_fetch(commit, mirrors, cache))["a"] == b"1"


def _serve(handler, root: Path) -> None:
    """Answer a request with git's own smart HTTP server."""
    path, _, query = handler.path.partition("?")
    env = _ENV | {
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
        "REQUEST_METHOD": handler.command,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
        "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
    }
    if handler.headers.get("Transfer-Encoding") == "chunked":
        body = b""
        while size := int(handler.rfile.readline(), 16):
            body += handler.rfile.read(size)
            handler.rfile.readline()
        handler.rfile.readline()
    else:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
    env["CONTENT_LENGTH"] = str(len(body))
    # its exit status tells what the body tells as well
    out = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False).stdout
    head, _, payload = out.partition(b"\r\n\r\n")
    lines = dict(line.split(": ", 1) for line in head.decode().splitlines())
    handler.send_response(int(lines.pop("Status", "200").split()[0]))
    for name, value in lines.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(payload)))
    handler.end_headers()
    handler.wfile.write(payload)


@pytest.fixture
def over_http(site, tmp_path, engine, mirrors_of):
    site.default = lambda handler: _serve(handler, tmp_path / "srv")
    return mirrors_of(f'[git]\n"https://git.example" = "{site.url}"\n')


def test_smart_http_serves_a_tag_a_branch_and_a_plain_commit(site, engine, over_http, cache):
    old = engine.commit("second", a="1")
    engine.git("tag", "-a", "-m", "x", "v1.0")
    engine.push("v1.0")
    tip = engine.commit("third", a="2")
    url = URL + ".git"
    assert _content(_fetch(old, over_http, cache, url=url, tag="v1.0"))["a"] == b"1"
    assert _content(_fetch(tip, over_http, cache, url=url, branch="main"))["a"] == b"2"
    assert _fetch(old, over_http, cache, url=url, branch="main").commit == old
    assert _content(_fetch(old, over_http, cache.parent / "other", url=url))["a"] == b"1"
    with pytest.raises(LockError, match="there is no branch 'absent'"):
        _fetch(old, over_http, cache, url=url, branch="absent")
    with pytest.raises(LockError, match=f"there is no commit {'1' * 40}"):
        _fetch("1" * 40, over_http, cache, url=url)


def test_a_server_that_hands_out_no_single_commits_is_asked_for_more(site, engine, over_http, cache):
    """As old servers do: protocol 0, and only the tips of refs."""
    site.default = _without_v2(site.default)
    old = engine.commit("second", a="1")
    engine.commit("third", a="2")
    assert _content(_fetch(old, over_http, cache, url=URL + ".git"))["a"] == b"1"


def _without_v2(reply):
    def answer(handler) -> None:
        del handler.headers["Git-Protocol"]
        reply(handler)

    return answer


def test_a_repository_served_as_plain_files_is_enough(site, engine, mirrors_of, cache):
    old = engine.commit("second", a="1")
    engine.git("tag", "v1.0")
    engine.push("v1.0")
    engine.commit("third", a="2")
    subprocess.run(["git", "update-server-info"], cwd=engine.bare, env=_ENV, check=True)
    for path in engine.bare.rglob("*"):
        if path.is_file():
            site.on(f"/org/engine.git/{path.relative_to(engine.bare)}", site.body(path.read_bytes(), "text/plain"))
    mirrors = mirrors_of(f'[git]\n"https://git.example" = "{site.url}"\n')
    assert _content(_fetch(old, mirrors, cache, url=URL + ".git", tag="v1.0"))["a"] == b"1"
    assert _fetch(old, mirrors, cache, url=URL + ".git", branch="main").commit == old


def test_a_repository_that_answers_404_is_gone(site, over_http, cache):
    with pytest.raises(LockError) as refused:
        _fetch("0" * 40, over_http, cache, url="https://git.example/org/absent.git", branch="main")
    assert refused.value.message == (
        f"https://git.example/org/absent.git: there is no such repository at {site.url}/org/absent.git"
    )
    assert _trees(cache) == []


def test_a_login_is_never_asked_for_at_the_keyboard(site, mirrors_of, cache):
    site.default = site.status(401, WWW_Authenticate='Basic realm="x"')
    mirrors = mirrors_of(f'[git]\n"https://git.example" = "{site.url}"\n')
    with pytest.raises(LockError) as refused:
        _fetch("0" * 40, mirrors, cache, tag="v1")
    assert refused.value.message == (
        f"{URL}: cannot be read without a login at {site.url}/org/engine: it is private, or it is gone"
    )


def test_a_server_that_fails_once_is_asked_again(site, engine, over_http, cache):
    commit = engine.commit("second", a="1")
    site.on("/org/engine.git/info/refs", site.status(503), site.default)
    assert _fetch(commit, over_http, cache, url=URL + ".git", branch="main").commit == commit


def test_a_network_that_is_down_is_no_fault_of_the_pin_and_an_earlier_proof_counts(
    site, engine, over_http, cache, story
):
    commit = engine.commit("second", a="1")
    down = site.status(503)
    working, site.default = site.default, down
    with pytest.raises(EngineError) as refused:
        _fetch(commit, over_http, cache, branch="main", url=URL + ".git")
    assert refused.value.message.startswith(f"{URL}.git: cannot be reached at {site.url}/org/engine.git: ")
    assert refused.value.hint == "check the network, or name a mirror: docs/mirrors.md"
    site.default = working
    _fetch(commit, over_http, cache, branch="main", url=URL + ".git", story=story)
    assert story.steps == [f"fetch {URL}.git at main"]
    site.default = down
    assert _fetch(commit, over_http, cache, branch="main", url=URL + ".git", story=story).commit == commit
    assert len(story.warnings) == 1
    assert story.warnings[0].endswith("; the pin was last proven when it was fetched")
    with pytest.raises(EngineError):
        _fetch(commit, over_http, cache, branch="never-proven", url=URL + ".git")


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
