"""Pins asked for where mirrors.toml sends them: folders in place of indexes, repositories, archives and Debian."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.checks.online import check_online
from builder.findings import Finding, exit_code
from builder.lockfile import LockedSource, PythonFile
from builder.mirrors import Mirrors, parse_mirrors
from builder.sources.transport import Patience
from builder.story import Silent
from builder.workspace import Workspace

from .conftest import Add

ONE, TWO = ("1" * 64, "2" * 64)
GIT = "https://git.example/org/engine"


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine whose pip, git and docker say nothing."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "GIT_", "XDG_", "ROCM_IMAGES_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return the folder that stands for the internet."""
    folder = tmp_path / "elsewhere"
    for name in ("simple", "debian", "archives"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.fixture
def ask(workspace: Workspace, elsewhere: Path) -> Callable[[], tuple[Finding, ...]]:
    """Ask whether the pins of image `one` can still be fetched."""
    text = (
        f'[indexes]\ndefault = "file://{elsewhere}/simple"\n[debian]\nmirror = "file://{elsewhere}/debian"\n'
        f'[git]\n"{GIT}" = "file://{elsewhere}/engine.git"\n'
        f'[archives]\n"https://files.example" = "file://{elsewhere}/archives"\n'
    )
    file = workspace.root / "mirrors.toml"
    mirrors = Mirrors(table=parse_mirrors(text.encode(), file=file), file=file)
    quick = Patience(attempts=1, first=0.01)
    return lambda: check_online(workspace, ["one"], mirrors=mirrors, story=Silent(), patience=quick)


def with_debs(elsewhere: Path, *packages: str) -> None:
    for package in packages:
        file = elsewhere / "debian/pool" / f"{package}_1_amd64.deb"
        file.parent.mkdir(exist_ok=True)
        file.write_text("any")


def list_wheel(elsewhere: Path, sha256: str, *, yanked: str = "") -> None:
    folder = elsewhere / "simple" / "project"
    folder.mkdir(exist_ok=True)
    (folder / "project-1-py3-none-any.whl").write_text("any")
    (folder / "index.html").write_text(
        f'<a href="project-1-py3-none-any.whl#sha256={sha256}"{yanked}>project-1-py3-none-any.whl</a>'
    )


WHEEL = PythonFile(
    project="project", version="1", file="project-1-py3-none-any.whl", sha256=ONE, layer="dependencies"
)


def test_pins_that_can_be_fetched_have_no_findings(
    add: Add, elsewhere: Path, ask: Callable[[], tuple[Finding, ...]]
) -> None:
    add("one", runtime=("g++",), python=(WHEEL,))
    with_debs(elsewhere, "g++")
    list_wheel(elsewhere, ONE)
    assert ask() == ()


def test_every_broken_pin_is_told_with_its_key_and_both_values(
    add: Add, elsewhere: Path, ask: Callable[[], tuple[Finding, ...]]
) -> None:
    add("one", runtime=("g++", "gone-a", "gone-b"), python=(WHEEL,))
    with_debs(elsewhere, "g++")
    list_wheel(elsewhere, TWO)
    found = {finding.key: finding for finding in ask()}
    assert set(found) == {"python.project", "deb.gone-a", "deb.gone-b"}
    assert {finding.exit_code for finding in found.values()} == {3}
    assert found["python.project"].line == (
        "images/one/recipe.lock: python.project: project-1-py3-none-any.whl: can no longer be fetched: "
        f"file://{elsewhere}/simple has it with sha256 {TWO}, locked is {ONE}"
    )
    assert found["deb.gone-a"].message.startswith("gone-a_1_amd64.deb: can no longer be fetched: 404 at file:")


def test_a_yanked_file_is_a_broken_pin_with_the_reason(
    add: Add, elsewhere: Path, ask: Callable[[], tuple[Finding, ...]]
) -> None:
    add("one", runtime=(), python=(WHEEL,))
    list_wheel(elsewhere, ONE, yanked=' data-yanked="wrong numbers"')
    (finding,) = ask()
    assert finding.message == "project-1-py3-none-any.whl: yanked by its authors: wrong numbers"
    assert finding.hint == "rocm-images lock --update project"


def test_a_listed_file_that_is_not_there_is_a_broken_pin(
    add: Add, elsewhere: Path, ask: Callable[[], tuple[Finding, ...]]
) -> None:
    add("one", runtime=(), python=(WHEEL,))
    list_wheel(elsewhere, ONE)
    (elsewhere / "simple/project/project-1-py3-none-any.whl").unlink()
    (finding,) = ask()
    assert finding.message.startswith("project-1-py3-none-any.whl: can no longer be fetched: 404")


def git(folder: Path, *words: str) -> str:
    settings = {
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
    }  # fmt: skip
    return subprocess.run(
        ["git", *words], cwd=folder, env=settings, capture_output=True, check=True, text=True
    ).stdout.strip()


def test_a_moved_tag_and_a_lost_archive_are_told_beside_their_sources(
    add: Add, elsewhere: Path, ask: Callable[[], tuple[Finding, ...]], workspace: Workspace
) -> None:
    git(elsewhere, "init", "--quiet", "engine.git")
    repository = elsewhere / "engine.git"
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "first")
    git(repository, "tag", "v1")
    pinned = git(repository, "rev-parse", "HEAD")
    source = f'[source.tree]\ngit = "{GIT}"\ntag = "v1"\ncommit = "{pinned}"\n'
    archive = f'[source.files]\narchive = "https://files.example/x.tar.gz"\nsha256 = "{ONE}"\n'
    held = {
        "tree": LockedSource(commit=pinned, tree="0" * 40),
        "files": LockedSource(sha256=ONE, size=1),
    }
    add("one", runtime=(), more=source + archive, held=held)
    (elsewhere / "archives/x.tar.gz").write_text("any")
    assert ask() == ()
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "second")
    git(repository, "tag", "--force", "v1")
    moved = git(repository, "rev-parse", "HEAD")
    (elsewhere / "archives/x.tar.gz").unlink()
    found = {finding.key: finding for finding in ask()}
    assert found["source.tree.tag"].line == (
        f"images/one/recipe.toml: source.tree.tag: {GIT}: tag 'v1' has moved: pinned is {pinned}, "
        f"it is now at {moved}"
    )
    assert found["source.files.archive"].message.startswith("files: can no longer be fetched: 404")
    assert exit_code(found.values()) == 3


def test_a_registry_that_cannot_be_asked_is_an_error_of_the_last_class(
    add: Add, ask: Callable[[], tuple[Finding, ...]]
) -> None:
    image = f'image = "127.0.0.1:9/base:1@sha256:{ONE}"\n'
    add("one", bases=f"[base.build]\n{image}[base.runtime]\n{image}")
    found = ask()
    assert [finding.key for finding in found] == ["base.build.image", "base.runtime.image"]
    assert exit_code(found) == 8
