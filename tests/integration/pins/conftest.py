"""Repositories, indexes and archives on loopback, a project that knows them by other addresses and its command."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("rocm-images")
GIT = "https://git.example.org"
FILES = "https://files.example.org"
ROCM = "https://rocm.example.org/whl"
BASE = 'image = "docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:' + "a" * 64 + '"'
ON_IMAGES = f"[base.build]\n{BASE}\n\n[base.runtime]\n{BASE}\n"
HEAD = """
schema = 1
name = "{name}"
description = "Pins on loopback"
gfx = ["gfx1201"]
python = "{python}"
"""
_GIT_ENV = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000", "GIT_ALLOW_PROTOCOL": "file",
}  # fmt: skip


@dataclass
class Repository:
    """A bare repository that the site serves, and the working copy it is changed with."""

    name: str
    bare: Path
    work: Path

    @property
    def url(self) -> str:
        return f"{GIT}/{self.name}"

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.work, env=_GIT_ENV, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, files: dict[str, str], branch: str = "main") -> str:
        self.git("checkout", "--quiet", "-B", branch)
        for name, text in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "change")
        self.push(branch)
        return self.git("rev-parse", "HEAD")

    def push(self, *refs: str) -> None:
        self.git("push", "--quiet", "--force", "origin", *refs)
        self.served()

    def served(self) -> None:
        """Write what a server of plain files needs to know."""
        subprocess.run(["git", "update-server-info"], cwd=self.bare, env=_GIT_ENV, check=True)


@dataclass
class Site:
    """A folder on loopback: `git/`, `simple/` (the default index), `rocm/` (an index of its own), `files/`."""

    root: Path
    url: str
    asked: list[str] = field(default_factory=list)

    def repository(self, name: str) -> Repository:
        bare, work = self.root / "git" / name, self.root.parent / f"work-{name}"
        for command in (
            ["init", "--quiet", "--bare", "-b", "main", bare],
            ["init", "--quiet", "-b", "main", work],
        ):
            subprocess.run(["git", *map(str, command)], env=_GIT_ENV, check=True)
        made = Repository(name=name, bare=bare, work=work)
        made.git("remote", "add", "origin", str(bare))
        made.served()
        return made

    def wheel(
        self, project: str, version: str, *, index: str = "simple", requires: tuple[str, ...] = (),
        yanked: str = "", tag: str = "py3-none-any", listed: str | None = None,
        files: Mapping[str, str] | None = None,
    ) -> str:  # fmt: skip
        """Publish a wheel, of a module and `files`, and return its sha256; the page says `listed` in its place."""
        normal = project.replace("-", "_")
        info = f"{normal}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
        metadata += "".join(f"Requires-Dist: {wanted}\n" for wanted in requires)
        data = io.BytesIO()
        held = {f"{normal}.py": f"version = {version!r}\n", **(files or {})}
        held |= {
            f"{info}/METADATA": metadata,
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        }
        record = f"{info}/RECORD"
        with zipfile.ZipFile(data, "w") as archive:
            for name, text in (held | {record: "".join(f"{name},,\n" for name in (*held, record))}).items():
                archive.writestr(zipfile.ZipInfo(name), text)
        file = f"{normal}-{version}-{tag}.whl"
        return self._list(project, index, file, data.getvalue(), yanked, listed)

    def sdist(self, project: str, version: str, files: dict[str, str], *, yanked: str = "") -> str:
        """Publish a source archive on the default index and return its sha256."""
        data = archive_of({f"{project}-{version}/{name}": text for name, text in files.items()})
        return self._list(project, "simple", f"{project}-{version}.tar.gz", data, yanked, None)

    def archive(self, name: str, data: bytes) -> str:
        (self.root / "files").mkdir(exist_ok=True)
        (self.root / "files" / name).write_bytes(data)
        return hashlib.sha256(data).hexdigest()

    def _list(self, project: str, index: str, file: str, data: bytes, yanked: str, listed: str | None) -> str:
        folder = self.root / index / project
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        mark = f' data-yanked="{yanked}"' if yanked else ""
        with (folder / "index.html").open("a") as page:
            page.write(f'<a href="{file.replace("+", "%2B")}#sha256={listed or sha256}"{mark}>{file}</a>\n')
        return sha256


def archive_of(files: dict[str, str]) -> bytes:
    """Return a .tar.gz of texts, the same bytes each time."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


@contextmanager
def serving(root: Path) -> Iterator[Site]:
    """Serve a folder on loopback."""
    for folder in ("git", "simple", "rocm", "files"):
        (root / folder).mkdir(parents=True)
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            asked.append(self.path)

        def end_headers(self) -> None:
            self.send_header("Cache-Control", "no-cache")
            super().end_headers()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Site(root=root, url=f"http://127.0.0.1:{server.server_port}", asked=asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving(tmp_path / "site") as made:
        yield made


@dataclass
class Outcome:
    """What the command did."""

    code: int
    out: str
    err: str


@dataclass
class Project:
    """A recipe repository whose `mirrors.toml` leads to the site."""

    root: Path
    env: dict[str, str]

    def recipe(self, text: str, *, name: str = "probe", python: str = "3.12", base: str = ON_IMAGES) -> None:
        path = self.root / "images" / name / "recipe.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        tables = re.search(r"^\[", text, re.MULTILINE)  # what stands before them belongs to the top level
        place = tables.start() if tables is not None else len(text)
        path.write_text(HEAD.format(name=name, python=python) + text[:place] + "\n" + base + "\n" + text[place:])

    def lock_file(self, name: str = "probe") -> Path:
        return self.root / "images" / name / "recipe.lock"

    def run(self, *words: str) -> Outcome:
        done = subprocess.run(
            [str(PROGRAM), "--root", str(self.root), *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)

    def lock(self, *words: str, name: str = "probe") -> str:
        """Lock and return the text of the lock."""
        outcome = self.run("lock", name, *words)
        assert outcome.code == 0, outcome.err
        return self.lock_file(name).read_text()

    def refused(self, *words: str, code: int = 3, name: str = "probe") -> str:
        """Assert that a lock is refused and nothing is written, over an old lock or anew; return why."""
        folder, file = self.lock_file(name).parent, self.lock_file(name)
        before = sorted(path.name for path in folder.iterdir())
        old = file.read_bytes() if file.exists() else None
        outcome = self.run("lock", name, *words)
        assert outcome.code == code, (outcome.code, outcome.err)
        assert outcome.out == ""
        assert sorted(path.name for path in folder.iterdir()) == before
        assert (file.read_bytes() if file.exists() else None) == old
        return outcome.err[outcome.err.index("error: ") :]


def project_at(root: Path, site: Site) -> Project:
    """Make a project that gets everything from the site."""
    (root / "images").mkdir(parents=True)
    (root / "mirrors.toml").write_text(
        f'[git]\n"{GIT}" = "{site.url}/git"\n'
        f'[indexes]\ndefault = "{site.url}/simple"\n"{ROCM}" = "{site.url}/rocm"\n'
        f'[archives]\n"{FILES}" = "{site.url}/files"\n'
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "GIT_"))}
    kept = {name: value for name, value in kept.items() if not name.lower().endswith("_proxy")}
    env = kept | {"PIP_CONFIG_FILE": os.devnull, "HOME": str(root.parent), "NO_COLOR": "1"}
    return Project(root=root, env=env)


@pytest.fixture
def project(tmp_path: Path, site: Site) -> Project:
    return project_at(tmp_path / "project", site)
