"""What moves the content key and what does not: the table of docs/plan.md, row by row, on a project on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import builder
from builder import plan, project, render
from builder.plan import Tooling, changes, content_inputs, content_key
from builder.recipe import Image

from . import kinds_of_patches, kinds_of_pins, samples
from .kinds import KINDS, OTHER_IMAGE, OTHER_PROGRAM, PROGRAM, Kind
from .on_disk import on_disk
from .pages import columns

ON_ANOTHER_IMAGE = "`base.*.recipe`: the content key of that image"  # tests/unit/pins/test_image_on_image.py
MOVES, STAYS = "moves the content key", "does not"


def rows() -> dict[str, list[str]]:
    """Return the cells of the table, by column."""
    return columns("plan.md", MOVES, STAYS)


def test_every_row_of_the_table_is_tried_and_nothing_that_is_no_row() -> None:
    table = rows()
    assert {row for column in table.values() for row in column} == {item.row for item in KINDS} | {
        PROGRAM,
        OTHER_PROGRAM,
        ON_ANOTHER_IMAGE,
    }
    assert ON_ANOTHER_IMAGE in table[MOVES]
    assert {item.name for item in KINDS} >= {"submodule", "sdist"}, kinds_of_pins
    assert {item.name for item in KINDS} >= {"patched_tree", "value_of_a_hook"}, kinds_of_patches
    assert PROGRAM in table[MOVES]
    assert OTHER_PROGRAM in table[STAYS]


def test_every_key_of_the_image_is_tried() -> None:
    assert set(OTHER_IMAGE) == {field.alias or name for name, field in Image.model_fields.items()}


@pytest.mark.parametrize("item", KINDS, ids=[f"{number}-{item.name}" for number, item in enumerate(KINDS)])
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=st.from_regex(r"z[a-y]{3,8}", fullmatch=True))
def test_f93_one_kind_of_input_moves_the_key_exactly_when_the_table_says_so(
    item: Kind, word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = on_disk(tmp_path_factory.mktemp("project"), item.text)
    before = state.prepared()
    assert state.prepared().content_key == before.content_key
    item.change(state, word)
    after = state.prepared()
    assert (after.content_key != before.content_key) == (item.row in rows()[MOVES])
    assert (after.inputs != before.inputs) == (after.content_key != before.content_key)
    assert bool(changes(after.inputs, before.inputs)) == (after.content_key != before.content_key)


@pytest.mark.parametrize(
    ("of", "name", "value"),
    [
        (plan, "BUILD_FORMAT", plan.BUILD_FORMAT + 1),
        (plan, "BASE_FORMAT", plan.BASE_FORMAT + 1),
        (render, "_HEADER", "# Rendered otherwise from images/{name}\n"),
        (render, "LABEL", "org.example"),
    ],
)
def test_what_this_program_makes_of_the_inputs_moves_the_key(
    of: Any, name: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = on_disk(tmp_path)
    before = state.prepared().content_key
    monkeypatch.setattr(of, name, value)
    assert state.prepared().content_key != before


def test_a_manifest_that_is_written_otherwise_moves_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = on_disk(tmp_path)
    before = state.prepared()
    original = render.component_entry
    monkeypatch.setattr(render, "component_entry", lambda *of, **how: original(*of, **how) | {"more": True})
    after = state.prepared()
    assert after.content_key != before.content_key
    assert changes(after.inputs, before.inputs) == ("manifest: changed",)


@pytest.mark.parametrize(
    "tooling",
    [
        Tooling(steps={**samples.TOOLING.steps, "layout": "3" * 64}, uv=samples.TOOLING.uv),
        Tooling(steps={**samples.TOOLING.steps, "make-user": "3" * 64}, uv=samples.TOOLING.uv),
        Tooling(steps=samples.TOOLING.steps, uv="0.9.1"),
    ],
)
def test_the_text_of_a_build_step_and_the_version_of_uv_move_the_key(tooling: Tooling) -> None:
    recipe = samples.recipe()
    lock = samples.lock(recipe)
    before = content_key(content_inputs(recipe, lock, samples.TOOLING))
    assert content_key(content_inputs(recipe, lock, tooling)) != before


def test_the_text_of_every_build_step_is_an_input(tmp_path: Path) -> None:
    prepared = on_disk(tmp_path).prepared()
    uses = plan.steps(prepared.recipe, prepared.lock)
    assert {key for key in prepared.inputs if key.startswith("step.")} == {f"step.{step}" for step in uses}
    kernels = {"name": "kernels", "source": "kernels", "version": "1.0"}
    built = samples.recipe(component=[kernels], engine="kernels", smoke={})
    on_another = {"build": {"debian": {"suite": "trixie"}}, "runtime": {"recipe": "other"}}
    above = samples.recipe(base=on_another, component=[kernels], engine="kernels", smoke={})
    words = {"target": "torch", "reason": "r", "upstream": "https://git.example/1", "drop-when": "w"}
    edit = {"name": "a", "edit": {"file": "torch/a.py", "find": "1", "replace": "2"}, **words}
    hook = {"name": "b", "hook": {"module": "torch", "attribute": "A", "expect": 1, "value": 2}, **words}
    patched = samples.recipe(patch=[edit, hook])
    others = [plan.steps(recipe, prepared.lock) for recipe in (built, above, patched)]
    assert uses.union(*others) == set(project.STEPS)
    shipped = {path.name for path in (Path(builder.__file__).parent / "inside").iterdir() if path.is_file()}
    used = {name for names in project.STEPS.values() for name in names}
    assert {name for name in used if "/" not in name} == shipped - {"__init__.py"}


def test_another_version_of_this_program_alone_leaves_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = on_disk(tmp_path)
    before = state.prepared().content_key
    monkeypatch.setattr(builder, "__version__", "99")
    assert state.prepared().content_key == before
