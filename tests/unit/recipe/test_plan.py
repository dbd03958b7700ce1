"""What a plan says: which inputs changed, what has to be done, and the keys it decides by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from builder import plan
from builder.plan import Action, Known, changes, content_inputs, content_key, decide

from . import kinds, samples
from .kinds import Change
from .on_disk import component, on_disk

PAGE = Path(__file__).resolve().parents[3] / "docs" / "plan.md"


def test_the_key_is_in_the_tag_and_the_page_says_how_much_of_it(tmp_path: Path) -> None:
    prepared = on_disk(tmp_path).prepared()
    assert re.fullmatch(r"[0-9a-f]{64}", prepared.content_key)
    assert prepared.tag == f"0.5.16-{prepared.content_key[:12]}"
    assert "the first twelve digits of it are part of" in PAGE.read_text(encoding="utf-8")


def test_a_version_that_no_tag_may_hold_is_written_otherwise_in_it(tmp_path: Path) -> None:
    state = on_disk(tmp_path)
    component(state, "sglang")["version"] = "0.5.16+rocm7.2"
    assert state.prepared().tag.startswith("0.5.16_rocm7.2-")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (kinds.version_of_a_component, "component.torch: version 2.6.0 -> 2.6.0+zword"),
        (kinds.hash_of_a_wheel, "wheel.sglang: sha256 changed"),
        (kinds.version_of_a_dependency, "wheel.numpy: version 2.2.4 -> 2.2.4+zword"),
        (kinds.another_package, "deb.libzword is new"),
        (kinds.content, "source.kernels: changed"),
        (kinds.targets, 'gfx: ["gfx1100", "gfx1201"] -> ["gfx1100", "gfx1201", "gfx942"]'),
        (kinds.build_environment, "base.build.env: CC gcc -> zword"),
        (kinds.a_variable_more, "image.env: ZWORD none -> "),
        (kinds.index, "component.triton: index none -> https://zword.example.org/simple"),
        (kinds.no_more_a_component, "component.kernels is gone"),
        (kinds.engine, "engine: sglang -> triton"),
    ],
)  # fmt: skip
def test_a_changed_input_is_named_in_words_with_both_values(change: Change, expected: str, tmp_path: Path) -> None:
    state = on_disk(tmp_path)
    before = state.prepared().inputs
    change(state, "zword")
    told = changes(state.prepared().inputs, before)
    assert expected in told
    assert not any(line.startswith(("dockerfile", "manifest")) for line in told)


def decided(known: Known | None, *, published: str | None, tests: str = "t") -> tuple[Action, tuple[str, ...]]:
    recipe = samples.recipe()
    lock = samples.lock(recipe)
    inputs = content_inputs(recipe, lock, samples.TOOLING)
    made = decide(recipe.name, inputs=inputs, fingerprint="f" * 16, tests=tests, known=known, published=published)
    assert made.image == "probe"
    assert made.content_key == content_key(inputs)
    assert made.fingerprint == "f" * 16
    return made.action, made.reasons


def record(**changed: Any) -> Known:
    recipe = samples.recipe()
    inputs = content_inputs(recipe, samples.lock(recipe), samples.TOOLING)
    known = {"inputs": inputs, "content_key": content_key(inputs), "test_key": "t", "digest": "sha256:one"}
    return Known(**{**known, "passed": True, **changed})


def test_an_image_that_nobody_built_is_built() -> None:
    assert decided(None, published=None) == (Action.BUILD, ("no record of an earlier build",))


def test_an_image_that_only_the_registry_knows_is_tested() -> None:
    expected = ("the registry holds this content as sha256:one, without a record here",)
    assert decided(None, published="sha256:one") == (Action.RETEST, expected)


def test_an_image_whose_inputs_changed_is_built_and_they_are_named() -> None:
    known = record()
    older = record(inputs={**known.inputs, "uv": '"0.8.0"'}, content_key="old")
    assert decided(older, published=None) == (Action.BUILD, ("uv: 0.8.0 -> 0.9.0",))


def test_an_image_whose_inputs_changed_but_whose_content_is_published_is_tested() -> None:
    expected = ("the registry holds this content as sha256:one, without a record here",)
    assert decided(record(content_key="old"), published="sha256:one") == (Action.RETEST, expected)


def test_a_record_with_another_key_for_the_same_inputs_is_not_believed() -> None:
    assert decided(record(content_key="old"), published=None) == (
        Action.BUILD,
        ("the content key differs from the record's",),
    )


def test_an_image_that_the_registry_holds_as_other_bytes_is_tested() -> None:
    assert decided(record(), published="sha256:two") == (
        Action.RETEST,
        ("the registry holds sha256:two, the record says sha256:one",),
    )


@pytest.mark.parametrize(("published", "action"), [("sha256:one", Action.RETEST), (None, Action.BUILD)])
def test_an_image_that_did_not_pass_is_tested_where_it_is_and_built_where_it_is_not(
    published: str | None, action: Action
) -> None:
    words = "its last run did not get past its tests and its publication"
    assert decided(record(passed=False), published=published) == (action, (words,))


@pytest.mark.parametrize(("published", "action"), [("sha256:one", Action.RETEST), (None, Action.BUILD)])
def test_an_image_that_passed_other_tests_is_tested_where_it_is_and_built_where_it_is_not(
    published: str | None, action: Action
) -> None:
    expected = ("its smoke tests changed since they passed",)
    assert decided(record(test_key="other"), published=published) == (action, expected)


def test_an_image_that_was_never_published_is_built() -> None:
    expected = ("built and tested before, but the registry does not hold it",)
    assert decided(record(), published=None) == (Action.BUILD, expected)


def test_an_image_that_is_published_and_passed_is_left_alone() -> None:
    expected = ("the registry holds sha256:one, it is tested, and no input changed",)
    assert decided(record(), published="sha256:one") == (Action.SKIP, expected)


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        (kinds.smoke, True),
        (kinds.description, False),
        (kinds.version_of_a_component, False),
        (kinds.documents_and_tests, True),
    ],
)
def test_the_test_key_moves_with_what_is_tested(change: Change, moves: bool, tmp_path: Path) -> None:
    state = on_disk(tmp_path)
    before = state.prepared().test_key
    change(state, "zword")
    assert (state.prepared().test_key != before) == moves


def test_a_record_of_another_version_is_compared_as_far_as_it_goes() -> None:
    assert changes({"uv": '"0.9.0"', "step.layout": '"1"'}, {"uv": "0.8.0", "step.layout": "not JSON"}) == (
        "step.layout: not JSON -> 1",
        "uv: 0.8.0 -> 0.9.0",
    )


def test_layers_are_stacked_in_the_recipes_order_with_the_dependencies_first() -> None:
    recipe = samples.recipe()
    assert plan.layers(recipe, samples.lock(recipe)) == ("dependencies", "triton", "kernels", "sglang")
    small = samples.recipe(samples.SMALL)
    assert plan.layers(small, samples.lock(small)) == ()
