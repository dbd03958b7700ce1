"""What commands write with --json is what its schema says."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from typer.testing import CliRunner

from builder.cli.app import app
from builder.engine.space import Room
from builder.host.disk import Freed
from builder.outputs import OUTPUTS
from builder.schema import SCHEMAS

from .commands import leaves
from .pages import ROOT

RUN = CliRunner()
CALLS = {
    "list": ["list"],
    "plan": ["plan"],
    "check": ["check"],
    "pins": ["pins"],
    "patches": ["patches", "sglang-debian"],
    "doctor": ["doctor"],
    "registry": ["registry", "status"],
    "ci-pins": ["ci", "pins"],
    "new": ["new", "another", "--from", "sglang-debian"],
    "adopt": ["adopt", str(ROOT / "tests/data/adopt/vllm-nightly/Dockerfile")],
}


def held(kind: str, text: str) -> object:
    table = json.loads(text)
    Draft7Validator(SCHEMAS[kind]()).validate(table)
    return table


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    for name in ("images", "patches"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("kind", CALLS)
def test_what_a_command_writes_is_what_its_schema_says(kind: str, project: Path) -> None:
    ended = RUN.invoke(app, ["--root", str(project), *CALLS[kind], "--json"], catch_exceptions=False)
    assert ended.exit_code in (0, 8), ended.output
    assert held(kind, ended.stdout) is not None


def test_a_new_repository_is_what_its_schema_says(tmp_path: Path) -> None:
    ended = RUN.invoke(app, ["init", str(tmp_path / "mine"), "--json"], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    assert held("init", ended.stdout)


def test_the_code_for_gpus_in_a_folder_is_what_its_schema_says() -> None:
    folder = ROOT / "tests/data/gpu-code"
    words = ["inspect", str(folder), "--gfx", "--want", "gfx1201,gfx942", "--json"]
    ended = RUN.invoke(app, words)
    table = json.loads(ended.stdout)
    Draft7Validator(SCHEMAS["inspect-gfx"]()).validate(table)
    assert table["components"]


def test_room_that_was_given_back_is_what_its_schema_says(tmp_path: Path) -> None:
    for room in (None, Room(folder=tmp_path, free=1, total=2)):
        freed = Freed(images=("a:1",), kept=(), cache=5, room=room)
        assert held("engine-free", json.dumps(asdict(freed), default=str))


def test_pins_are_by_image(project: Path) -> None:
    record = json.loads((ROOT / "tests/data/records/everything.json").read_text())
    (project / "pins").mkdir()
    (project / "pins" / "sglang-debian.json").write_text(json.dumps(record))
    ended = RUN.invoke(app, ["--root", str(project), "ci", "pins", "--json"], catch_exceptions=False)
    assert held("ci-pins", ended.stdout) == {"sglang-debian": record["reference"]}


def test_findings_and_an_engine_that_does_not_answer_are_what_their_schemas_say(
    project: Path,
) -> None:
    recipe = project / "images/sglang-debian/recipe.toml"
    recipe.write_text(recipe.read_text().replace('gfx = ["gfx1100"]', 'gfx = ["gfx1100"]\ncolour = "red"'))
    ended = RUN.invoke(app, ["--root", str(project), "check", "--json"], catch_exceptions=False)
    assert ended.exit_code == 2
    assert held("check", ended.stdout)
    ended = RUN.invoke(app, ["--root", str(project), "engine", "status", "--json"], catch_exceptions=False)
    assert ended.exit_code == 8
    assert held("engine", ended.stdout)


def test_deployments_are_what_their_schema_says(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads((ROOT / "tests/data/records/everything.json").read_text())
    (project / "record.json").write_text(json.dumps(record))
    name = record["reference"].partition("@")[0]
    (project / "compose.yaml").write_text(f"services:\n  llm:\n    image: {name}\n")
    monkeypatch.chdir(project)
    ended = RUN.invoke(app, ["pin", "apply", "record.json", "compose.yaml", "--json"], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    assert held("pin-apply", ended.stdout)


def test_the_results_of_smoke_tests_are_what_their_schema_says() -> None:
    from builder.smoke.findings import Finding
    from builder.smoke.run import SmokeReport, SmokeTest

    found = Finding(cause="no", details=("a",))
    tests = [
        SmokeTest(
            name="a", title="a", tier="cpu", production="b", hint=None, outcome=outcome, seconds=0.5,
            finding=None if outcome == "passed" else found, figures={"x": {"seconds": 1}},
        )
        for outcome in ("passed", "failed", "skipped", "not run")
    ]  # fmt: skip
    report = SmokeReport(image="probe", reference="probe:1", seconds=1.0, tests=tuple(tests))
    assert held("test", report.to_json())


def test_a_table_that_is_none_is_refused_by_its_schema() -> None:
    for kind in OUTPUTS:
        assert not Draft7Validator(SCHEMAS[kind]()).is_valid({"surely": "not"}), kind


def test_every_output_and_every_schema_is_in_the_page_about_the_command_line() -> None:
    page = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([a-z-]+)\.schema\.json\)", page)) == set(SCHEMAS)
    with_json = {
        " ".join(path) for path, command in leaves() if any("--json" in each.opts for each in command.params)
    }
    named = set(re.findall(r"`rocm-images ((?:[a-z-]+ ?)+)", page))
    assert {path for path in with_json if not any(each.startswith(path) for each in named)} == set()
