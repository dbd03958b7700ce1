"""The state of every patch of a series, what proves it, and what a person reads of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.errors import PatchError
from builder.patches.diff import parse_patch
from builder.patches.judge import Attempt, Judged, Patch, PatchFile, judge, require, told
from builder.patches.tree import FILE, LINK, PROGRAM, Entry, Held, Tree

from .making import entries, git_diff, hunk, lay_out

TEXT = b"".join(b"line %d\n" % number for number in range(1, 31))
ELEVEN = hunk("x", " line 9", " line 10", "-line 11", "+eleven", " line 12", " line 13", at=9)
A_PROGRAM = Entry(mode=PROGRAM, data=b"a\n")
TWENTY = hunk("x", " line 19", "-line 20", "+twenty", " line 21", at=19)


def series(*texts: str | bytes) -> list[PatchFile | Patch]:
    return [
        parse_patch(text if isinstance(text, bytes) else text.encode(), name=f"{number}.patch")
        for number, text in enumerate(texts, start=1)
    ]


def states(judged: Judged) -> list[str]:
    return [verdict.state for verdict in judged.verdicts]


def test_patches_are_applied_one_on_the_other() -> None:
    again = ELEVEN.replace("-line 11", "-eleven").replace("+eleven", "+once more")
    judged = judge(series(ELEVEN, again, TWENTY), Held.of({"x": TEXT}))
    assert states(judged) == ["applies"] * 3
    assert judged.changes["x"] == Entry(
        mode=FILE, data=TEXT.replace(b"line 11\n", b"once more\n").replace(b"line 20\n", b"twenty\n")
    )
    first, second, _ = judged.verdicts
    assert first.files[0].after == second.files[0].before


def test_a_patch_that_does_not_apply_is_left_out_and_the_others_are_judged_without_it() -> None:
    depends = hunk("x", " line 10", "-eleven", "+other", " line 12", at=10)
    lost = hunk("y", "-a", "+b")
    judged = judge(series(ELEVEN.replace(" line 9", " line nine"), depends, TWENTY, lost), Held.of({"x": TEXT}))
    assert states(judged) == ["conflicts", "conflicts", "applies", "target-missing"]
    assert judged.changes["x"] == Entry(mode=FILE, data=TEXT.replace(b"line 20\n", b"twenty\n"))
    assert judged.fails


def test_what_is_there_already_is_redundant_and_the_proof_is_told() -> None:
    judged = judge(series(ELEVEN + "@@ -20,3 +20,3 @@\n line 20\n-line 21\n+twenty-one\n line 22\n"), Held.of(
        {"x": b"intro\n" + TEXT.replace(b"line 11\n", b"eleven\n").replace(b"line 21\n", b"twenty-one\n")}
    ))  # fmt: skip
    (verdict,) = judged.verdicts
    assert verdict.state == "redundant"
    assert verdict.evidence == ("x: its new lines are there once, at line 10, 21, its old ones nowhere",)
    assert not judged.changes
    assert not judged.fails


@pytest.mark.parametrize(
    "tree",
    [
        TEXT.replace(b"line 11\n", b"eleven\n") * 2,  # twice
        TEXT.replace(b"line 11\n", b"eleven\n") + TEXT,  # and the old lines, too, elsewhere than stated
        TEXT.replace(b"line 11\n", b"eleven\n").replace(b"line 13\n", b"other\n"),  # not all of the context
    ],
)
def test_without_proof_nothing_is_redundant(tree: bytes) -> None:
    judged = judge(series(ELEVEN), Held.of({"x": tree}))
    assert states(judged) == ["conflicts"]


def test_lines_in_another_order_are_no_proof() -> None:
    two = hunk("x", " a", "-b", "+B", " c", at=1) + "@@ -11,3 +11,3 @@\n d\n-e\n+E\n f\n"
    there = b"a\nB\nc\n" + b"0\n" * 7 + b"d\nE\nf\n"
    assert states(judge(series(two), Held.of({"x": there}))) == ["redundant"]
    swapped = b"d\nE\nf\n" + b"0\n" * 7 + b"a\nB\nc\n"
    assert states(judge(series(two), Held.of({"x": swapped}))) == ["conflicts"]


def test_a_patch_of_which_half_is_there_is_a_conflict() -> None:
    half = TEXT.replace(b"line 11\n", b"eleven\n")
    two = ELEVEN + "@@ -20,3 +20,3 @@\n line 20\n-line 21\n+twenty-one\n line 22\n"
    (verdict,) = judge(series(two), Held.of({"x": half})).verdicts
    assert verdict.state == "conflicts"
    assert [(c.problem, c.hunk) for c in verdict.conflicts] == [("already-there", 1)]


@pytest.mark.parametrize(
    ("before", "after", "tree", "state"),
    [
        ({"k": b"", "x": b"a\n"}, {"k": b""}, {"k": b""}, "redundant"),  # deleted already
        ({"k": b"", "d/x": b"a\n"}, {"k": b""}, {"k": b""}, "target-missing"),  # its whole folder is gone
        ({}, {"x": b"a\n"}, {"x": b"a\n"}, "redundant"),
        ({}, {"x": b"a\n"}, {"x": b"other\n"}, "conflicts"),
        ({}, {"x": A_PROGRAM}, {"x": b"a\n"}, "conflicts"),
        ({}, {"x": bytes(300)}, {"x": bytes(300)}, "redundant"),
        ({}, {"x": Entry(mode=LINK, data=b"k")}, {"x": Entry(mode=LINK, data=b"k")}, "redundant"),
        ({"x": b"a\n"}, {"x": A_PROGRAM}, {"x": A_PROGRAM}, "redundant"),
        ({"x": b"a\n"}, {"x": A_PROGRAM}, {"k": b""}, "target-missing"),
        ({"x": TEXT}, {"y": TEXT + b"b\n"}, {"y": TEXT + b"b\n"}, "redundant"),
        ({"x": TEXT}, {"y": TEXT}, {"y": TEXT}, "target-missing"),  # nothing says what was to be in it
    ],
)  # fmt: skip
def test_created_deleted_renamed_files_and_modes(
    tmp_path: Path, before: Mapping[str, bytes], after: Mapping[str, bytes | Entry], tree: dict, state: str
) -> None:
    patch = git_diff(tmp_path, before, after)
    held = Held(entries(lay_out(tmp_path / "tree", tree)))
    assert states(judge(series(patch), held)) == [state]


PYTHON = b"def f():\n    return 1\n\n\ndef g():\n    return 2\n"
BREAKS = hunk("pkg/lonely.py", " ", " def g():", "-    return 2", "+    return (2", at=4)


def test_f46_a_file_that_nothing_imports_must_still_be_python() -> None:
    fine = hunk("pkg/lonely.py", " def f():", "-    return 1", "+    return 3", " ", " ", at=1)
    judged = judge(series(BREAKS, fine), Held.of({"pkg/lonely.py": PYTHON}))
    assert states(judged) == ["conflicts", "applies"]
    (conflict,) = judged.verdicts[0].conflicts
    assert conflict.problem == "syntax"
    assert conflict.reason.startswith(
        "it applies, but the file is no Python any more: line 6: '(' was never closed"
    )
    assert (6, "    return (2") in conflict.actual
    assert judged.changes["pkg/lonely.py"] == Entry(mode=FILE, data=PYTHON.replace(b"return 1", b"return 3"))


def test_a_return_outside_of_a_function_is_found_as_well() -> None:
    moved = hunk("pkg/lonely.py", " ", " def g():", "-    return 2", "+    pass", "+return 2", at=4)
    (verdict,) = judge(series(moved), Held.of({"pkg/lonely.py": PYTHON})).verdicts
    assert verdict.state == "conflicts"
    assert "'return' outside function" in verdict.conflicts[0].reason


def test_what_was_no_python_before_is_not_laid_to_a_patch() -> None:
    old = b"print 'x'\nprint 'y'\n"
    patch = hunk("x.py", " print 'x'", "-print 'y'", "+print 'z'")
    assert states(judge(series(patch), Held.of({"x.py": old}))) == ["applies"]


def test_f45_the_message_names_every_patch_that_does_not_apply() -> None:
    lost = hunk("y", "-a", "+b")
    judged = judge(series(ELEVEN.replace("line 13", "other"), TWENTY, lost), Held.of({"x": TEXT}))
    with pytest.raises(PatchError) as raised:
        require(judged, where="images/i/recipe.toml: source.s")
    assert raised.value.message == "images/i/recipe.toml: source.s: 2 of 3 patches do not apply"
    assert raised.value.details == (
        "1.patch: conflicts",
        "  x: hunk 1: only with a fuzz of 1 it would fit, at line 9",
        "    expected        line 9",
        "    expected        line 10",
        "    expected        line 11",
        "    expected        line 12",
        "    expected        other",
        "    actual       9  line 9",
        "    actual      10  line 10",
        "    actual      11  line 11",
        "    actual      12  line 12",
        "    actual      13  line 13",
        "3.patch: target-missing",
        "  y: there is no such file",
    )
    require(judge(series(TWENTY), Held.of({"x": TEXT})), where="x")


def test_a_moved_hunk_is_told() -> None:
    (verdict,) = judge(series(ELEVEN), Held.of({"x": TEXT.removeprefix(b"line 1\n")})).verdicts
    assert told(verdict) == ["1.patch: applies", "  x: hunk 1 is 1 line above its place"]
    assert verdict.plain()["offsets"] == [{"file": "x", "hunk": 1, "lines": -1}]


@dataclass(frozen=True)
class Upper:
    """A change of another kind in the middle of a series."""

    name: str = "upper"
    sha256: str = "0" * 64
    hunks: int = 1

    def attempt(self, tree: Tree) -> Attempt:
        entry = tree.read("x")
        assert entry is not None
        return Attempt(state="applies", changes={"x": Entry(mode=entry.mode, data=entry.data.upper())})


def test_other_kinds_of_changes_keep_their_place_in_the_order() -> None:
    (first,) = series(ELEVEN)
    (last,) = series(hunk("x", " LINE 10", "-ELEVEN", "+11", " LINE 12", at=10))
    judged = judge([first, Upper(), last], Held.of({"x": TEXT}))
    assert states(judged) == ["applies"] * 3
    changed = judged.changes["x"]
    assert changed is not None
    assert changed.data == TEXT.upper().replace(b"LINE 11\n", b"11\n")
