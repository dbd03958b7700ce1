"""The `[[patch]]` tables: what a whole one gives, and the paths that are a patch's fault and not a recipe's."""

from __future__ import annotations

from typing import Any

import pytest

from builder.errors import PatchError
from builder.patchagreement import same
from builder.patchtables import Probe
from builder.recipe import Recipe

from .samples import recipe

WORDS = {"reason": "r", "upstream": "https://git.example/1", "drop-when": "upstream has it"}


def patched(**table: Any) -> Recipe:
    return recipe(patch=[{"name": "lds", "target": "sglang", **WORDS, **table}])


@pytest.mark.parametrize("path", ["../../etc/x", "/etc/x", "a/../b", "a//b", ".", "a/.", "./a"])
@pytest.mark.parametrize("kind", ["edit", "overlay"])
def test_a_path_that_leaves_the_tree_is_a_failure_of_the_patch(kind: str, path: str) -> None:
    tables = {"edit": {"file": path, "find": "1", "replace": "2"}, "overlay": {"file": path, "from": "b.py"}}
    with pytest.raises(PatchError) as failure:
        patched(**{kind: tables[kind]})
    assert failure.value.message == f"images/probe/recipe.toml: patch.lds.{kind}.file: {path!r} leaves the tree"
    assert failure.value.exit_code == 4


@pytest.mark.parametrize("path", ["a.py", "..a/b..", "a b/…", "...", ".hidden/x"])
def test_a_path_inside_the_tree_may_have_any_name(path: str) -> None:
    edit = patched(edit={"file": path, "find": "1", "replace": "2"}).patch[0].edit
    assert edit is not None
    assert edit.file == path


def test_a_hook_that_sets_a_value_shows_its_effect_by_itself() -> None:
    hook = {"module": "a.b", "attribute": "C.D", "expect": 32768, "value": 39321}
    assert patched(hook=hook).patch[0].shown_by == Probe.model_validate(
        {"module": "a.b", "expression": "C.D", "before": 32768, "after": 39321}
    )


def test_a_probe_of_its_own_stands_before_the_one_of_the_hook() -> None:
    probe = {"module": "a", "expression": "f()", "before": False, "after": True}
    hook = {"module": "a.b", "attribute": "D", "expect": 1, "value": 2}
    shown = patched(hook=hook, probe=probe).patch[0].shown_by
    assert shown is not None
    assert (shown.module, shown.expression) == ("a", "f()")


def test_a_hook_that_calls_has_no_probe_unless_it_is_given() -> None:
    hook = {"module": "a.b", "attribute": "C.f", "expect-source": "0" * 64, "call": "hooks/f.py:f"}
    made = patched(hook=hook).patch[0]
    assert made.shown_by is None
    assert made.files == ("hooks/f.py",)


def test_values_keep_their_types_at_any_depth() -> None:
    values = {"expect": {"a": [1, True, 1.5, "x", {}]}, "value": {"a": [1, False, 1.5, "x", {}]}}
    hook = patched(hook={"module": "a", "attribute": "D", **values}).patch[0].hook
    assert hook is not None
    assert same(hook.expect, values["expect"])
    assert same(hook.value, values["value"])


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (1, 1.0), ([1], [True]), ({"a": 1}, {"a": 1.0}), ("1", 1), ([1], [1, 1])],
)
def test_values_of_other_types_are_not_the_same(one: object, other: object) -> None:
    assert not same(one, other)
    assert same(one, one)


def test_a_probe_may_tell_a_number_from_a_boolean() -> None:
    probe = {"module": "a", "expression": "D", "before": 0, "after": False}
    assert patched(edit={"file": "a", "find": "1", "replace": "2"}, probe=probe).patch[0].probe is not None
