"""The upstreams of made-up and of shipped recipes, on loopback: git repositories, images, indexes, releases."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import requests

from .forge import Forge, Release

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upstream:
    """Bare repositories below a folder, reached by the addresses that recipes have."""

    folder: Path

    @property
    def home(self) -> Path:
        """A home whose git goes to these repositories instead of to GitHub."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        (home / ".gitconfig").write_text(
            f'[url "{self.folder.as_uri()}/git/"]\n\tinsteadOf = https://github.com/\n'
            "[user]\n\tname = tests\n\temail = tests@example.com\n[init]\n\tdefaultBranch = main\n"
            '[protocol "file"]\n\tallow = always\n[safe]\n\tdirectory = *\n',
            encoding="utf-8",
        )
        return home

    def git(self, folder: Path, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True, text=True, check=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"},
        )  # fmt: skip
        return done.stdout.strip()

    def repository(
        self, name: str, states: Sequence[str], *, annotated: bool = False, branch: str = "main"
    ) -> dict[str, str]:
        """Make a repository with a tag for each state, and one more commit on its branch; return their commits."""
        bare = self.folder / "git" / name
        bare.mkdir(parents=True)
        self.git(bare, "init", "--quiet", "--bare")
        commits: dict[str, str] = {}
        for state in (*states, "main"):
            tree = self.git(bare, "mktree")
            parent = [word for last in list(commits.values())[-1:] for word in ("-p", last)]
            commits[state] = self.git(bare, "commit-tree", tree, "-m", state, *parent)
            if state == "main":
                self.git(bare, "update-ref", f"refs/heads/{branch}", commits[state])
            else:
                message = ["-m", state] if annotated else []
                self.git(bare, "tag", *message, state, commits[state])
        return commits

    def hosted(self, name: str, files: Mapping[str, bytes]) -> Path:
        """Make a bare repository of the forge with one commit of some files."""
        bare, work = self.folder / "forge" / name, self.folder / "work" / name
        for path, content in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(content)
        self.git(work, "init", "--quiet")
        self.git(work, "add", "--all", "--force")
        self.git(work, "commit", "--quiet", "-m", "The recipes")
        bare.parent.mkdir(parents=True, exist_ok=True)
        self.git(work, "clone", "--quiet", "--bare", ".", str(bare))
        return bare


def push(registry: str, repository: str, tags: Sequence[str]) -> dict[str, str]:
    """Put one small image for each tag into a registry; return the digests."""
    digests = {}
    for tag in tags:
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Labels": {"tag": tag}}}).encode()
        name = _blob(registry, repository, config)
        manifest = {
            "schemaVersion": 2, "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": name, "size": len(config)}, "layers": [],
        }  # fmt: skip
        answer = requests.put(
            f"http://{registry}/v2/{repository}/manifests/{tag}",
            data=json.dumps(manifest), headers={"Content-Type": _MANIFEST}, timeout=60,
        )  # fmt: skip
        answer.raise_for_status()
        digests[tag] = answer.headers["Docker-Content-Digest"]
    return digests


def _blob(registry: str, repository: str, content: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    begun = requests.post(f"http://{registry}/v2/{repository}/blobs/uploads/", timeout=60)
    begun.raise_for_status()
    requests.put(begun.headers["Location"], params={"digest": digest}, data=content, timeout=60).raise_for_status()
    return digest


def listed(forge: Forge, index: str, project: str, versions: Sequence[str]) -> None:
    """Put wheels of a project on a page of an index."""
    links = "".join(_link(project, version) for version in versions)
    forge.pages[f"/{index}/{project}/"] = f"<html><body>{links}</body></html>"


def flat(forge: Forge, page: str, versions: Mapping[str, Sequence[str]]) -> None:
    """Make an index of one page, with the wheels of all projects."""
    links = "".join(_link(project, version) for project, many in versions.items() for version in many)
    forge.pages[f"/{page}"] = f"<html><body>{links}</body></html>"


def _link(project: str, version: str) -> str:
    file = f"{project.replace('-', '_')}-{version}-py3-none-any.whl"
    return f'<a href="{file.replace("+", "%2B")}#sha256={"0" * 64}">{file}</a>\n'


def release(tag: str, version: str, **files: bytes) -> Release:
    """Return a release with files that have its version in their names, and a file of checksums beside them."""
    named = {f"{name}-{version}.tar.gz": content for name, content in files.items()}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in named.items())
    return Release(tag=tag, files={**named, "SHA256SUMS": sums.encode()})
