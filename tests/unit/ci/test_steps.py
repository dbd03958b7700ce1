"""What steps hand on: outputs and summaries in GitHub's files, logins by the environment, pins of all images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from builder.cli.actions import add_summary, set_outputs
from builder.cli.app import app
from builder.errors import EngineError, RecipeError

from ..recipe.samples import SMALL

PASSWORD = "the-password-of-this-test"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    return tmp_path


def call(*words: str, env: dict[str, str] | None = None) -> Any:
    return CliRunner().invoke(app, words, env=env)


def test_outputs_and_summaries_are_appended(files: Path) -> None:
    set_outputs({"one": "1"})
    set_outputs({"two": "2", "none": ""})
    add_summary("# Title\n")
    add_summary("more")
    assert (files / "output").read_text() == "one=1\ntwo=2\nnone=\n"
    assert (files / "summary").read_text() == "# Title\n\nmore\n\n"


@pytest.mark.parametrize("value", ["a\nb=c", "a\rb"])
def test_an_output_never_holds_another_one(files: Path, value: str) -> None:
    with pytest.raises(ValueError, match="an output is one line: name"):
        set_outputs({"name": value})
    assert not (files / "output").exists()


def test_outside_of_such_a_step_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "")
    monkeypatch.chdir(tmp_path)
    set_outputs({"one": "1"})
    add_summary("text")
    assert list(tmp_path.iterdir()) == []


def test_the_pins_of_images_without_a_record_are_an_empty_object(files: Path) -> None:
    recipe = files / "images/probe/recipe.toml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(SMALL)
    told = call("--root", str(files), "ci", "pins", "--json")
    assert (told.exit_code, json.loads(told.stdout)) == (0, {})
    assert (files / "output").read_text() == "pins={}\n"
    assert (files / "summary").read_text() == "No image has a record.\n\n"


@pytest.mark.parametrize(
    ("where", "env", "said"),
    [
        ("ghcr.io/me", {"REGISTRY_USER": "me"}, "no login: REGISTRY_PASSWORD is not set"),
        ("", {"REGISTRY_USER": "me", "REGISTRY_PASSWORD": PASSWORD}, "no login: no registry is named"),
    ],
)
def test_without_a_password_or_a_registry_there_is_no_login(where: str, env: dict[str, str], said: str) -> None:
    told = call("ci", "login", where, env={"REGISTRY_PASSWORD": "", **env})
    assert told.exit_code == 0
    assert said in told.stderr


def test_a_password_without_a_user_is_a_mistake() -> None:
    told = call("ci", "login", "ghcr.io/me", env={"REGISTRY_USER": "", "REGISTRY_PASSWORD": PASSWORD})
    assert isinstance(told.exception, RecipeError)
    assert told.exception.message == "REGISTRY_USER is not set, REGISTRY_PASSWORD is"


def test_a_login_hands_the_password_to_docker_by_its_input_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"

    def answers(status: int) -> None:
        keeps = f'echo "$@" >{tmp_path}/words\ncat >{tmp_path}/input\n'
        docker.write_text(f"#!/bin/sh\n{keeps}echo denied >&2\nexit {status}\n")
        docker.chmod(0o755)

    answers(0)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    env = {"REGISTRY_USER": "me", "REGISTRY_PASSWORD": PASSWORD}
    told = call("ci", "login", "ghcr.io/me/llm", env=env)
    assert told.exit_code == 0
    assert (tmp_path / "words").read_text() == "login --username me --password-stdin ghcr.io\n"
    assert (tmp_path / "input").read_text() == PASSWORD
    assert call("ci", "login", "docker.io/me", env=env).exit_code == 0
    assert (tmp_path / "words").read_text() == "login --username me --password-stdin\n"

    answers(1)
    refused = call("ci", "login", "ghcr.io/me", env=env)
    assert isinstance(refused.exception, EngineError)
    assert refused.exception.message == "ghcr.io: the registry did not let me in"
    assert refused.exception.details == ("denied",)
    assert PASSWORD not in refused.output
