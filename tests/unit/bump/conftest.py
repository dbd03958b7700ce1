"""A recipe repository, and the repositories upstream that it pins: real ones, with the same commits each time."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.bump.judging import judge
from builder.bump.markdown import markdown
from builder.bump.report import BumpReport
from builder.checks.inventory import with_inventory
from builder.checks.trees import Fetch
from builder.lockfile import dump_lock
from builder.mirrors import Mirrors, load_mirrors
from builder.project import load_recipe
from builder.resolve import make_lock
from builder.story import Silent
from builder.workspace import Workspace

HOST = "https://github.com/example"
BASE = 'image = "docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:' + "a" * 64 + '"'
KERNEL = """\
from torch.utils.cpp_extension import load

add = load(name="add", sources=["add.cpp"])
LIMIT = 1
"""
ENGINE = {
    "python/engine/__init__.py": "",
    "python/engine/kernels.py": KERNEL,
    "python/engine/add.cpp": "#include <vector>\n",
    "README.md": "An engine.\n",
    "docs/use.md": "How to use it.\n",
}
FIX = """\
--- a/python/engine/kernels.py
+++ b/python/engine/kernels.py
@@ -1,4 +1,4 @@
 from torch.utils.cpp_extension import load

 add = load(name="add", sources=["add.cpp"])
-LIMIT = 1
+LIMIT = 2
"""
RECIPE = """\
schema = 1
name = "{name}"
description = "An engine with a series of a fork"
engine = "engine"
gfx = ["gfx1201"]
python = "3.12"

[base.build]
{base}

[base.runtime]
{base}
apt = ["ninja-build", "python3-setuptools"]

[source.engine]
git = "{host}/engine"
branch = "main"
commit = "{engine}"
ignore = ["docs"]

[source.fork]
git = "{host}/fork"
branch = "main"
commit = "{fork}"

[[component]]
name = "engine"
source = "engine"
version = "1.0"
build = ["cp -R python/. {{destdir}}"]

[[patch]]
name = "series"
target = "engine"
reason = "the card needs more"
upstream = "{host}/engine/pull/1"
drop-when = "upstream has it"
series = {{ source = "fork", directory = "patches", made-for = "{made_for}" }}
"""


class Git:
    """A repository with a work tree; every commit has the same author and the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / ".git").exists():
            self.run("init", "--quiet", "-b", "main")

    def run(self, *words: str) -> str:
        env = {
            "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_DATE": "1700000000 +0000",
            "GIT_COMMITTER_DATE": "1700000000 +0000",
        }  # fmt: skip
        env |= {
            f"GIT_{who}_{key}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, files: dict[str, str]) -> str:
        """Write files and return the commit."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.run("add", "--all")
        self.run("commit", "--quiet", "--allow-empty", "-m", "change")
        return self.run("rev-parse", "HEAD")


@dataclass
class Project:
    """A recipe repository with one engine image, `probe`, and what is upstream of it: an engine and a fork."""

    git: Git
    engine: Git
    fork: Git
    pins: dict[str, str]
    name: str = "probe"

    @property
    def workspace(self) -> Workspace:
        return Workspace(root=self.git.folder)

    @property
    def mirrors(self) -> Mirrors:
        return load_mirrors(self.workspace.root, None)

    def recipe(self, name: str = "probe", **more: str) -> str:
        made = {"made_for": self.pins["engine"], **self.pins, **more}
        return RECIPE.format(name=name, base=BASE, host=HOST, **made)

    def write(self, name: str = "probe", text: str | None = None, **more: str) -> None:
        path = self.workspace.recipe(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text is not None else self.recipe(name, **more))

    def lock(self, *chosen: str) -> None:
        for name in chosen or (self.name,):
            recipe = load_recipe(self.workspace, name)
            lock = make_lock(recipe, workspace=self.workspace, mirrors=self.mirrors, story=Silent())
            fetch = Fetch(mirrors=self.mirrors, story=Silent())
            lock, _ = with_inventory(self.workspace, recipe, lock, old=None, fetch=fetch)
            self.workspace.lock(name).write_text(dump_lock(lock))

    def bump(self, **pins: str) -> str:
        """Commit a recipe with other pins, as a robot does: the lock stays, and what a series is made for."""
        made_for = pins.pop("made_for", self.pins["made_for"])
        self.pins |= {"made_for": made_for, **pins}
        self.write()
        return self.git.commit({})

    def judge(
        self, *chosen: str, revisions: str = "main..bump", write: bool = False, strict: bool = False
    ) -> BumpReport:
        return judge(
            revisions, workspace=self.workspace, mirrors=self.mirrors, story=Silent(), chosen=chosen, write=write,
            strict=strict,
        )  # fmt: skip


def masked(report: BumpReport) -> str:
    """Return a report in words without what depends on this program: content keys and fingerprints."""
    text = markdown(report)
    for image in report.images:
        for moved, name in ((image.content_key, "KEY"), (image.fingerprint, "FINGERPRINT")):
            for side, value in (("NEW", moved.new), ("OLD", moved.old)):
                for shown in (value or "", (value or "")[:12]) if value else ():
                    text = text.replace(shown, name if moved.old == moved.new else f"{side}-{name}")
    return text


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project and what is upstream of it, made and locked once."""
    place = tmp_path_factory.mktemp("bumped")
    with pytest.MonkeyPatch.context() as patched:
        _bare_machine(patched, place)
        made = project_in(place, fresh=True)
        made.write()
        made.lock()
        made.git.commit({".gitignore": "/.rocm-images/\n/dist/\n/mirrors.toml\n"})
    return place


@pytest.fixture
def project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose `main` is locked and in order, with the branch `bump` checked out."""
    _bare_machine(monkeypatch, tmp_path)
    shutil.copytree(template, tmp_path / "all", symlinks=True)
    made = project_in(tmp_path / "all")
    made.git.run("checkout", "--quiet", "-b", "bump")
    return made


def project_in(place: Path, *, fresh: bool = False) -> Project:
    """Return the project in a folder; a fresh one has its files upstream, and none of its own."""
    engine, fork = Git(place / "upstream/engine"), Git(place / "upstream/fork")
    if fresh:
        engine.commit(ENGINE)
        fork.commit({"patches/0001-limit.patch": FIX, "README.md": "A fork.\n"})
    pins = {name: git.run("rev-parse", "HEAD") for name, git in (("engine", engine), ("fork", fork))}
    git = Git(place / "project")
    (git.folder / "mirrors.toml").write_text(f'[git]\n"{HOST}" = "file://{place}/upstream"\n')
    return Project(git=git, engine=engine, fork=fork, pins=pins | {"made_for": pins["engine"]})


def _bare_machine(patched: pytest.MonkeyPatch, home: Path) -> None:
    """Let no configuration of this machine, or of who runs the tests, count."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "GIT_", "XDG_", "ROCM_IMAGES_")) or name.lower().endswith("_proxy"):
            patched.delenv(name)
    patched.setenv("PIP_CONFIG_FILE", os.devnull)
    patched.setenv("HOME", str(home))
