"""Git repositories made on the spot, and what is fetched of them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from builder.mirrors import Mirrors
from builder.sources.git import GitTree, fetch_commit
from builder.sources.transport import Patience

QUICK = Patience(attempts=2, first=0.01, longest=0.02)
URL = "https://git.example/org/engine"
ENV = {
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
        done = subprocess.run(["git", *words], cwd=self.work, env=ENV, input=text, capture_output=True, check=True)
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


def upstream(root: Path, name: str = "engine") -> Upstream:
    bare, work = root / "srv/org" / f"{name}.git", root / "work" / name
    for words in (
        ["init", "--quiet", "--bare", "-b", "main", str(bare)],
        ["init", "--quiet", "-b", "main", str(work)],
    ):
        subprocess.run(["git", *words], env=ENV, check=True)
    made = Upstream(bare, work)
    made.git("remote", "add", "origin", str(bare))
    return made


def fetch(commit: str, mirrors: Mirrors, cache: Path, url: str = URL, **options) -> GitTree:
    return fetch_commit(url, commit, mirrors=mirrors, cache=cache, patience=QUICK, **options)


def trees(cache: Path) -> list[str]:
    folder = cache / "trees"
    return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def content(tree: GitTree) -> dict[str, bytes]:
    return {str(p.relative_to(tree.path)): p.read_bytes() for p in sorted(tree.path.rglob("*")) if p.is_file()}
