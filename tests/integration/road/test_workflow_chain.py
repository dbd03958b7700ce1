"""The robot's loop on loopback: a commit upstream, its branch, the bump, the merge, the images, a deployment."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ..project import REPOSITORY, Project
from ..renovate.forge import Forge, Hosted, served
from ..renovate.tool import installed
from ..renovate.tool import run as renovate
from ..renovate.upstreams import Upstream as Upstreams
from .acting import Repository, Run, git
from .conftest import Tiny

pytestmark = pytest.mark.engine

RENOVATE_JSON = """\
{
  "extends": ["local>example/rocm-images"],
  "enabledManagers": ["custom.jsonata"],
  "packageRules": [{ "matchDatasources": ["pypi"], "enabled": false }]
}
"""
SETTINGS = {
    "onboarding": False, "githubTokenWarn": False, "fetchChangeLogs": "off", "repositoryCache": "disabled",
    "gitAuthor": "bot <bot@example.com>", "hostRules": [{"matchHost": "127.0.0.1", "allowInternal": True}],
}  # fmt: skip
THIS = "1" * 40  # the commit that a user's workflow names this program by
PROGRAM = "octo/rocm-images"
BRANCH = "renovate/image-tiny"
MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: engine}
spec:
  template:
    spec:
      containers:
        - name: engine
          image: REPOSITORY:0.0.1@sha256:%s  # pinned
""" % ("0" * 64)


def described() -> dict[str, str]:
    """Return the workflows that docs/ci.md tells users to write, by file name, with this program as it is here."""
    page = (REPOSITORY / "docs/ci.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n# \.github/workflows/(\S+)\n(.*?)```", page, re.DOTALL)
    return {name: text.replace("OWNER/REPO", PROGRAM).replace("COMMIT", THIS) for name, text in blocks}


@dataclass
class Upstream:
    """The repository that the image is made of, served by git's own daemon."""

    folder: Path
    port: int

    @property
    def address(self) -> str:
        return f"git://127.0.0.1:{self.port}/marker"

    def commit(self, **files: str) -> str:
        work = self.folder / "marker"
        for name, text in files.items():
            (work / name.replace("_", ".")).write_text(text)
        git(work, "add", "--all")
        git(work, "commit", "--quiet", "--message", f"change {', '.join(files)}")
        return git(work, "rev-parse", "HEAD")


@contextlib.contextmanager
def upstream(folder: Path) -> Iterator[Upstream]:
    work = folder / "marker"
    work.mkdir(parents=True)
    git(work, "init", "--quiet", "--initial-branch", "main")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    daemon = subprocess.Popen(
        ["git", "daemon", "--export-all", "--reuseaddr", "--listen=127.0.0.1", f"--port={port}",
         f"--base-path={folder}", str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        answers = ["git", "ls-remote", f"git://127.0.0.1:{port}/marker"]
        while subprocess.run(answers, capture_output=True, check=False).returncode:
            assert daemon.poll() is None
            time.sleep(0.05)
        yield Upstream(folder=folder, port=port)
    finally:
        daemon.terminate()
        daemon.wait()


@dataclass
class Told:
    """As much of GitHub's API as a comment on a pull request needs."""

    comments: list[str] = field(default_factory=list)
    address: str = ""


@contextlib.contextmanager
def api() -> Iterator[Told]:
    held = Told()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            table: list[dict[str, Any]] = []
            if "/pulls?" in self.path and f"head=octo%3A{BRANCH.replace('/', '%2F')}" in self.path:
                table = [{"number": 7}]
            elif "/issues/7/comments" in self.path:
                table = [{"id": number, "body": body} for number, body in enumerate(held.comments)]
            self._answer(table)

        def do_POST(self) -> None:
            held.comments.append(self._body())
            self._answer({"html_url": "https://forge.example/7"})

        def do_PATCH(self) -> None:
            held.comments[int(self.path.rpartition("/")[2])] = self._body()
            self._answer({"html_url": "https://forge.example/7"})

        def _body(self) -> str:
            return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

        def _answer(self, table: object) -> None:
            data = json.dumps(table).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        held.address = f"http://127.0.0.1:{server.server_address[1]}"
        yield held
        server.shutdown()


@dataclass
class Robot:
    """A user's repository of recipes with the workflows of this program, and what is around it."""

    repository: Repository
    upstream: Upstream
    told: Told

    @property
    def project(self) -> Project:
        return self.repository.project

    def images(self) -> Run:
        run = self._act("images.yml")
        assert run.ended.status == 0, run.said
        git(self.repository.folder, "pull", "--quiet", "--rebase", "origin", "main")
        return run

    def propose(self) -> Run:
        """Let Renovate see what is new upstream; run the bump on the branch that it makes."""
        folder, tool = self.repository.folder, installed()
        place = self.project.folder / f"renovate-{self.repository.runs}"
        place.mkdir()
        made = Upstreams(folder=place)
        preset = {"default.json": (REPOSITORY / "default.json").read_bytes()}
        with served(Forge()) as forge:
            forge.hosted["example/rocm-images"] = Hosted(bare=made.hosted("example/rocm-images", preset))
            forge.hosted["octo/recipes"] = Hosted(bare=self.repository.origin)
            ran = renovate(
                tool, ("octo/recipes",), folder=place / "run", home=made.home, forge=forge.address,
                index=f"{forge.address}/none/", settings=SETTINGS,
            )  # fmt: skip
        assert ran.problems == []
        git(folder, "fetch", "--quiet", "origin")
        git(folder, "checkout", "--quiet", "-B", BRANCH, f"origin/{BRANCH}")
        return self._act("bump.yml")

    def merge(self) -> None:
        folder = self.repository.folder
        git(folder, "fetch", "--quiet", "origin")
        git(folder, "checkout", "--quiet", "main")
        git(folder, "merge", "--quiet", "--no-ff", "--message", "Merge", f"origin/{BRANCH}")
        git(folder, "push", "--quiet", "origin", "main", f":refs/heads/{BRANCH}")

    def fetchable(self) -> Run:
        return self._act("fetchable.yml", event="schedule")

    def _act(self, workflow: str, *, event: str = "push") -> Run:
        return self.repository.act(
            workflow, f"--local-repository={PROGRAM}@{THIS}={REPOSITORY}", "--actor", "robot",
            "--secret", "GITHUB_TOKEN=ghs_of-the-job", "--env", f"GITHUB_API_URL={self.told.address}",
            "--env", "GITHUB_REPOSITORY=octo/recipes", event=event,
        )  # fmt: skip


@pytest.fixture
def robot(tiny: Tiny) -> Iterator[Robot]:
    project = tiny()
    with upstream(project.folder / "upstream") as source, api() as told:
        first = source.commit(marker="one\n", README_md="a marker\n")

        def of_git(recipe: dict[str, Any]) -> None:
            recipe["source"]["marker"] = {
                "git": source.address, "branch": "main", "commit": first, "ignore": ["*.md"]
            }  # fmt: skip

        project.edit("tiny", of_git)
        project.done("lock", "tiny", "--update", "marker")
        workflows = project.workspace.root / ".github/workflows"
        workflows.mkdir(parents=True)
        for name, text in described().items():
            (workflows / name).write_text(text.replace("ghcr.io/ME/llm", project.publish))
        (project.workspace.root / "renovate.json").write_text(RENOVATE_JSON)
        (project.folder / "docker").mkdir()
        repository = Repository(project=project, env={"DOCKER_CONFIG": str(project.folder / "docker")})
        repository.start()
        yield Robot(repository=repository, upstream=source, told=told)


def first_commit(robot: Robot) -> str:
    return git(robot.upstream.folder / "marker", "rev-list", "--max-parents=0", "HEAD")


def test_a_commit_upstream_becomes_a_tested_digest_in_a_deployment_and_one_of_documents_nothing(
    robot: Robot, tmp_path: Path
) -> None:
    project, folder = robot.project, robot.repository.folder
    first = robot.images()
    assert first.jobs == {"plan": "succeeded", "images": "succeeded", "pins": "succeeded", "commit": "succeeded"}
    assert f"{project.publish.partition('/')[0]}: logged in as robot" in first.said
    assert "ghs_of-the-job" not in first.said
    before = json.loads(first.output("pins"))["tiny"]
    assert git(folder, "log", "-1", "--format=%an: %s", "--name-only") == (
        "rocm-images: Record what was built and tested\n\npins/tiny.json"
    )

    # Upstream goes on; Renovate's branch is judged, locked, and told about.
    second = robot.upstream.commit(marker="two\n")
    bump = robot.propose()
    assert bump.ended.status == 0, bump.said
    assert git(robot.repository.origin, "log", "-2", "--format=%an", BRANCH) == "rocm-images\nbot"
    assert git(robot.repository.origin, "show", "--format=", "--name-only", f"{BRANCH}~") == (
        "images/tiny/recipe.toml"
    )
    assert git(robot.repository.origin, "show", "--format=", "--name-only", BRANCH) == "images/tiny/recipe.lock"
    assert len(robot.told.comments) == 1
    assert "\n### tiny: has to be built\n" in robot.told.comments[0]
    assert second[:12] in robot.told.comments[0]

    # Something newer appears: Renovate goes on with the branch, although it has a commit with the lock by now.
    newer = robot.upstream.commit(marker="three\n")
    assert robot.propose().ended.status == 0
    assert newer in git(robot.repository.origin, "show", f"{BRANCH}:images/tiny/recipe.toml")
    assert git(robot.repository.origin, "log", "-3", "--format=%an", BRANCH).startswith("rocm-images\nbot\n")
    assert len(robot.told.comments) == 1
    assert newer[:12] in robot.told.comments[0]

    # Merged, it is built, tested and published; the run hands back what to pin.
    robot.merge()
    run = robot.images()
    assert run.jobs == {"plan": "succeeded", "images": "succeeded", "pins": "succeeded", "commit": "succeeded"}
    after = json.loads(run.output("pins"))["tiny"]
    assert after != before
    digest = after.partition("@")[2]
    assert run.output("digest") == digest
    assert project.served("tiny", digest).headers["Docker-Content-Digest"] == digest
    assert f"| tiny | 26.4 | cpu passed, gpu not run | `{after}` |" in run.said
    record = robot.repository.artifacts / "pin-tiny/tiny.json"
    assert json.loads(record.read_text())["reference"] == after
    assert (folder / "pins/tiny.json").read_bytes() == record.read_bytes()

    manifest = tmp_path / "engine.yaml"
    manifest.write_text(MANIFEST.replace("REPOSITORY", after.partition("@")[0].rpartition(":")[0]))
    assert project.run("pin", "apply", str(record), str(manifest)).status == 0
    assert f"          image: {after}  # pinned\n" in manifest.read_text()

    # A commit that touches documents alone: said so, nothing built, and the same digest.
    third = robot.upstream.commit(README_md="a better marker\n")
    bump = robot.propose()
    assert bump.ended.status == 0, bump.said
    assert len(robot.told.comments) == 1
    assert "\n### tiny: no build: no build input changed\n" in robot.told.comments[0]
    robot.merge()
    run = robot.images()
    assert run.jobs == {"plan": "succeeded", "pins": "succeeded", "commit": "succeeded"}
    assert "| tiny | skip | " in run.said
    assert json.loads(run.output("pins"))["tiny"] == after
    published = {reference.partition("@")[0].rpartition(":")[2] for reference in (before, after)}
    assert set(project.tags("tiny")) == published

    # All of it can be fetched, until upstream takes back what was pinned.
    assert robot.fetchable().jobs == {"fetchable": "succeeded"}
    git(robot.upstream.folder / "marker", "update-ref", "refs/heads/main", first_commit(robot))
    gone = robot.fetchable()
    assert gone.jobs == {"fetchable": "failed"}
    assert f"commit {third} is not on branch 'main'" in gone.said
