"""The workflow that checks this project: what it calls, and as whom. A program stands in for ./check itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ..project import make_project
from .acting import WORKFLOWS, Repository

CHECK = """#!/bin/sh
echo "$PWD $*" >"$CHECKED"
exit "$(cat status)"
"""
SUDO = """#!/bin/sh
echo "$*" >>"$CHECKED.sudo"
exec "$@"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("status", [0, 1])
def test_the_check_workflow_gives_root_cosign_and_is_as_green_as_the_check(status: int, tmp_path: Path) -> None:
    project = make_project("127.0.0.1:1/none", {})
    try:
        checked = tmp_path / "checked"
        program(tmp_path / "bin/sudo", SUDO)
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        repository = Repository(project=project, env={"PATH": path, "CHECKED": str(checked)})
        program(repository.folder / "check", CHECK)
        (repository.folder / "status").write_text(str(status))
        (repository.folder / ".github/workflows").mkdir(parents=True)
        shutil.copy(WORKFLOWS / "check.yml", repository.folder / ".github/workflows")
        repository.start()
        run = repository.act("check.yml", "--env", f"CHECKED={checked}")
        assert (run.ended.status == 0) == (status == 0), run.said
        assert checked.read_text().strip()  # without any words of its own
        assert len(checked.read_text().split()) == 1
        assert Path(f"{checked}.sudo").read_text() == "./check\n"
        assert (repository.artifacts / "cosign").read_text() == "into /usr/local/bin, with sudo: true\n"
    finally:
        shutil.rmtree(project.folder)
