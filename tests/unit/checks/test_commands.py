"""The commands `check` and `plan` as they are called, on machines without an engine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from builder.cli.app import app
from builder.errors import EngineError, LockError, RecipeError
from builder.project import known, prepare
from builder.record import dump, pin, state
from builder.workspace import Workspace, write_atomic

from .conftest import COMPILING, Add


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which no engine answers and nobody set anything."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ROCM_IMAGES_MIRRORS", raising=False)


def call(workspace: Workspace, *words: str) -> Result:
    return CliRunner().invoke(app, ["--root", str(workspace.root), *words])


def built(workspace: Workspace, name: str, *, passed: bool = True) -> None:
    """Leave what a build leaves."""
    of = prepare(workspace, name)
    text = state(
        inputs=of.inputs, content_key=of.content_key, test_key=of.test_key, digest=f"sha256:{'d' * 64}",
        passed=passed,
    )  # fmt: skip
    write_atomic(workspace.dist / name / "state.json", text)
    assert known(workspace, of) is not None


def committed(workspace: Workspace, name: str, **changed: Any) -> dict[str, Any]:
    """Write the record of an image as a clone has it, where nothing was ever built."""
    of = prepare(workspace, name)
    digest = f"sha256:{'d' * 64}"
    table: dict[str, Any] = pin(
        of.recipe, of.lock, reference=f"registry.example.org/llm/{of.recipe.name}:{of.tag}@{digest}",
        digest=digest, content_key=of.content_key, test_key=of.test_key, lock_hash=of.lock_hash,
        fingerprint=of.fingerprint, inputs=of.fingerprint_inputs, below=of.named_below, layers=(), patches=[],
        smoke={"tiers": {"cpu": "passed", "gpu": "not run"}, "tests": {}},
    ) | changed  # fmt: skip
    write_atomic(workspace.pin(name), dump(table))
    return table


def test_check_says_which_images_are_in_order_and_ends_with_the_class_of_the_worst(
    workspace: Workspace, add: Add
) -> None:
    add("good")
    assert call(workspace, "check").exit_code == 0
    add("unlocked", locked=False)
    outcome = call(workspace, "check")
    assert outcome.exit_code == 3
    assert "good: recipe and lock are in order" in outcome.output
    assert "error: images/unlocked/recipe.lock: the recipe was never locked\n" in outcome.output
    assert "  hint: rocm-images lock unlocked\n" in outcome.output
    assert "unlocked: recipe and lock are in order" not in outcome.output
    add("lacking", runtime=COMPILING)
    assert call(workspace, "check").exit_code == 2
    assert call(workspace, "check", "good").exit_code == 0


OPEN = '[[open]]\npin = "lock"\nreason = "its index could not be reached"\n'


def test_an_image_with_an_open_pin_is_named_and_left_out_by_what_is_for_all(
    workspace: Workspace, add: Add
) -> None:
    add("good")
    add("waiting", locked=False, more=OPEN)
    outcome = call(workspace, "check")
    assert outcome.exit_code == 0
    assert (
        "warning: images/waiting/recipe.toml: lock: open: its index could not be reached\n"
        "  hint: rocm-images lock waiting\n"
        "waiting: the recipe is in order, and not built while pins are open (1 warning)\n"
    ) in outcome.output
    left_out = "waiting: left out, its pins are open: rocm-images check waiting\n"
    for words in (["plan"], ["lock", "--check"]):
        outcome = call(workspace, *words)
        assert outcome.exit_code == 0, outcome.output
        assert left_out in outcome.output
        assert left_out not in call(workspace, *words, "good").output
    outcome = call(workspace, "plan", "waiting")
    assert isinstance(outcome.exception, LockError)
    assert outcome.exception.message == "images/waiting/recipe.lock: the recipe was never locked"


def test_check_writes_json_that_names_everything(workspace: Workspace, add: Add) -> None:
    add("lacking", runtime=COMPILING)
    outcome = call(workspace, "check", "--json")
    assert outcome.exit_code == 2
    (error,) = (finding for finding in json.loads(outcome.stdout) if finding["severity"] == "error")
    assert error == {
        "image": "lacking", "severity": "error", "exit-code": 2, "check": "jit-packages",
        "file": "images/lacking/recipe.toml", "key": "base.runtime.apt",
        "message": "libssl-dev is missing in the runtime stage: needed for openssl/sha.h (engine/hash.cpp)",
        "hint": "add 'libssl-dev' to base.runtime.apt, then: rocm-images lock lacking",
        "details": ["openssl/sha.h (engine/hash.cpp)"],
    }  # fmt: skip


def test_check_of_an_image_that_is_not_there_names_those_that_are(workspace: Workspace, add: Add) -> None:
    add("good")
    outcome = call(workspace, "check", "goood")
    assert outcome.exit_code == 2
    assert "there is no image called 'goood'; known: good" in outcome.output


def test_plan_needs_no_engine_and_goes_by_the_record_alone(workspace: Workspace, add: Add) -> None:
    add("new")
    add("done")
    built(workspace, "done")
    add("failed")
    built(workspace, "failed", passed=False)
    outcome = call(workspace, "plan", "--json")
    assert outcome.exit_code == 0
    assert {each["image"]: each["action"] for each in json.loads(outcome.stdout)} == {
        "new": "build", "done": "skip", "failed": "retest",
    }  # fmt: skip
    assert isinstance(call(workspace, "plan", "--publish", "127.0.0.1:9/team").exception, EngineError)


def test_plan_says_what_changed_since_the_record(workspace: Workspace, add: Add) -> None:
    add("one")
    built(workspace, "one")
    add("one", more='[image]\nworkdir = "/elsewhere"\n', runtime=(*COMPILING, "libssl-dev", "hipcc", "zstd"))
    outcome = call(workspace, "plan")
    assert outcome.exit_code == 0
    assert "image.workdir: /srv -> /elsewhere" in outcome.output
    assert "2 Debian packages: hipcc is new, zstd is new" in outcome.output


def test_a_clone_with_a_committed_record_is_planned_as_where_it_was_built(workspace: Workspace, add: Add) -> None:
    add("done")
    committed(workspace, "done")
    add("other-tests")
    committed(workspace, "other-tests", **{"test-key": "0" * 64})
    add("failed")
    committed(workspace, "failed", smoke={"tiers": {"cpu": "failed"}, "tests": {}})
    for name, text in (("damaged", "<<<<<<< ours\n"), ("former", '{"schema": 1}'), ("half", '{"schema": 2}')):
        add(name)
        write_atomic(workspace.pin(name), text)
    assert not workspace.dist.exists()
    planned = json.loads(call(workspace, "plan", "--json").stdout)
    assert {each["image"]: each["action"] for each in planned} == {
        "done": "skip", "other-tests": "retest", "failed": "retest", "damaged": "build", "former": "build",
        "half": "build",
    }  # fmt: skip


def test_plan_says_what_changed_since_a_committed_record(workspace: Workspace, add: Add) -> None:
    add("one")
    committed(workspace, "one")
    add("one", more='[image]\nworkdir = "/elsewhere"\n', runtime=(*COMPILING, "libssl-dev", "hipcc", "zstd"))
    outcome = call(workspace, "plan")
    assert "one: build - " in outcome.output
    assert "image.workdir: /srv -> /elsewhere" in outcome.output
    assert "2 Debian packages: hipcc is new, zstd is new" in outcome.output


def test_what_was_built_here_last_counts_unless_the_record_alone_is_of_todays_content(
    workspace: Workspace, add: Add
) -> None:
    add("one")
    committed(workspace, "one")
    built(workspace, "one", passed=False)
    of = prepare(workspace, "one")
    here = known(workspace, of)
    assert here is not None
    assert not here.passed
    write_atomic(
        workspace.dist / "one/state.json",
        state(inputs={}, content_key="0" * 64, test_key="", digest=f"sha256:{'e' * 64}", passed=True),
    )
    there = known(workspace, of)
    assert there is not None
    assert (there.content_key, there.digest, there.passed) == (of.content_key, f"sha256:{'d' * 64}", True)
    write_atomic(
        workspace.dist / "one/state.json",
        state(inputs={}, content_key=of.content_key, test_key="0" * 64, digest=f"sha256:{'e' * 64}", passed=True),
    )
    assert known(workspace, of) == there  # which was tested as it would be now
    committed(workspace, "one", **{"test-key": "1" * 64})
    tested_otherwise = known(workspace, of)
    assert tested_otherwise is not None
    assert tested_otherwise.digest == f"sha256:{'e' * 64}"
    write_atomic(
        workspace.dist / "one/state.json",
        state(inputs={}, content_key="0" * 64, test_key="", digest=f"sha256:{'e' * 64}", passed=True),
    )
    committed(workspace, "one", **{"content-key": "1" * 64})
    older = known(workspace, of)
    assert older is not None
    assert older.content_key == "0" * 64


def test_plan_orders_images_by_what_they_are_built_on_and_makes_a_matrix(workspace: Workspace, add: Add) -> None:
    base = "".join(f'[base.{stage}]\nrecipe = "%s"\n' for stage in ("build", "runtime"))
    add("z-bottom")
    add_on(add, workspace, "m-middle", base % ("z-bottom", "z-bottom"))
    add_on(add, workspace, "a-top", base % ("m-middle", "m-middle"))
    table = json.loads(call(workspace, "plan", "a-top", "--matrix").stdout)
    assert [(each["image"], each["needs"], each["level"]) for each in table["include"]] == [
        ("z-bottom", [], 0), ("m-middle", ["z-bottom"], 1), ("a-top", ["m-middle"], 2),
    ]  # fmt: skip
    built(workspace, "z-bottom")
    table = json.loads(call(workspace, "plan", "--matrix").stdout)
    assert [(each["image"], each["needs"], each["action"]) for each in table["include"]] == [
        ("m-middle", [], "build"), ("a-top", ["m-middle"], "build"),
    ]  # fmt: skip


def add_on(add: Add, workspace: Workspace, name: str, bases: str) -> None:
    """Add an image on another one, with a lock that was made on it."""
    from builder.lockfile import LockedBase, dump_lock, parse_lock, provided_hash
    from builder.project import images_below, load_recipe

    add(name, bases=bases)
    offered = {base: each.offered for base, each in images_below(workspace, load_recipe(workspace, name)).items()}
    path = workspace.lock(name)
    lock = parse_lock(path.read_text(), file=path.name)
    table = {base: LockedBase(provides=provided_hash(packages)) for base, packages in offered.items()}
    path.write_text(dump_lock(lock.model_copy(update={"base": table})))


def test_plan_names_a_circle(workspace: Workspace, add: Add) -> None:
    for name, base in (("one", "two"), ("two", "one")):
        stages = "".join(f'[base.{stage}]\nrecipe = "{base}"\n' for stage in ("build", "runtime"))
        add(name, bases=stages)
    outcome = call(workspace, "plan")
    assert isinstance(outcome.exception, RecipeError)
    assert "a circle: " in outcome.exception.message
