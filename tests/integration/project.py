"""A recipe repository of a test's own, and the command line run on it as users do: in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import tomli
import tomli_w

from builder.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("rocm-images")
SAFETY_SECONDS = 1500  # a net under a run that hangs; no test is about how long something takes
MANIFEST = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A run of the command line that ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def result(self) -> str:
        """The last line of standard output."""
        return self.stdout.splitlines()[-1]


@dataclass
class Running:
    """A run of the command line that is under way. What it says goes to files: it never waits for a reader."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    @property
    def said(self) -> str:
        return self.err.read_text()

    def wait(self) -> Ended:
        status = self.process.wait(timeout=SAFETY_SECONDS)
        return Ended(status=status, stdout=self.out.read_text(), stderr=self.err.read_text())

    def stop(self) -> None:
        """Interrupt the run if it is still under way, and wait for its end."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=SAFETY_SECONDS)


@dataclass
class Project:
    """A folder with recipes. `publish` is where its images go: a registry, and a namespace of its own."""

    folder: Path
    publish: str
    env: dict[str, str] = field(default_factory=dict)
    runs: int = 0

    @property
    def workspace(self) -> Workspace:
        return Workspace(root=self.folder / "project")

    @property
    def scratch(self) -> Path:
        """The TMPDIR of every run: what is left in it was left behind."""
        return self.folder / "tmp"

    def start(
        self, *words: str, env: Mapping[str, str] | None = None, below: Sequence[str | Path] = ()
    ) -> Running:
        """Start `rocm-images` on this folder, in a process group of its own; `below` is a program to start it."""
        self.runs += 1
        out, err = (self.folder / f"run-{self.runs}.{name}" for name in ("out", "err"))
        given = {
            name: value for name, value in os.environ.items() if name not in ("CI", "GITHUB_ACTIONS", "NO_COLOR")
        }
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*below, COMMAND, "--root", self.workspace.root, *words],
                env=given | self.env | {"TMPDIR": str(self.scratch)} | dict(env or {}),
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True, cwd=self.folder,
            )  # fmt: skip
        return Running(process=process, out=out, err=err)

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """Run `rocm-images` on this folder to its end."""
        return self.start(*words, env=env).wait()

    def done(self, *words: str) -> Ended:
        """Run `rocm-images`; it has to succeed."""
        ended = self.run(*words)
        assert ended.status == 0, ended.stderr
        return ended

    def build(self, image: str, *words: str) -> Ended:
        """Build an image and publish it to this project's namespace."""
        return self.run("build", image, "--publish", self.publish, *words)

    def add(self, image: str, origin: Path, change: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Copy a recipe's folder as `image`; `change` edits the parsed recipe."""
        shutil.copytree(origin, self.workspace.images / image)

        def renamed(recipe: dict[str, Any]) -> None:
            recipe["name"] = image
            if change is not None:
                change(recipe)

        self.edit(image, renamed)

    def edit(self, image: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change a recipe's parsed TOML and write it back."""
        path = self.workspace.recipe(image)
        table = tomli.loads(path.read_text())
        change(table)
        path.write_text(tomli_w.dumps(table))

    def tags(self, image: str) -> list[str]:
        """Return the tags that the registry has of an image, those aside that list what is beside it."""
        answer = requests.get(self._url(image, "tags/list"), timeout=30)
        tags = [] if answer.status_code == 404 else answer.json()["tags"] or []
        return [tag for tag in tags if not tag.startswith("sha256-")]

    def served(self, image: str, reference: str, accept: str = MANIFEST) -> requests.Response:
        """Return the manifest a registry serves under a tag or digest."""
        answer = requests.get(self._url(image, f"manifests/{reference}"), headers={"Accept": accept}, timeout=30)
        answer.raise_for_status()
        return answer

    def files(self) -> set[str]:
        """Return every file of this folder but those that it shares with others."""
        root = self.workspace.root
        return {str(Path(top, name).relative_to(root)) for top, _, names in os.walk(root) for name in names}

    def _url(self, image: str, rest: str) -> str:
        host, _, namespace = self.publish.partition("/")
        return f"http://{host}/v2/{namespace}/{image}/{rest}"


def make_project(publish: str, shared: Mapping[str, Path]) -> Project:
    """Make an empty project. `shared` are folders of its state, by name, that it has in common with others."""
    # Not below pytest's folder, which is closed to other users: mmdebstrap and apt change to one.
    folder = Path(tempfile.mkdtemp(prefix="rocm-images-test."))
    folder.chmod(0o755)
    project = Project(folder=folder, publish=publish)
    project.scratch.mkdir()
    project.workspace.images.mkdir(parents=True)
    project.workspace.state.mkdir()
    for name, place in shared.items():
        (project.workspace.state / name).symlink_to(place)
    return project
