"""Finds what must not be in a finished image: repositories, build trees, keys, caches, dumps. It only reads.

Runs in the image where that has Python, and on an archive of its files otherwise.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Head = Callable[[], bytes]  # the first bytes of a file
HEAD_BYTES = 4096
_PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY")
# The user part of an address with a password, as pip and git keep it.
_PASSWORD = re.compile(rb"://[^/\s:@]+:[^/\s@]+@")
_CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"  # https://bford.info/cachedir/
_ET_CORE = 4
# What a path tells: pattern, which of its folders is meant (None: the path itself), in words.
_BY_PATH: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"(?P<top>.*/\.git)/HEAD", "a git repository"),
        (r"(?P<top>.*/\.hg)/requires", "a Mercurial repository"),
        (r"(?P<top>.*/\.svn)/wc\.db", "a Subversion checkout"),
        (r"(?P<top>.*)/CMakeCache\.txt", "a build tree of CMake"),
        (r"(?P<top>.*/target)/\.rustc_info\.json", "a build tree of cargo"),
        (r"(?P<top>.*/\.cargo/registry)/.*", "cargo's downloads"),
        (r"(?P<top>.*/\.ccache|.*/\.cache/(?:ccache|sccache))/.*", "a compiler cache"),
        (r"(?P<top>/var/lib/apt/lists)/(?!lock$|partial$|auxfiles$).*", "apt's package lists"),
        (r"(?P<top>/var/cache/apt/archives)/.*\.deb", "apt's downloads"),
        (r"(?P<top>/var/cache/(?:dnf|yum|apk))/.*", "a package manager's cache"),
        (r"(?P<top>.*/\.cache/pip)/.*", "pip's cache"),
        (r"(?P<top>.*/\.cache/uv)/.*", "uv's cache"),
        (r"(?P<top>.*/(?:mini)?conda3?/pkgs)/.*", "conda's downloads"),
        (r"(?P<top>.*/\.npm/_cacache)/.*", "npm's cache"),
        (r"(?P<top>.*/\.aws)/credentials", "credentials"),
        (r"(?P<top>/run/secrets)/.*", "secrets of the build"),
        (r"(?P<top>.*/(?:\.cache/huggingface|\.huggingface)/token)", "a credential"),
        (r"(?P<top>.*/\.(?:git-credentials|pypirc|netrc)|.*/\.kube/config|/etc/apt/auth\.conf)", "credentials"),
        (r"(?P<top>.*/\.ssh/id_[a-z0-9_]+)", "a private key"),
        (r"(?P<top>.*\.(?:p12|pfx|ppk))", "a private key"),
    )
)
# Keys of test suites are public; every second Python package brings one.
_BY_CONTENT: tuple[tuple[re.Pattern[str], re.Pattern[bytes], str], ...] = (
    (re.compile(r"(?!.*/tests?/).*\.(?:pem|key)|.*/id_(?:rsa|dsa|ecdsa|ed25519)"), _PRIVATE_KEY, "a private key"),
    (re.compile(r".*/pip\.conf|.*/uv\.toml|.*/\.gitconfig|.*/\.condarc"), _PASSWORD, "an address with a password"),
    (re.compile(r".*/\.npmrc"), re.compile(rb"_authToken|_password"), "a credential"),
    (re.compile(r".*/\.docker/config\.json"), re.compile(rb'"auth"\s*:\s*"[^"]'), "a credential"),
)
# What compiled for another machine, or left half done, must not be found by a loader.
_WARM: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"(?P<top>.*/torch_extensions(?:/[^/]+)*)/lock", "a lock file of an extension that was being compiled"),
        (r"(?P<top>.*/torch_extensions)/.*", "a warm cache of torch extensions"),
        (r"(?P<top>.*/\.triton/(?:cache|dump))/.*", "a warm cache of Triton"),
        (r"(?P<top>.*/torchinductor_[^/]+|.*/\.cache/vllm|.*/\.cache/torch/inductor)/.*", "a warm compile cache"),
        (r"(?P<top>.*/\.cache/(?:comgr|miopen)|.*/\.config/miopen)/.*", "a warm cache of compiled kernels"),
        (r"(?P<top>.*/\.cache/(?:.*/)?__pycache__)/.*", "bytecode in a cache"),
    )
)
# Almost no path can match any of these, and a look for one word in it is quicker than for all of them.
_WORTH_A_LOOK = re.compile(
    r"(?<!py)cache|/\.(?:git|hg|svn|cargo|npm|aws|huggingface|pypirc|netrc|kube|ssh|triton|docker|conda)|/core(?:\.|$)"
    r"|CMakeCache|/\.rustc_info|/apt/|/run/secrets|conda|\.(?:p12|pfx|ppk|pem|key)$|/id_|torch_extensions"
    r"|torchinductor_|CACHEDIR|pip\.conf|uv\.toml|npmrc|miopen"
)
_NOT_THE_IMAGES = ("/proc", "/sys", "/dev")
_OF_THE_ENGINE = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/.dockerenv")


def probe(declared: list[str], caches: dict[str, str], ships: list[str]) -> dict[str, Any]:
    """Look through all files of the image; see `judge`."""
    return judge(_files(), declared, caches, ships)


def judge(
    files: Iterable[tuple[str, int, Head]], declared: list[str], caches: dict[str, str], ships: list[str]
) -> dict[str, Any]:
    """Return what must not ship, and what makes a cache warm, each with path, words and bytes; and the largest.

    `declared` are the directories that are written to when it is served, `caches` variables that name caches,
    `ships` paths that are there for a reason. Files come as path, bytes and what reads their first bytes.
    """
    unwanted: dict[str, str] = {}
    warm: dict[str, str] = {}
    sizes: list[tuple[str, int]] = []
    for path, size, head in files:
        sizes.append((path, size))
        if _below(path, ships):
            continue
        if _WORTH_A_LOOK.search(path) and (found := _unwanted(path, size, head)) is not None:
            unwanted.setdefault(*found)
        if (found := _warm(path, declared, caches)) is not None:
            warm.setdefault(*found)
    return {
        "unwanted": _told({path: words for path, words in unwanted.items() if path not in warm}, sizes),
        "warm": _told(warm, sizes),
        "largest": [[path, size] for path, size in sorted(sizes, key=lambda each: (-each[1], each[0]))[:10]],
        "files": len(sizes),
        "bytes": sum(size for _, size in sizes),
    }


def _unwanted(path: str, size: int, head: Head) -> tuple[str, str] | None:
    for pattern, words in _BY_PATH:
        if (found := pattern.fullmatch(path)) is not None:
            return found["top"], words
    for pattern, content, words in _BY_CONTENT:
        if pattern.fullmatch(path) and content.search(head()):
            return path, words
    name = path.rpartition("/")[2]
    if name == "CACHEDIR.TAG" and head().startswith(_CACHE_TAG):
        return path.rpartition("/")[0], "a cache that marks itself as one"
    if re.fullmatch(r"core(?:\.\d+)?", name) and size and _is_core(head()):
        return path, "a core dump"
    return None


def _is_core(data: bytes) -> bool:
    return data[:4] == b"\x7fELF" and int.from_bytes(data[16:18], "little") == _ET_CORE


def _warm(path: str, declared: list[str], caches: dict[str, str]) -> tuple[str, str] | None:
    """Return the cache that a file makes warm. What is served from declared directories must not be there."""
    for pattern, words in _WARM if _WORTH_A_LOOK.search(path) else ():
        if (found := pattern.fullmatch(path)) is not None:
            return (path if "lock" in words else found["top"]), words
    for name, folder in caches.items():
        if _below(path, [folder]):
            if path.endswith("/lock"):
                return path, f"a lock file in {name}"
            return folder, f"a warm cache, {name}"
    top = next((top for top in declared if _below(path, [top])), None)
    return None if top is None else (path, f"in {top}, which is empty, or somebody else's, when it is served")


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _told(found: dict[str, str], sizes: list[tuple[str, int]]) -> list[dict[str, Any]]:
    totals = dict.fromkeys(found, 0)
    for path, size in sizes:
        above = path
        while above:
            if above in totals:
                totals[above] += size
            above = above.rpartition("/")[0]
    return [{"path": path, "words": words, "bytes": totals[path]} for path, words in sorted(found.items())]


def _files() -> Iterator[tuple[str, int, Head]]:
    for folder, folders, names in os.walk("/"):
        above = folder.rstrip("/")
        folders[:] = sorted(name for name in folders if f"{above}/{name}" not in _NOT_THE_IMAGES)
        for name in sorted(names):
            path = f"{above}/{name}"
            if path in _OF_THE_ENGINE:
                continue
            try:
                seen = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(seen.st_mode):
                yield path, seen.st_size, _head_of(path)


def _head_of(path: str) -> Head:
    def head() -> bytes:
        try:
            with Path(path).open("rb") as file:
                return file.read(HEAD_BYTES)
        except OSError:
            return b""

    return head
