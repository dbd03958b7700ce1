from __future__ import annotations

import json

from builder.whatchanged import changes, in_short


def deb(version: str, sha256: str = "a" * 64, stage: str = "base") -> str:
    return json.dumps({"version": version, "sha256": sha256, "stage": stage})


def test_a_package_is_told_by_what_differs() -> None:
    new = {"deb.a": deb("2"), "deb.b": deb("1", "b" * 64), "deb.c": deb("1", stage="runtime"), "deb.d": deb("1")}
    old = {"deb.a": deb("1"), "deb.b": deb("1"), "deb.c": deb("1"), "deb.e": deb("1")}
    assert changes(new, old) == (
        "deb.a: version 1 -> 2",
        "deb.b: sha256 changed",
        "deb.c: stage base -> runtime",
        "deb.d is new",
        "deb.e is gone",
    )


def test_what_did_not_change_is_not_told() -> None:
    assert changes({"gfx": "1"}, {"gfx": "1"}) == ()


def test_many_packages_are_one_line_for_people() -> None:
    reasons = [f"deb.p{number} is new" for number in range(6)] + ["gfx changed from 1 to 2", "wheel.x is gone"]
    assert in_short(reasons) == (
        "gfx changed from 1 to 2",
        "wheel.x is gone",
        "6 Debian packages: p0 is new, p1 is new, p2 is new, p3 is new and 2 more",
    )


def test_more_inputs_than_fit_on_a_screen_are_counted() -> None:
    told = in_short([f"image.key{number} is new" for number in range(20)])
    assert len(told) == 9
    assert told[-1] == "and 12 more inputs"


def test_a_list_of_tables_is_said_to_have_changed_and_not_shown() -> None:
    old, new = (json.dumps({"files": [{"file": "a", "state": s}], "state": s}) for s in ("applies", "redundant"))
    assert changes({"patch.a": new}, {"patch.a": old}) == ("patch.a: files changed, state applies -> redundant",)
