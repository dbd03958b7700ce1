from __future__ import annotations

import pytest

from builder.order import Circle, in_levels, matrix, order, told
from builder.plan import Action, Plan


def plan(image: str, action: Action, *reasons: str) -> Plan:
    return Plan(image=image, content_key="k", fingerprint="f", action=action, reasons=reasons)


def test_images_come_after_those_they_are_built_on() -> None:
    placed = order({"top": ["middle", "bottom"], "middle": ["bottom"], "bottom": [], "alone": []})
    assert [(each.image, each.level, each.needs) for each in placed] == [
        ("alone", 0, ()), ("bottom", 0, ()), ("middle", 1, ("bottom",)), ("top", 2, ("bottom", "middle")),
    ]  # fmt: skip


def test_a_circle_is_named_without_the_images_that_only_lead_to_it() -> None:
    with pytest.raises(Circle) as caught:
        order({"a": ["b"], "b": ["c"], "c": ["b"], "fine": []})
    assert str(caught.value) == "a circle: b -> c -> b"


def test_the_matrix_holds_the_images_that_need_work_and_waits_for_no_other() -> None:
    placed = order({"top": ["middle"], "middle": ["bottom"], "bottom": []})
    actions = {"top": Action.BUILD, "middle": Action.RETEST, "bottom": Action.SKIP}
    plans = {name: plan(name, action) for name, action in actions.items()}
    assert matrix(placed, plans) == {
        "include": [
            {"image": "middle", "action": "retest", "needs": [], "level": 1},
            {"image": "top", "action": "build", "needs": ["middle"], "level": 2},
        ]
    }


def test_the_matrix_is_empty_when_there_is_nothing_to_do() -> None:
    assert matrix(order({"one": []}), {"one": plan("one", Action.SKIP)}) == {"include": []}


def test_a_matrix_in_levels_has_first_what_needs_no_other_image_of_it() -> None:
    placed = order({"top": ["middle"], "middle": ["bottom"], "bottom": [], "alone": []})
    actions = dict.fromkeys(("top", "middle", "alone"), Action.BUILD) | {"bottom": Action.SKIP}
    parts = in_levels(matrix(placed, {name: plan(name, action) for name, action in actions.items()}))
    images = {end: [entry["image"] for entry in part["include"]] for end, part in parts.items() if part}
    assert images == {"": ["alone", "middle"], "-above": ["top"]}
    assert in_levels({"include": []}) == {"": None, "-above": None}


def test_a_plan_is_told_as_a_table_that_no_reason_breaks() -> None:
    placed = order({"one": []})
    table = told(placed, {"one": plan("one", Action.BUILD, "component.a.build: 'x | y' -> 'x'", "engine is new")})
    assert table.splitlines()[-1] == "| one | build | component.a.build: 'x \\| y' -> 'x'; engine is new |"
