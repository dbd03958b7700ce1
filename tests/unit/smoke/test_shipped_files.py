"""What must not ship is known by its path or its first bytes, and nothing else is taken for it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from builder.engine import contents
from builder.smoke.fromoutside import looked_through
from builder.smoke.inside.shipped_files import Head, judge

CORE = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\x00"
PRIVATE = b"-----BEGIN RSA PRIVATE KEY-----\nMII"


def tree(**files: bytes) -> Iterator[tuple[str, int, Head]]:
    for path, data in files.items():
        yield path, len(data), lambda data=data: data


def looked(files: dict[str, bytes], **how: Any) -> dict[str, Any]:
    return judge(tree(**files), how.get("declared", []), how.get("caches", {}), how.get("ships", []))


@pytest.mark.parametrize(
    ("path", "data", "top", "words"),
    [
        ("/srv/.git/HEAD", b"ref", "/srv/.git", "a git repository"),
        ("/srv/.hg/requires", b"", "/srv/.hg", "a Mercurial repository"),
        ("/build/x/CMakeCache.txt", b"", "/build/x", "a build tree of CMake"),
        ("/src/target/.rustc_info.json", b"{}", "/src/target", "a build tree of cargo"),
        ("/root/.cargo/registry/cache/a.crate", b"", "/root/.cargo/registry", "cargo's downloads"),
        ("/root/.ccache/0/1", b"", "/root/.ccache", "a compiler cache"),
        ("/var/lib/apt/lists/deb.example_InRelease", b"", "/var/lib/apt/lists", "apt's package lists"),
        ("/var/cache/apt/archives/a.deb", b"", "/var/cache/apt/archives", "apt's downloads"),
        ("/opt/conda/pkgs/a.conda", b"", "/opt/conda/pkgs", "conda's downloads"),
        ("/root/.cache/pip/http-v2/a", b"", "/root/.cache/pip", "pip's cache"),
        ("/x/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n", "/x",
         "a cache that marks itself as one"),
        ("/root/.aws/credentials", b"", "/root/.aws", "credentials"),
        ("/root/.netrc", b"", "/root/.netrc", "credentials"),
        ("/root/.cache/huggingface/token", b"hf", "/root/.cache/huggingface/token", "a credential"),
        ("/root/.docker/config.json", b'{"auths": {"x": {"auth": "YQ=="}}}', "/root/.docker/config.json",
         "a credential"),
        ("/etc/ssl/private/a.key", PRIVATE, "/etc/ssl/private/a.key", "a private key"),
        ("/home/a/.ssh/id_ed25519", PRIVATE, "/home/a/.ssh/id_ed25519", "a private key"),
        ("/etc/pip.conf", b"index-url = https://a:b@c/", "/etc/pip.conf", "an address with a password"),
        ("/srv/core.123", CORE, "/srv/core.123", "a core dump"),
    ],
)  # fmt: skip
def test_what_must_not_ship_is_named_by_its_top_folder(path: str, data: bytes, top: str, words: str) -> None:
    assert looked({path: data, "/usr/bin/python3": b""})["unwanted"] == [
        {"path": top, "words": words, "bytes": len(data)}
    ]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/var/lib/apt/lists/lock", b""),
        ("/etc/ssl/certs/ca.pem", b"-----BEGIN CERTIFICATE-----"),
        ("/usr/lib/python3/dist-packages/fsspec/tests/keycert.pem", PRIVATE),
        ("/usr/lib/python3/dist-packages/pip/core.py", b""),
        ("/usr/share/core", b"text"),
        ("/etc/pip.conf", b"index-url = https://example.org/simple"),
        ("/root/.docker/config.json", b'{"auths": {}}'),
        ("/home/a/.ssh/id_ed25519.pub", b"ssh-ed25519 AAAA"),
        ("/usr/lib/python3/dist-packages/sglang/cache/__pycache__/a.pyc", b""),
        ("/usr/lib/git-core/git", b""),
        ("/root/.gitignore", b""),
    ],
)
def test_what_only_looks_like_it_is_left_alone(path: str, data: bytes) -> None:
    found = looked({path: data})
    assert (found["unwanted"], found["warm"]) == ([], [])


def test_the_bytes_of_a_folder_are_those_of_everything_below_it() -> None:
    found = looked({"/a/.git/HEAD": b"1", "/a/.git/objects/ab/cd": b"22", "/a/b": b"333"})
    assert found["unwanted"] == [{"path": "/a/.git", "words": "a git repository", "bytes": 3}]
    assert found["largest"][0] == ["/a/b", 3]
    assert (found["files"], found["bytes"]) == (3, 6)


@pytest.mark.parametrize(
    ("path", "top", "words"),
    [
        ("/c/torch_extensions/py313_cpu/hash/lock", "/c/torch_extensions/py313_cpu/hash/lock",
         "a lock file of an extension that was being compiled"),
        ("/c/torch_extensions/hash/hash.so", "/c/torch_extensions", "a warm cache of torch extensions"),
        ("/root/.triton/cache/ab/k.hsaco", "/root/.triton/cache", "a warm cache of Triton"),
        ("/tmp/torchinductor_root/x", "/tmp/torchinductor_root", "a warm compile cache"),
        ("/own/lock", "/own/lock", "a lock file in TRITON_CACHE_DIR"),
        ("/own/a/k.json", "/own", "a warm cache, TRITON_CACHE_DIR"),
        ("/data/page", "/data/page", "in /data, which is empty, or somebody else's, when it is served"),
    ],
)  # fmt: skip
def test_what_makes_a_cache_warm_is_named(path: str, top: str, words: str) -> None:
    found = looked({path: b"1"}, declared=["/data"], caches={"TRITON_CACHE_DIR": "/own"})
    assert found["warm"] == [{"path": top, "words": words, "bytes": 1}]
    assert found["unwanted"] == []


def test_what_ships_for_a_reason_is_left_alone_with_everything_below_it() -> None:
    files = {"/a/.git/HEAD": b"", "/a/.git/x/lock": b"", "/a/.gitother/CMakeCache.txt": b""}
    assert [each["path"] for each in looked(files, ships=["/a/.git"])["unwanted"]] == ["/a/.gitother"]


def test_an_archive_of_an_image_is_looked_through_like_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, data in {"srv/.git/HEAD": b"ref", "etc/a.pem": PRIVATE, "usr/bin/sh": bytes(5000)}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        archive.addfile(tarfile.TarInfo("empty"))
    text = sink.getvalue()
    pieces = [text[at : at + 700] for at in range(0, len(text), 700)]
    monkeypatch.setattr(contents, "export", lambda _image: iter(pieces))
    found = looked_through("image", declared=[], caches={}, ships=[])
    assert [each["path"] for each in found["unwanted"]] == ["/etc/a.pem", "/srv/.git"]
    assert found["largest"][0] == ["/usr/bin/sh", 5000]
