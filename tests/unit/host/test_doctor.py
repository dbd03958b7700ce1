"""The doctor and the commands, on a machine that looks bare because PATH and DOCKER_HOST name nothing."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from builder.cli.app import app
from builder.errors import EngineError
from builder.host import engine_service, programs
from builder.host.doctor import examine
from builder.host.engine_service import EngineSettings
from builder.story import Silent


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine with no program on PATH and no engine."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(programs, "_SYSTEM_FOLDERS", ())
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    return tmp_path


def test_a_bare_machine_is_told_every_missing_part_and_how_to_get_it(bare):
    checks = {check.name: check for check in examine(bare)}
    missing = {name for name, check in checks.items() if not check.found}
    assert missing >= {"engine", "docker", "buildx", "registry program", "mmdebstrap", "git", "apt"}
    assert checks["engine"].state == (
        f"no container engine answers at unix://{bare}/none.sock; [Errno 2] No such file or directory"
    )
    assert checks["engine"].remedy == "rocm-images engine up --install"
    assert checks["mmdebstrap"].remedy == "rocm-images install"
    assert all(check.remedy is not None for check in checks.values() if not check.found)
    assert checks["Python"].found
    assert checks["uv"].found


def test_doctor_ends_with_8_and_a_table_or_json_when_something_is_missing(bare):
    told = CliRunner().invoke(app, ["doctor"])
    assert told.exit_code == 8
    assert "MISSING  mmdebstrap" in told.stdout
    assert "get it: rocm-images install" in told.stdout

    told = CliRunner().invoke(app, ["doctor", "--json"])
    assert told.exit_code == 8
    parsed = json.loads(told.stdout)
    assert parsed["complete"] is False
    assert {"name", "found", "state", "needed_for", "remedy"} == set(parsed["checks"][0])


def test_doctor_asks_for_what_signing_needs_only_when_told_to(bare):
    told = CliRunner().invoke(app, ["doctor", "--signing"])
    assert told.exit_code == 8
    assert "MISSING  cosign" in told.stdout
    assert "get it: rocm-images install --signing" in told.stdout
    assert "cosign" not in CliRunner().invoke(app, ["doctor"]).stdout


def test_status_of_an_engine_that_does_not_answer_ends_with_8(bare):
    told = CliRunner().invoke(app, ["--root", str(bare), "engine", "status", "--json"])
    assert told.exit_code == 8
    parsed = json.loads(told.stdout)
    assert parsed["answers"] is False
    assert parsed["started_here"] is False


def test_no_engine_is_started_in_place_of_the_one_docker_host_names(bare):
    with pytest.raises(EngineError) as caught:
        engine_service.up(EngineSettings(folder=bare / "state"), Silent())
    assert caught.value.message == (
        f"no engine answers at unix://{bare}/none.sock, which DOCKER_HOST or the docker context names"
    )
    assert not (bare / "state" / "daemon.json").exists()


def test_without_install_a_missing_engine_program_is_an_error_with_the_command(bare):
    settings = EngineSettings(folder=bare / "state", host=f"unix://{bare}/none.sock", system=None)
    with pytest.raises(EngineError, match="this machine lacks engine program, ") as caught:
        engine_service.up(settings, Silent())
    assert caught.value.hint == "rocm-images engine up --install"
