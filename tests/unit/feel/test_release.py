"""A release: tag, version and changelog agree, the files are the same every time, and nothing else may publish."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from builder import __version__, process

from .pages import ROOT

WORKFLOW = ROOT / ".github/workflows/release.yml"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in ("builder", "requirements", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder / name)
    changelog = folder / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8").replace("## [Unreleased]", f"## [{__version__}] - 2026-11-30")
    changelog.write_text(text, encoding="utf-8")
    return folder


def released(repository: Path, tag: str, out: str = "out") -> process.Completed:
    return process.run(
        [repository / "requirements/release", tag, out],
        env={"PYTHON": sys.executable, "SOURCE_DATE_EPOCH": "1795252544"},
    )


def test_a_release_is_the_same_files_every_time_with_all_that_the_program_needs(repository: Path) -> None:
    for out in ("one", "two"):
        done = released(repository, f"v{__version__}", out)
        assert done.status == 0, done.stderr
    hashes = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (repository / out).iterdir()}
        for out in ("one", "two")
    ]
    assert hashes[0] == hashes[1]
    assert sorted(hashes[0]) == [
        f"rocm_images-{__version__}-py3-none-any.whl", f"rocm_images-{__version__}.tar.gz",
    ]  # fmt: skip
    names = set(zipfile.ZipFile(repository / "one" / sorted(hashes[0])[0]).namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "builder").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert wanted <= names
    assert "builder/report/page.css" in names


def test_a_tag_that_is_not_the_version_releases_nothing(repository: Path) -> None:
    done = released(repository, "v9.9.9")
    assert done.status == 2
    assert f"error: the tag is v9.9.9, the version is {__version__}" in done.stderr
    assert not (repository / "out").exists()


def test_a_version_without_its_heading_in_the_changelog_releases_nothing(repository: Path) -> None:
    shutil.copy(ROOT / "CHANGELOG.md", repository / "CHANGELOG.md")
    done = released(repository, f"v{__version__}")
    assert done.status == 2
    assert f"error: CHANGELOG.md has no heading of {__version__} with a date" in done.stderr
    assert not (repository / "out").exists()


def test_the_changelog_has_a_place_for_what_is_not_released_yet() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"


def test_only_a_job_without_code_of_this_repository_may_publish() -> None:
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    assert "id-token" not in jobs["build"]["permissions"]
    publish = jobs["publish"]
    assert publish["permissions"] == {"contents": "read", "id-token": "write"}
    assert publish["environment"] == "release"
    assert publish["needs"] == "build"
    assert not any("run" in step or "checkout" in step["uses"] for step in publish["steps"])
    assert "secrets." not in WORKFLOW.read_text(encoding="utf-8")
