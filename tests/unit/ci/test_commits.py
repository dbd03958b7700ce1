"""What a run commits: changed files below its paths, as one author, pushed without force and without a trace."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from builder import process
from builder.ci import commits
from builder.cli.app import app

ROOT = Path(__file__).resolve().parents[3]
BRANCH = "renovate/image-tiny"


def git(folder: Path, *words: str) -> str:
    done = process.run(
        ["git", "-c", "user.name=someone", "-c", "user.email=someone@example.org", "-C", folder, *words]
    )
    assert done.status == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    bare = tmp_path / "origin.git"
    bare.mkdir()
    git(bare, "init", "--bare", "--quiet", "--initial-branch", "main")
    return bare


@pytest.fixture
def clone(origin: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(origin), str(folder))
    (folder / "images/tiny").mkdir(parents=True)
    (folder / "images/tiny/recipe.lock").write_text("old\n")
    git(folder, "checkout", "--quiet", "-b", BRANCH)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    git(folder, "push", "--quiet", "origin", BRANCH)
    return folder


def commit(clone: Path, *more: str, **env: str) -> Any:
    words = ["--root", str(clone), "ci", "commit", "images", "--message", "Lock what was bumped", *more]
    return CliRunner().invoke(app, words, env=env)


def test_a_changed_lock_and_a_new_one_are_committed_by_the_author_that_renovate_ignores(
    clone: Path, origin: Path, tmp_path: Path
) -> None:
    (clone / "images/tiny/recipe.lock").write_text("new\n")
    (clone / "images/other").mkdir()
    (clone / "images/other/recipe.lock").write_text("other\n")
    (clone / "elsewhere.txt").write_text("not asked for\n")
    told = commit(clone, "--push", BRANCH, GITHUB_OUTPUT=str(tmp_path / "output"))
    assert told.exit_code == 0, told.output
    made = git(origin, "rev-parse", BRANCH)
    assert told.stdout == f"{made}\n"
    assert (tmp_path / "output").read_text() == f"commit={made}\n"
    who = "rocm-images <rocm-images@users.noreply.github.com>"
    shown = git(origin, "show", "--name-only", "--format=%an <%ae>, %cn <%ce>: %s", BRANCH)
    assert shown.splitlines() == [
        f"{who}, {who}: Lock what was bumped", "", "images/other/recipe.lock", "images/tiny/recipe.lock"
    ]  # fmt: skip
    assert git(clone, "status", "--porcelain") == "?? elsewhere.txt"


def test_nothing_changed_is_nothing_to_commit(clone: Path, origin: Path, tmp_path: Path) -> None:
    before = git(origin, "rev-parse", BRANCH)
    told = commit(clone, "--push", BRANCH, GITHUB_OUTPUT=str(tmp_path / "output"))
    assert (told.exit_code, told.stdout) == (0, "")
    assert (tmp_path / "output").read_text() == "commit=\n"
    assert git(origin, "rev-parse", BRANCH) == before


def test_a_branch_that_went_on_meanwhile_is_left_alone(clone: Path, origin: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", "--branch", BRANCH, str(origin), str(other))
    git(other, "commit", "--quiet", "--amend", "-m", "rebased")
    git(other, "push", "--quiet", "--force", "origin", BRANCH)
    (clone / "images/tiny/recipe.lock").write_text("new\n")
    told = commit(clone, "--push", BRANCH, GITHUB_OUTPUT=str(tmp_path / "output"))
    assert told.exit_code == 0, told.output
    assert f"{BRANCH}: the branch went on meanwhile; nothing was pushed" in told.stderr
    assert (tmp_path / "output").read_text() == "commit=\n"
    assert git(origin, "log", "-1", "--format=%s", BRANCH) == "rebased"


def test_a_push_that_is_refused_ends_with_8_and_without_the_token(clone: Path, origin: Path) -> None:
    hook = origin / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'branch is protected' >&2\nexit 1\n")
    hook.chmod(0o755)
    (clone / "images/tiny/recipe.lock").write_text("new\n")
    told = commit(clone, "--push", BRANCH, GITHUB_TOKEN="ghs_secret")
    assert type(told.exception).__name__ == "EngineError"
    assert getattr(told.exception, "exit_code", None) == 8
    assert any("branch is protected" in line for line in getattr(told.exception, "details", ()))
    assert "ghs_secret" not in str(getattr(told.exception, "details", ())) + told.output


def test_git_is_told_the_token_for_the_server_of_origin_by_its_environment() -> None:
    env = commits._login("https://forge.example/octo/recipes", "ghs_secret")
    done = process.run(
        ["git", "config", "--get-urlmatch", "http.extraheader", "https://forge.example/octo/recipes"], env=env
    )
    basic = base64.b64encode(b"x-access-token:ghs_secret").decode()
    assert done.stdout == f"AUTHORIZATION: basic {basic}\n"
    other = process.run(
        ["git", "config", "--get-urlmatch", "http.extraheader", "https://elsewhere.example/x"], env=env
    )
    assert other.stdout == ""
    assert os.environ.get("GIT_CONFIG_COUNT") is None


def test_renovate_is_told_to_ignore_this_author() -> None:
    preset = json.loads((ROOT / "default.json").read_text(encoding="utf-8"))
    assert preset["gitIgnoredAuthors"] == [commits.EMAIL]
