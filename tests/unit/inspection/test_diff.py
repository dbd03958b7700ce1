"""`rocm-images diff` on what can be named: images, lock files, records, revisions, layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from builder.cli.app import app
from builder.errors import EngineError, RecipeError
from builder.record import dump
from builder.workspace import Workspace

from ..compare.conftest import recorded
from .projects import bump, commit, committed, git
from .test_inspect import foreign, ours

SIZES = {"base": 10, "triton": 200, "manifest": 3}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without an engine."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ROCM_IMAGES_MIRRORS", raising=False)
    monkeypatch.chdir(tmp_path)


def call(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["--root", str(root), "diff", *words])


def difference(root: Path, *words: str) -> dict[str, Any]:
    result = call(root, *words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def changed(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["name"], each["old"], each["new"]) for each in found["components"] if each["status"] != "same"]


@pytest.mark.parametrize("under", ["", "llm/images-of-ours"])
def test_a_revision_is_compared_with_what_is_there_now(tmp_path: Path, under: str) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    project = committed(root, under=under)
    bump(project, "triton", "3.7.0")
    project.prepared()
    found = difference(project.root, "HEAD:probe", "probe")
    assert changed(found) == [("triton", "3.6.0", "3.7.0")]
    assert (found["old"]["label"], found["new"]["label"]) == ("HEAD:probe", "probe")
    assert found["content-key"]["moved"] is True
    assert found["pull"]["size"] is None
    lock = str(Workspace(root=project.root).lock("probe"))
    assert changed(difference(project.root, "main:probe", lock)) == [("triton", "3.6.0", "3.7.0")]
    assert git(root, "status", "--porcelain").count("\n") == 1  # recipe and lock, and nothing that diff wrote


def test_an_image_that_has_a_record_is_that_record(tmp_path: Path) -> None:
    project = committed(tmp_path)
    workspace = Workspace(root=tmp_path)
    prepared = project.prepared()
    record = recorded((prepared.recipe, prepared.lock), sizes=SIZES, again=frozenset())
    workspace.pin("probe").parent.mkdir()
    workspace.pin("probe").write_text(dump(record))
    other = recorded((prepared.recipe, prepared.lock), sizes=SIZES, again=frozenset({"triton", "manifest"}))
    (tmp_path / "other.json").write_text(dump(other))
    found = difference(tmp_path, "probe", "other.json")
    assert (found["old"]["document"], found["old"]["label"]) == ("record", "pins/probe.json")
    assert (found["pull"]["size"], found["pull"]["size-of-image"]) == (203, 213)
    assert changed(found) == []
    shown = call(tmp_path, "probe", "other.json", "--markdown").stdout
    assert (
        "A node that has the old image pulls 203 bytes in 2 layers, of 213 bytes: triton 200 B, manifest 3 B."
        in shown
    )


def test_two_images_are_compared_layer_by_layer(tmp_path: Path) -> None:
    committed(tmp_path)
    ours(tmp_path / "a")
    foreign(tmp_path / "b")
    same = difference(tmp_path, "a", "a")
    assert (changed(same), same["pull"]["size"], same["fingerprint"]["moved"]) == ([], 0, False)
    assert same["patches"] is not None
    foreigners = difference(tmp_path, "b", "b")
    assert (changed(foreigners), foreigners["fingerprint"]["moved"]) == ([], None)
    mixed = difference(tmp_path, "a", "b")
    assert ("sglang", "0.5.16", None) in changed(mixed)
    assert mixed["patches"] is None


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (["probe", "none"], EngineError, "no container engine answers"),
        (["nowhere:probe", "probe"], EngineError, "no container engine answers"),
        (
            ["HEAD:none", "probe"],
            RecipeError,
            "images/none/recipe.toml: there is no image called 'none'; known: probe",
        ),
        (["--upload-pack=x:probe", "probe"], SystemExit, "2"),
        (["probe", "Makefile"], RecipeError, "Makefile: neither a record nor a recipe.lock"),
        (["probe", "probe", "--json", "--markdown"], RecipeError, "--json: the output is to be Markdown"),
    ],
)
def test_what_names_nothing_is_refused(
    tmp_path: Path, words: list[str], kind: type[BaseException], message: str
) -> None:
    committed(tmp_path)
    (tmp_path / "Makefile").touch()
    result = call(tmp_path, *words)
    assert isinstance(result.exception, kind), result.output
    assert str(result.exception).startswith(message)


def test_a_lock_that_does_not_fit_its_recipe_is_no_side(tmp_path: Path) -> None:
    project = committed(tmp_path)
    path = Workspace(root=tmp_path).recipe("probe")
    path.write_text(path.read_text().replace('version = "3.6.0"', 'version = "3.7.0"'))
    result = call(tmp_path, "HEAD:probe", "probe")
    assert result.exception is not None
    assert "made for another recipe than the one beside it" in str(result.exception)
    commit(project.root)
    assert call(tmp_path, "HEAD~1:probe", "HEAD~1:probe").exit_code == 0
