"""A recipe says which pins are open; it can be read and rendered, and is neither locked nor built."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.checks.offline import check_image
from builder.errors import LockError
from builder.imagefacts import facts_of
from builder.lockfile import dump_lock
from builder.mirrors import load_mirrors
from builder.openpins import STAND_INS
from builder.pins import pins
from builder.project import is_open, load_lock, load_recipe
from builder.resolve import make_lock
from builder.story import Silent
from builder.workspace import Workspace

from . import samples

BASE = "docker.io/vllm/vllm-openai-rocm:nightly@sha256:" + "a" * 64
OPEN = f"""
schema = 1
name = "probe"
description = "What nobody could look up"
engine = "vllm"
gfx = ["gfx1201"]
python = "3.12"

[base.build]
image = "{BASE}"

[base.runtime]
image = "{BASE}"

[source.aiter]
git = "https://github.com/ROCm/aiter"
tag = "v0.1.21.post1"

[[component]]
name = "aiter"
source = "aiter"
version = "0.1.21.post1"
build = ["make install DESTDIR={{destdir}}"]

[[component]]
name = "vllm"
base = "vllm"

[[open]]
pin = "source.aiter.commit"
reason = "the commit was never seen"
close = "git ls-remote"

[[open]]
pin = "component.vllm.version"
reason = "the image could not be looked into"
close = "docker run"
"""
ONLY_THE_LOCK = """
[[open]]
pin = "lock"
reason = "the registry could not be reached"
"""
TOLD = (
    "images/probe/recipe.toml: source.aiter.commit: open: the commit was never seen\n"
    "images/probe/recipe.toml: component.vllm.version: open: the image could not be looked into"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(root=tmp_path)


def written(workspace: Workspace, text: str) -> Workspace:
    workspace.recipe("probe").parent.mkdir(parents=True, exist_ok=True)
    workspace.recipe("probe").write_text(text)
    return workspace


def findings(workspace: Workspace) -> list[tuple[str, str, str, str, str | None]]:
    found = check_image(workspace, "probe", mirrors=load_mirrors(workspace.root, None))
    return [(f.severity, f.check, f.key, f.message, f.hint) for f in found if f.severity != "note"]


def test_a_stand_in_takes_the_place_of_what_is_open_and_of_nothing_else(workspace: Workspace) -> None:
    recipe = load_recipe(written(workspace, OPEN), "probe")
    assert recipe.source["aiter"].commit == STAND_INS["commit"]
    assert [component.version for component in recipe.component] == ["0.1.21.post1", STAND_INS["version"]]
    assert is_open(workspace, recipe)


def test_no_command_that_needs_a_lock_goes_on_with_a_pin_open(workspace: Workspace) -> None:
    recipe = load_recipe(written(workspace, OPEN), "probe")
    workspace.lock("probe").write_text(dump_lock(samples.lock(recipe)))
    with pytest.raises(LockError) as failure:
        load_lock(workspace, recipe)
    assert (failure.value.message, failure.value.hint) == (TOLD, "git ls-remote; docker run")
    with pytest.raises(LockError) as failure:
        make_lock(recipe, workspace=workspace, mirrors=load_mirrors(workspace.root, None), story=Silent())
    assert failure.value.message == TOLD


def test_check_names_every_open_pin_as_a_warning_and_asks_for_no_lock(workspace: Workspace) -> None:
    written(workspace, OPEN + ONLY_THE_LOCK)
    assert findings(workspace) == [
        ("warning", "open", "source.aiter.commit", "open: the commit was never seen", "git ls-remote"),
        ("warning", "open", "component.vllm.version", "open: the image could not be looked into", "docker run"),
        ("warning", "open", "lock", "open: the registry could not be reached", "rocm-images lock probe"),
    ]


def test_without_an_entry_the_same_recipe_without_a_lock_is_an_error(workspace: Workspace) -> None:
    text = samples.SMALL
    written(workspace, text)
    assert [finding[:2] for finding in findings(workspace)] == [("error", "lock")]
    written(workspace, text + ONLY_THE_LOCK)
    assert [finding[:2] for finding in findings(workspace)] == [("warning", "open")]


def test_a_lock_that_is_there_is_read_and_the_entry_no_longer_true(workspace: Workspace) -> None:
    recipe = load_recipe(written(workspace, samples.SMALL + ONLY_THE_LOCK), "probe")
    workspace.lock("probe").write_text(dump_lock(samples.lock(recipe)))
    assert not is_open(workspace, recipe)
    assert load_lock(workspace, recipe)[0].image == "probe"
    assert findings(workspace) == [
        ("warning", "closed", "open[0]", "the lock is there, and no longer open", "drop this entry")
    ]
    written(workspace, samples.SMALL.replace('python = "3.13"', 'python = "3.14"') + ONLY_THE_LOCK)
    assert [finding[:2] for finding in findings(workspace)] == [("error", "recipe")]  # it is judged as ever


def test_a_stand_in_is_no_pin_and_no_fact(workspace: Workspace) -> None:
    recipe = load_recipe(written(workspace, OPEN), "probe")
    (tag,) = (pin for pin in pins(recipe) if pin.kind == "tag")
    assert (tag.value, tag.digest) == ("v0.1.21.post1", None)
    facts = facts_of(recipe, None, file="recipe.toml")
    assert facts.versions == {"aiter": "0.1.21.post1"}
    assert facts.commits == {}
