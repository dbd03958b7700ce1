"""`rocm-images isolate`: one change at a time, each step whole, the last one what was asked for."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from typer.testing import CliRunner, Result

from builder.cli.app import app
from builder.compare.isolating import steps
from builder.compare.mixing import State, differing
from builder.errors import Failure, RecipeError
from builder.project import prepare
from builder.record import dump, pin
from builder.schema import SCHEMAS
from builder.workspace import Workspace

from ..compare.conftest import PATCH, component, pair
from ..recipe import kinds_of_patches, samples
from ..recipe.on_disk import OnDisk
from .projects import bump, commit, committed, files

DIGEST = f"sha256:{'a' * 64}"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without an engine and without mirrors."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ROCM_IMAGES_MIRRORS", raising=False)


def call(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["--root", str(root), "isolate", *words])


def planned(root: Path, *words: str) -> list[dict[str, Any]]:
    result = call(root, *words, "--json")
    assert result.exit_code == 0, result.output + repr(result.exception)
    Draft7Validator(SCHEMAS["isolate"]()).validate(json.loads(result.stdout))
    builds: list[dict[str, Any]] = json.loads(result.stdout)["builds"]
    return builds


def failure(result: Result) -> Failure:
    assert isinstance(result.exception, Failure), result.output
    return result.exception


def many(project: OnDisk) -> None:
    """Change the contract, a source beside the recipe, and two wheels; the patch of one comes along."""
    project.recipe["image"]["shm"] = "16g"
    (project.source / "kernel.hip").write_text("// another kernel\n")
    project.relock()
    bump(project, "triton", "3.7.0")
    bump(project, "sglang", "0.5.17")
    project.recipe["patch"] = [PATCH]


def test_every_step_changes_one_thing_and_the_last_one_is_what_was_asked_for(tmp_path: Path) -> None:
    project = committed(tmp_path)
    many(project)
    now = project.prepared()
    builds = planned(tmp_path, "HEAD:probe", "probe")
    assert [build["changes"] for build in builds] == [
        "nothing: what is compared with", "the environment contract", "triton 3.6.0 -> 3.7.0",
        "kernels 1.0, otherwise made", "sglang 0.5.16 -> 0.5.17",
    ]  # fmt: skip
    assert builds[-1]["content-key"] == now.content_key
    assert len({build["content-key"] for build in builds}) == len(builds)
    for build in builds:
        assert build["because"] == []
        assert build["command"] == f"rocm-images --root {build['folder']} build probe"
        assert prepare(Workspace(root=Path(build["folder"])), "probe").content_key == build["content-key"]
    last, images = Path(builds[-1]["folder"]), Path("images/probe")
    assert files(last / images) == files(tmp_path / images)
    kernels = [(Path(build["folder"]) / images / "kernels/kernel.hip").read_text() for build in builds]
    assert kernels == ["// a kernel\n"] * 3 + ["// another kernel\n"] * 2
    assert json.loads((last.parent / "plan.json").read_text()) == builds


def test_components_that_ask_for_one_another_are_one_step_that_says_why(tmp_path: Path) -> None:
    project = committed(tmp_path)
    del component(project.recipe, "sglang")["requires"], component(project.recipe, "sglang")["reason"]
    bump(project, "triton", "3.6.1")
    bump(project, "sglang", "0.5.16", ("triton==3.6.1", 'torch; extra == "all"', "numpy>=1"))
    project.prepared()
    commit(tmp_path)
    bump(project, "triton", "3.7.0")
    bump(project, "sglang", "0.5.17", ("triton==3.7.0", "numpy>=1"))
    project.recipe["image"]["shm"] = "16g"
    project.prepared()
    builds = planned(tmp_path, "HEAD:probe", "probe")
    assert [build["changes"] for build in builds[1:]] == [
        "the environment contract", "triton 3.6.1 -> 3.7.0, sglang 0.5.16 -> 0.5.17",
    ]  # fmt: skip
    assert builds[-1]["because"] == [
        "triton alone: sglang 0.5.16 requires triton==3.6.1, there would be 3.7.0",
        "sglang alone: sglang 0.5.17 requires triton==3.7.0, there would be 3.6.1",
    ]
    shown = call(tmp_path, "HEAD:probe", "probe").stdout
    assert (
        "   together, because triton alone: sglang 0.5.16 requires triton==3.6.1, there would be 3.7.0\n" in shown
    )


def test_the_files_of_patches_go_with_the_component_they_are_for(tmp_path: Path) -> None:
    project = committed(tmp_path, text=kinds_of_patches.TEXT)
    series = kinds_of_patches.locked(project, "series")["file"]
    hook = kinds_of_patches.locked(project, "call")["file"]
    for entry in (series[1], hook[0]):
        project.files[entry["file"]] = "another text"
        entry["sha256"] = samples.digest("another text")
    series[0]["file"], gone = "patches/probe/0003-series.patch", series[0]["file"]
    project.files[series[0]["file"]] = project.files.pop(gone)
    series.reverse()
    project.lock["source"]["kernels"]["patched"] = "f" * 40
    now = project.prepared()
    builds = planned(tmp_path, "HEAD:probe", "probe")
    assert [build["changes"] for build in builds[1:]] == [
        "kernels 1.0, otherwise made",
        "sglang 0.5.16, otherwise made",
    ]
    assert builds[-1]["content-key"] == now.content_key

    middle = files(Path(builds[1]["folder"]))
    assert gone not in middle
    assert middle["patches/probe/0003-series.patch"] == gone.encode()
    assert middle[series[0]["file"]] == b"another text"
    assert middle[f"images/probe/{hook[0]['file']}"] == hook[0]["file"].encode()
    assert files(Path(builds[2]["folder"]))[f"images/probe/{hook[0]['file']}"] == b"another text"


def test_a_record_is_the_revision_that_had_its_lock(tmp_path: Path) -> None:
    project = committed(tmp_path)
    then = project.prepared()
    record = pin(
        then.recipe, then.lock, reference=f"r.example.org/x/probe:1@{DIGEST}", digest=DIGEST,
        content_key=then.content_key, test_key="7" * 64, lock_hash=then.lock_hash, fingerprint=then.fingerprint,
        layers=(), smoke={"tiers": {"cpu": "passed"}, "tests": {}}, patches=[],
    )  # fmt: skip
    (tmp_path / "served.json").write_text(dump(record))
    bump(project, "triton", "3.7.0")
    now = project.prepared()
    served = str(tmp_path / "served.json")
    builds = planned(tmp_path, served, "probe")
    assert [build["content-key"] for build in builds] == [then.content_key, now.content_key]
    record["lock"] = f"sha256:{'0' * 64}"
    (tmp_path / "served.json").write_text(dump(record))
    refused = failure(call(tmp_path, served, "probe"))
    assert refused.message.startswith(
        "images/probe/recipe.lock: no revision of this project has the lock of sha256:0"
    )


def test_a_second_plan_replaces_the_first_and_nothing_of_anybody_else(tmp_path: Path) -> None:
    project = committed(tmp_path)
    bump(project, "triton", "3.7.0")
    project.prepared()
    first = planned(tmp_path, "HEAD:probe", "probe", "--out", str(tmp_path / "plan"))
    assert planned(tmp_path, "HEAD:probe", "probe", "--out", str(tmp_path / "plan")) == first
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter").write_text("mine")
    refused = failure(call(tmp_path, "HEAD:probe", "probe", "--out", str(tmp_path / "mine")))
    assert refused.message == f"{tmp_path}/mine: is there already, and was not written by this command"
    assert files(tmp_path / "mine") == {"letter": b"mine"}


def test_what_cannot_be_isolated_is_refused(tmp_path: Path) -> None:
    project = committed(tmp_path)
    other = tmp_path / "images/other"
    other.mkdir()
    for name in ("recipe.toml", "recipe.lock"):
        text = (tmp_path / "images/probe" / name).read_text()
        (other / name).write_text(text.replace('"probe"', '"other"'))
    project.recipe["description"] = "other words"
    project.prepared()
    messages = {
        ("probe", "other"): "probe is image 'probe', other is 'other': between two images nothing can be isolated",
        ("HEAD:probe", "probe"): "HEAD:probe and probe are built to the same bytes, content key ",
        ("probe", "elsewhere"): "elsewhere: names no recipe with its lock",
    }
    for words, message in messages.items():
        refused = failure(call(tmp_path, *words))
        assert isinstance(refused, RecipeError)
        assert refused.message.startswith(message)
    assert not (tmp_path / "dist").exists()


EDITS = {
    "contract": lambda table: table["image"].update(shm="16g"),
    "gfx": lambda table: table.update(gfx=["gfx1201"]),
    "base": lambda table: table["base"]["runtime"]["apt"].append("libssl-dev"),
    "triton": lambda table: component(table, "triton").update(version="3.7.0"),
    "kernels": lambda table: component(table, "kernels").update(build=["make FAST=1 DESTDIR={destdir}"]),
    "sglang": lambda table: table.update(patch=[PATCH]),
    "aiter": lambda table: table["component"].insert(
        1, {"name": "aiter", "wheel": "amd-aiter", "version": "0.1.7"}
    ),
    "order": lambda table: table["component"].insert(0, table["component"].pop()),
}


def _state(edits: frozenset[str]) -> State:
    table = tomli.loads(samples.FULL)
    for name, edit in EDITS.items():
        if name in edits:
            edit(table)
    recipe = samples.recipe(**table)
    return State(table=table, recipe=recipe, lock=samples.lock(recipe))


@given(st.frozensets(st.sampled_from(sorted(EDITS)), min_size=1))
def test_any_set_of_changes_is_taken_apart_and_adds_up_again(edits: frozenset[str]) -> None:
    old, new = _state(frozenset()), _state(edits)
    assert set(differing(old, new)) == edits
    found = steps(old, new, lambda _: frozenset(), file="recipe.toml")
    assert sorted(part for step in found for part in step.parts) == sorted(edits)
    assert all(len(step.parts) == 1 for step in found)
    assert found[-1].state is new
    for before, step in pairwise([None, *found]):
        assert step is not None
        assert differing(old if before is None else before.state, step.state) == step.parts


def test_what_is_wrong_on_both_sides_keeps_no_step_from_being_one() -> None:
    old, new = _state(frozenset()), _state(frozenset({"triton", "contract"}))
    found = steps(old, new, lambda _: frozenset({"it never worked"}), file="recipe.toml")
    assert [step.parts for step in found] == [("contract",), ("triton",)]


def test_what_nothing_but_the_whole_makes_right_is_one_step() -> None:
    old, new = _state(frozenset()), _state(frozenset({"triton", "contract", "sglang"}))
    wrong = frozenset({"does not go together"})
    found = steps(old, new, lambda mix: frozenset() if mix in (old, new) else wrong, file="recipe.toml")
    assert [step.parts for step in found] == [("contract", "triton", "sglang")]
    assert found[0].because == tuple(f"{part} alone: does not go together" for part in found[0].parts)


def test_a_pair_of_a_recipe_and_its_lock_has_no_parts_that_differ_from_itself() -> None:
    recipe, lock = pair()
    assert recipe.name == lock.image
    assert differing(_state(frozenset()), _state(frozenset())) == ()
