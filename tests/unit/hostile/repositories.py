"""Git repositories that want programs run, files of this machine read, or to break who reads them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from builder.sources.git import check_pin as check
from builder.sources.git import current_commit, fetch_commit

from .rooms import QUICK, Case, Room

AREA = "git repositories"
_URL = "https://git.example/org/engine"
_WHO = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "1700000000 +0000"))}  # fmt: skip


class Upstream:
    """A repository that a mirror of the room leads to, made of git's own plumbing: also what git would refuse."""

    def __init__(self, room: Room, name: str = "engine") -> None:
        self.room = room
        self.folder = room.folder / "srv" / "org" / f"{name}.git"
        self.folder.mkdir(parents=True)
        self.mirrors = room.mirrors(f'[git]\n"https://git.example" = "{(room.folder / "srv").as_uri()}"\n')
        self.git("init", "--quiet", "--bare", "-b", "main")

    def git(self, *words: str, given: bytes = b"") -> str:
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull} | _WHO
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=env, input=given, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", given=data)

    def tree(self, *entries: tuple[str, str, str]) -> str:
        """Write a tree of mode, object and name, byte for byte: git's own commands would look at them."""
        data = b"".join(
            f"{mode} {name}".encode() + b"\0" + bytes.fromhex(object_) for mode, object_, name in entries
        )
        whole = b"tree %d\0" % len(data) + data
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        place = self.folder / "objects" / name[:2] / name[2:]
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(zlib.compress(whole))
        return name

    def commit(self, tree: str) -> str:
        commit = self.git("commit-tree", "-m", "x", tree)
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def files(self, **files: bytes) -> str:
        names = {name.replace("__", "."): self.blob(data) for name, data in sorted(files.items())}
        return self.commit(self.tree(*[("100644", object_, name) for name, object_ in sorted(names.items())]))

    def fetched(self, commit: str, url: str = _URL) -> str:
        tree = fetch_commit(url, commit, mirrors=self.mirrors, cache=self.room.folder / "cache", patience=QUICK)
        files = sorted(path for path in tree.path.rglob("*") if path.is_file() or path.is_symlink())
        shown = ", ".join(f"{path.relative_to(tree.path)}" for path in files)
        return f"its files as they were committed: {shown}"


def case(given: str, run: Callable[[Room], str], *, refused: bool = True) -> Case:
    def guarded(room: Room) -> str:
        try:
            return run(room)
        finally:
            assert not Path(room.folder, "evil").exists(), "a program of the repository was run"
            assert not Path("/tmp/rocm-images-evil").exists()

    return Case(area=AREA, given=given, run=guarded, refused=refused)


def _address(url: str, room: Room) -> str:
    upstream = Upstream(room)
    return upstream.fetched("0" * 40, url.replace("ROOM", str(room.folder)))


def _ref(room: Room, **ref: str) -> str:
    return current_commit(_URL, mirrors=Upstream(room).mirrors, cache=room.folder / "cache", **ref)


def _submodule(url: str, room: Room) -> str:
    upstream = Upstream(room)
    inner = upstream.files(a=b"1")
    text = f'[submodule "x"]\n\tpath = sub\n\turl = {url.replace("ROOM", str(room.folder))}\n'
    modules = upstream.blob(text.encode())
    return upstream.fetched(
        upstream.commit(upstream.tree(("100644", modules, ".gitmodules"), ("160000", inner, "sub")))
    )


def _included(room: Room) -> str:
    upstream = Upstream(room)
    room.write("own.cfg", b'[submodule "x"]\n\tpath = sub\n\turl = https://git.example/org/engine\n')
    inner = upstream.files(a=b"1")
    modules = upstream.blob(f"[include]\n\tpath = {room.folder}/own.cfg\n".encode())
    return upstream.fetched(
        upstream.commit(upstream.tree(("100644", modules, ".gitmodules"), ("160000", inner, "sub")))
    )


def _tree(entries: Callable[[Upstream], list[tuple[str, str, str]]], room: Room) -> str:
    upstream = Upstream(room)
    return upstream.fetched(upstream.commit(upstream.tree(*entries(upstream))))


def _hooks(room: Room) -> str:
    upstream = Upstream(room)
    for name in ("post-checkout", "post-merge", "pre-receive", "reference-transaction", "post-index-change"):
        hook = upstream.folder / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {room.folder}/evil\n")
        hook.chmod(0o755)
    return upstream.fetched(_plain(upstream))


def _plain(upstream: Upstream) -> str:
    # Not by update-ref, which would run the hooks before anything is fetched.
    commit = upstream.git("commit-tree", "-m", "x", upstream.tree(("100644", upstream.blob(b"1"), "a")))
    (upstream.folder / "refs/heads/main").write_text(f"{commit}\n")
    return commit


def _filters(room: Room) -> str:
    upstream = Upstream(room)
    evil = f"touch {room.folder}/evil"
    for name in (
        "filter.evil.smudge",
        "filter.evil.process",
        "core.fsmonitor",
        "diff.external",
        "core.sshCommand",
    ):
        upstream.git("config", name, evil)
    said = upstream.files(__gitattributes=b"* filter=evil ident text eol=crlf export-subst\n", a=b"$Id$\n")
    told = upstream.fetched(said)
    tree = next(path for path in (room.folder / "cache" / "trees").iterdir() if path.is_dir())
    assert (tree / "a").read_bytes() == b"$Id$\n"
    return told


def _packer(room: Room) -> str:
    upstream = Upstream(room)
    commit = upstream.files(a=b"1")
    upstream.git("config", "uploadpack.packObjectsHook", f"touch {room.folder}/evil; true")
    return upstream.fetched(commit)


def _own_configuration(room: Room) -> str:
    """A repository's configuration file among its files is a file."""
    return _tree(
        lambda up: [("100644", up.blob(b"[core]\n\tfsmonitor = touch /tmp/rocm-images-evil\n"), "config")], room
    )


def _deep(room: Room) -> str:
    upstream = Upstream(room)
    tree = upstream.tree(("100644", upstream.blob(b"1"), "a"))
    for _ in range(260):
        tree = upstream.tree(("40000", tree, "d"))
    return upstream.fetched(upstream.commit(tree))


def _tag_of_a_tree(room: Room) -> str:
    upstream = Upstream(room)
    tree = upstream.tree(("100644", upstream.blob(b"1"), "a"))
    upstream.git("update-ref", "refs/tags/v1", tree)
    return upstream.fetched(tree)


def _moved(room: Room) -> str:
    upstream = Upstream(room)
    first = upstream.files(a=b"1")
    upstream.git("update-ref", "refs/tags/v1", upstream.files(a=b"2"))
    words = ""
    check(_URL, first, tag="v1", mirrors=upstream.mirrors, cache=room.folder / "cache", patience=QUICK)
    return words


_FILE = "100644"
CASES = (
    case("an address that runs a program: `ext::sh -c …`", partial(_address, "ext::sh -c 'touch ROOM/evil'")),
    case("an address of this machine: `file:///…`", partial(_address, "file://ROOM/srv/org/engine.git")),
    case("a path of this machine", partial(_address, "ROOM/srv/org/engine.git")),
    case("an address that is an option: `--upload-pack=…`", partial(_address, "--upload-pack=touch ROOM/evil")),
    case(
        "a host that is an option of ssh: `-oProxyCommand=…`",
        partial(_address, "ssh://-oProxyCommand=touch ROOM/evil/x"),
    ),
    case(
        "a host that is an option of ssh, behind a user",
        partial(_address, "ssh://a@-oProxyCommand=touch%20ROOM%2fevil/x"),
    ),
    case("an address that climbs out of its mirror by `..`", partial(_address, "https://git.example/../../x")),
    case("a line break in an address", partial(_address, "https://git.example/org/x\nRUN id")),
    case("a tag that is an option", partial(_ref, tag="--upload-pack=touch evil")),
    case("a tag that climbs out of its folder", partial(_ref, tag="../heads/main")),
    case("a branch with a pattern", partial(_ref, branch="*")),
    case("a branch with a line break", partial(_ref, branch="main\nevil")),
    case("a tag that has moved to another commit", _moved),
    case("a tree where a commit is to be", _tag_of_a_tree),
    case("a submodule that runs a program: `ext::sh -c …`", partial(_submodule, "ext::sh -c 'touch ROOM/evil'")),
    case("a submodule of this machine: `file:///…`", partial(_submodule, "file://ROOM/srv/org/engine.git")),
    case("a submodule of this machine, by path", partial(_submodule, "ROOM/srv/org/engine.git")),
    case("a submodule whose address is an option: `-u…`", partial(_submodule, "-utouch ROOM/evil")),
    case("a submodule that climbs out of the mirror", partial(_submodule, "../../../../etc")),
    case("`.gitmodules` that includes a file of this machine", _included),
    case("hooks", _hooks, refused=False),
    case("filters, keywords and line ends, in attributes and configuration", _filters, refused=False),
    case("a mirror's configuration with a program for packing", _packer, refused=False),
    case("a configuration file among the files", _own_configuration, refused=False),
    case(
        "a file below `.git`",
        partial(_tree, lambda up: [("40000", up.tree((_FILE, up.blob(b"x"), "config")), ".git")]),
    ),
    case("a file named `..`", partial(_tree, lambda up: [(_FILE, up.blob(b"x"), "..")])),
    case("a file with a slash in its name", partial(_tree, lambda up: [(_FILE, up.blob(b"x"), "../evil")])),
    case(
        "a link and a folder of the same name",
        partial(
            _tree,
            lambda up: [
                ("120000", up.blob(b"/tmp"), "a"),
                ("40000", up.tree(("100755", up.blob(b"x"), "rocm-images-evil")), "a"),
            ],
        ),
    ),
    case("folders 260 deep", _deep),
)
