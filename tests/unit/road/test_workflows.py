"""Workflows: valid, clean for zizmor and shellcheck, pinned, and nothing in them but commands of this program."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from builder import process
from builder.cli.app import app

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.y*ml"))
ACTION = ROOT / ".github/actions/image/action.yml"
OF_THIS_PROJECT = ("check.yml", "release.yml", "rocm-debian.yml")  # nobody else calls them
OF_IMAGES = [path for path in WORKFLOWS if path.name not in OF_THIS_PROJECT]
INSTALL = ".rocm-images/program/requirements/install runtime"
each = pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
each_with_steps = pytest.mark.parametrize("path", [*OF_IMAGES, ACTION], ids=lambda path: path.name)
each_of_images = pytest.mark.parametrize("path", OF_IMAGES, ids=lambda path: path.name)


def load(path: Path) -> dict[str, Any]:
    """Return a workflow or an action; YAML 1.1 reads the key `on` as a truth value."""
    table = yaml.safe_load(path.read_text(encoding="utf-8"))
    return table | {"on": table.pop(True, None)}


def steps(path: Path) -> list[dict[str, Any]]:
    table = load(path)
    return [step for job in table.get("jobs", {"": table.get("runs")}).values() for step in job["steps"]]


def scripts(path: Path) -> list[str]:
    return [step["run"] for step in steps(path) if "run" in step]


def test_there_is_a_workflow_that_runs_the_check_as_a_person_does() -> None:
    assert any("./check\n" in path.read_text(encoding="utf-8") for path in WORKFLOWS)
    assert sorted(path.stem for path in OF_IMAGES) == ["bump", "fetchable", "images", "pins"]


def test_what_takes_too_long_for_the_check_is_built_every_week() -> None:
    path = ROOT / ".github/workflows/rocm-debian.yml"
    assert "schedule" in load(path)["on"]
    assert scripts(path)[-1] == "sudo .venv/bin/rocm-images build vllm-debian-rocm"


@each
def test_every_action_is_pinned_to_a_commit_and_names_its_tag(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        if re.search(r"\buses:(?! \./)", line):
            assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v[0-9]+(\.[0-9]+)*$", line), line


def test_one_action_has_one_pin() -> None:
    pins: dict[str, set[str]] = {}
    for path in [*WORKFLOWS, ACTION]:
        for action, pin in re.findall(r"uses: ([\w/-]+)@(.*)", path.read_text(encoding="utf-8")):
            pins.setdefault(action, set()).add(pin)
    assert {action: len(found) for action, found in pins.items()} == dict.fromkeys(pins, 1)
    ours = {f"actions/{name}" for name in ("checkout", "upload-artifact", "download-artifact")}
    assert set(pins) == ours | {"sigstore/cosign-installer", "pypa/gh-action-pypi-publish"}


def test_workflows_are_what_their_schema_says() -> None:
    done = process.run([BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS])
    assert done.status == 0, done.stdout
    done = process.run([BIN / "check-jsonschema", "--builtin-schema", "vendor.github-actions", ACTION])
    assert done.status == 0, done.stdout


def test_zizmor_has_nothing_to_say() -> None:
    done = process.run([BIN / "zizmor", "--offline", "--no-progress", "--quiet", *WORKFLOWS, ACTION])
    assert done.status == 0, done.stdout


def test_shellcheck_has_nothing_to_say_about_any_step(tmp_path: Path) -> None:
    files = []
    for path in [*WORKFLOWS, ACTION]:
        for number, script in enumerate(scripts(path)):
            files.append(tmp_path / f"{path.stem}-{number}.sh")
            files[-1].write_text(script)
    assert len(files) > 10
    done = process.run([BIN / "shellcheck", "--shell=bash", *files])
    assert done.status == 0, done.stdout


@each_with_steps
def test_a_step_is_one_command_of_this_program_that_there_is(path: Path) -> None:
    for script in scripts(path):
        if script == INSTALL:
            continue
        command: Any = get_command(app)
        program, *words = shlex.split(re.sub(r' >"\$RUNNER_TEMP/[a-z.]+"$', "", script))
        assert program == "rocm-images", script
        assert not re.search(r"[;&|<>`(){}]", script.replace('>"$RUNNER_TEMP/', "")), script
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not hasattr(command, "commands"), script
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        assert {word for word in words if word.startswith("-")} <= known, script


@each_of_images
def test_a_workflow_has_the_least_rights_an_end_and_one_run_at_a_time(path: Path) -> None:
    table = load(path)
    assert table["permissions"] == {}
    assert table["concurrency"]["group"].startswith("rocm-images-")
    for job in table["jobs"].values():
        assert job["permissions"]["contents"] == ("write" if path.name in ("bump.yml", "pins.yml") else "read")
        assert job["timeout-minutes"]
    for step in steps(path):
        if "checkout@" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@each_with_steps
def test_no_value_of_the_run_is_pasted_into_a_script(path: Path) -> None:
    for script in scripts(path):
        assert "${{" not in script
        for variable in re.findall(r"\$\{?(\w+)", script):
            given = next(step.get("env", {}) for step in steps(path) if step.get("run") == script)
            assert variable in given | load(path).get("env", {}) or variable.startswith(("GITHUB_", "RUNNER_"))


@each_of_images
def test_a_users_repository_can_call_a_workflow_and_say_which_program(path: Path) -> None:
    inputs = load(path)["on"]["workflow_call"]["inputs"]
    assert {"program", "program-ref", "runner"} <= set(inputs)
    assert all(each["description"] for each in inputs.values())
    assert not any(each.get("required") for each in inputs.values())
