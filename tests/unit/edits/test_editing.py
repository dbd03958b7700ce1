"""Edits and overlays: every case that is not exactly as declared has a state and words of its own."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.edits import require, shipped, spec
from builder.errors import PatchError
from builder.inside.editing import Edit, Overlay, Plan, plan, real_file
from builder.patches.edits import Change
from builder.patches.judge import judge
from builder.patches.judge import require as require_applied
from builder.patches.tree import LINK, Entry, Held

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ONE = "patch one: pkg/kernel.py"
KERNEL = "def store(a, b):\n    if a:\n        abort(a)\n    return b\n"


def edit(find: str, replace: str, count: int = 1, *, file: str = "pkg/kernel.py", name: str = "one") -> Edit:
    return Edit(name=name, file=file, find=find, replace=replace, count=count)


def planned(text: str, *patches: Edit | Overlay) -> Plan:
    return plan(patches, {"pkg/kernel.py": text.encode()}.get)


def refusal(text: str, *patches: Edit | Overlay) -> list[str]:
    with pytest.raises(PatchError) as failure:
        require(planned(text, *patches), where="images/x/recipe.toml")
    assert failure.value.exit_code == 4
    assert failure.value.message == f"images/x/recipe.toml: 1 of {len(patches)} edits does not apply"
    return list(failure.value.details)


def test_a_text_that_is_there_as_often_as_declared_is_replaced_there():
    done = planned("x = 1\ny = x\nx = 1\n", edit("x = 1", "x = 2", 2))
    assert done.files == {"pkg/kernel.py": b"x = 2\ny = x\nx = 2\n"}
    assert [(outcome.state, outcome.lines) for _, outcome in done.outcomes] == [("applies", (1, 3))]


def test_a_text_that_is_there_zero_times_is_refused_with_the_lines_that_are_most_alike():
    assert refusal(KERNEL, edit("        abort(a, rank)\n", "        pass\n")) == [
        "patch one: pkg/kernel.py: the text is there zero times, expected once",
        "  expected                abort(a, rank)",
        "  actual       3          abort(a)",
    ]


def test_f42_f60_a_text_that_is_there_twice_is_refused_with_both_lines():
    assert refusal("x = 1\ny = 2\nx = 1\n", edit("x = 1", "x = 2")) == [
        "patch one: pkg/kernel.py: the text is there twice, expected once (lines 1, 3)",
        "  expected        x = 1",
        "  actual       1  x = 1",
        "  actual       3  x = 1",
    ]


@pytest.mark.parametrize(
    ("text", "actual"),
    [
        ("if a:\n\tabort(a)\n", "\\tabort(a)"),
        ("if a:\n    abort( a )\n", "    abort( a )"),
        ("if a: \n    abort(a)\n", "    abort(a)"),
    ],
)
def test_a_text_that_is_there_with_other_whitespace_only_is_refused_with_its_lines(text, actual):
    told = refusal(text, edit("if a:\n    abort(a)\n", "pass\n"))
    assert told[0] == "patch one: pkg/kernel.py: the text is there only with other whitespace"
    assert told[-1] == f"  actual       2  {actual}"


def test_whitespace_at_the_end_of_a_line_is_seen():
    assert "  actual       1  if a:\\x20" in refusal("if a: \n    b()\n", edit("if a:\n    b()\n", "pass\n"))


def test_other_line_ends_are_named():
    told = refusal("a = 1\r\nb = 2\r\n", edit("a = 1\nb = 2\n", "a = 2\nb = 2\n"))
    assert told[0] == (
        "patch one: pkg/kernel.py: the text is there only with other whitespace; "
        "the lines of the file end with CR LF"
    )


def test_line_ends_of_a_file_stay_as_they_are():
    assert planned("a = 1\r\nb = 2\r\n", edit("a = 1", "a = 3")).files["pkg/kernel.py"] == b"a = 3\r\nb = 2\r\n"


def test_a_tree_where_one_of_two_places_is_patched_is_half_patched():
    assert refusal("x = 2\ny = 0\nx = 1\n", edit("x = 1", "x = 2", 2)) == [
        f"{ONE}: half patched: the text is there once, the replacement once already (lines 1, 3)",
        "  expected        x = 1",
        "  actual       1  x = 2",
        "  actual       3  x = 1",
    ]


def test_a_tree_where_the_text_is_gone_at_one_of_two_places_is_half_patched():
    told = refusal("x = 2\ny = 0\n", edit("x = 1", "x = 2", 2))
    assert told[0].endswith(
        "half patched: the text is gone, the replacement is there once, expected twice (line 1)"
    )


def test_a_tree_with_some_lines_of_the_replacement_is_half_patched():
    text = "def store(a, b):\n    if a:\n        log(a)\n    return b\n"
    told = refusal(text, edit("        abort(a)\n", "        log(a)\n        wait(a)\n"))
    assert told == [
        "patch one: pkg/kernel.py: half patched: the text is gone, and of the replacement 1 of 2 lines are there",
        "  expected                abort(a)",
        "  actual       3          log(a)",
    ]


def test_a_tree_that_has_the_replacement_is_redundant_and_nothing_changes():
    done = planned(KERNEL.replace("abort(a)", "log(a)"), edit("abort(a)", "log(a)"))
    assert [outcome.state for _, outcome in done.outcomes] == ["redundant"]
    assert (done.files, done.refused) == ({}, False)


def test_an_added_line_is_not_added_again_although_the_text_before_it_is_there_still():
    added = edit("    if a:\n", "    if a:\n        log(a)\n")
    once = planned(KERNEL, added)
    assert [outcome.state for _, outcome in once.outcomes] == ["applies"]
    again = planned(once.files["pkg/kernel.py"].decode(), added)
    assert [outcome.state for _, outcome in again.outcomes] == ["redundant"]


def test_text_that_only_goes_is_never_proven_to_be_gone():
    assert refusal("b()\n", edit("abort(a)\n", ""))[0].endswith("the text is there zero times, expected once")


def test_a_replacement_that_is_there_too_often_proves_nothing():
    told = refusal("x = 2\nx = 2\n", edit("x = 1", "x = 2"))
    assert told[0].endswith("the text is gone, the replacement is there twice, expected once (lines 1, 2)")


def test_places_that_overlap_are_refused():
    assert refusal("aaa", edit("aa", "b", 2))[0].endswith("the places where the text is overlap (lines 1, 1)")


def test_edits_see_what_those_before_them_leave_and_one_that_is_refused_is_left_out():
    done = planned(
        "a = 1\n", edit("a = 1", "a = 2"), edit("z", "y", name="two"), edit("a = 2", "a = 3", name="three")
    )
    assert [outcome.state for _, outcome in done.outcomes] == ["applies", "conflicts", "applies"]
    assert done.refused


def test_a_file_that_is_missing_has_a_state_of_its_own():
    done = planned("", edit("a", "b", file="pkg/gone.py"))
    assert [outcome.state for _, outcome in done.outcomes] == ["target-missing"]
    assert done.told() == ["patch one: pkg/gone.py: there is no such file"]


def test_python_that_can_no_longer_be_compiled_is_refused_although_nothing_imports_it():
    reason = f"expected an indented block after 'if' statement on line 2 (Python {PYTHON})"
    assert refusal(KERNEL, edit("        abort(a)\n", "")) == [
        f"{ONE}: it applies, but the file is no Python any more: line 3: {reason}",
        "  actual       1  def store(a, b):",
        "  actual       2      if a:",
        "  actual       3      return b",
    ]


def test_a_return_outside_of_a_function_is_no_python_either():
    assert "'return' outside function" in refusal("x = 1\n", edit("x = 1", "return 1"))[0]


def test_what_two_edits_leave_together_has_to_compile_not_what_one_leaves():
    done = planned("x = 1\ny = 2\n", edit("x = 1", "x = ("), edit("y = 2", ")", name="two"))
    assert not done.refused


def test_a_file_that_was_no_python_before_is_not_the_edits_fault():
    assert not planned("print 1\nx = 1\n", edit("x = 1", "x = 2")).refused


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("../../etc/x", "the path leaves the tree"),
        ("pkg/../../x", "the path leaves the tree"),
        ("/etc/x", "the path is absolute, it has to be relative to the tree"),
        ("pkg//x", "this is no normal path of a file"),
        ("./x", "this is no normal path of a file"),
    ],
)
def test_a_path_that_leaves_the_tree_is_refused(file, why):
    for patch in (edit("a", "b", file=file), Overlay(name="one", file=file, content=b"")):
        assert why in refusal("", patch)[0]


def test_links_that_lead_out_of_a_tree_are_refused_and_those_inside_are_followed(tmp_path: Path):
    tree = tmp_path / "tree"
    (tree / "pkg").mkdir(parents=True)
    (tree / "pkg/real.py").write_text("x = 1\n")
    (tree / "pkg/inside.py").symlink_to("real.py")
    (tree / "pkg/passwd").symlink_to("/etc/passwd")
    (tree / "out").symlink_to("../..")
    (tree / "pkg/lost").symlink_to("nowhere")
    (tree / "pkg/loop").symlink_to("loop")

    def read(file: str) -> bytes | None:
        path = real_file(tree, file)
        return path.read_bytes() if path is not None else None

    assert real_file(tree, "pkg/inside.py") == tree / "pkg/real.py"
    assert real_file(tree, "pkg/none.py") is None
    wanted = {
        "pkg/passwd": "pkg/passwd is a link that leads out of the tree, to /etc/passwd",
        "out/x.py": "out is a link that leads out of the tree, to ../..",
        "pkg/lost": "this is a link that leads nowhere, to nowhere",
        "pkg": "this is a folder",
    }
    done = plan([edit("a", "b", file=file, name=file) for file in wanted], read)
    assert done.told() == [f"patch {file}: {file}: {why}" for file, why in wanted.items()]
    assert "its links lead nowhere" in plan([edit("a", "b", file="pkg/loop")], read).told()[0]


def test_an_overlay_replaces_the_file_it_was_made_for_and_no_other():
    old = hashlib.sha256(b"old\n").hexdigest()
    new = Overlay(name="one", file="pkg/kernel.py", content=b"new = 1\n", replaces=old)
    assert planned("old\n", new).files == {"pkg/kernel.py": b"new = 1\n"}
    assert [outcome.state for _, outcome in planned("new = 1\n", new).outcomes] == ["redundant"]
    other = hashlib.sha256(b"other\n").hexdigest()
    assert refusal("other\n", new) == [
        f"patch one: pkg/kernel.py: expected the file to replace with sha256 {old}, found sha256 {other}"
    ]
    gone = Overlay(name="one", file="pkg/gone.py", content=b"", replaces=old)
    assert refusal("", gone) == [
        f"patch one: pkg/gone.py: there is no such file to replace, expected sha256 {old}"
    ]
    added = Overlay(name="one", file="pkg/new.py", content=b"x = 1\n")
    assert planned("", added).files == {"pkg/new.py": b"x = 1\n"}
    taken = Overlay(name="one", file="pkg/kernel.py", content=b"x = 1\n")
    assert refusal("other\n", taken) == [
        f"{ONE}: expected no such file, found one with sha256 {other}; it is replaced only if 'replaces' names it"
    ]
    broken = Overlay(name="one", file="pkg/new.py", content=b"x = (\n")
    assert "the file is no Python any more" in refusal("", broken)[0]


@given(
    st.text("ab\n", min_size=1, max_size=6), st.text("ab\n", max_size=6), st.text("ab\n", max_size=40),
    st.integers(1, 3),
)  # fmt: skip
def test_whatever_is_edited_is_what_python_replaces_and_an_edit_never_applies_twice(find, replace, text, count):
    patch = edit(find, replace, count, file="notes.txt")
    done = plan([patch], {"notes.txt": text.encode()}.get)
    outcome = done.outcomes[0][1]
    if outcome.state == "applies":
        assert outcome.data is not None
        left = text
        if replace not in text:
            assert text.count(find) == count
            assert outcome.data.decode() == text.replace(find, replace)
        assert len(outcome.data) == len(left) + count * (len(replace) - len(find))
    else:
        assert done.files == {}


def test_the_spec_of_a_step_is_the_same_for_the_same_edits():
    patches = [edit("a", "b"), Overlay(name="two", file="x.py", content=b"x", replaces=None)]
    assert spec(patches) == spec(tuple(patches))
    assert [sorted(entry) for entry in json.loads(spec(patches))["patches"]] == [
        ["edit", "name"],
        ["name", "overlay"],
    ]
    assert shipped(patches) == {"overlays/two": b"x"}


def test_in_a_series_an_edit_is_judged_on_what_the_patches_before_it_leave():
    tree = Held.of({"pkg/kernel.py": b"a = 1\n"})
    series = [Change(patch=edit("a = 1", "a = 2")), Change(patch=edit("a = 2", "a = 3", name="two"))]
    judged = judge(series, tree)
    assert [verdict.state for verdict in judged.verdicts] == ["applies", "applies"]
    assert judged.changes["pkg/kernel.py"] == Entry(mode=0o100644, data=b"a = 3\n")
    assert [verdict.state for verdict in judge(series[:1], Held.of({"pkg/kernel.py": b"a = 2\n"})).verdicts] == [
        "redundant"
    ]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("pkg/link", "pkg/link is a link that leads out of the tree, to /etc/passwd"),
        ("away/x.py", "away is a link that leads out of the tree, to ../.."),
        ("pkg/same", "pkg/same is a link to kernel.py; name the file it leads to"),
        ("pkg/kernel.py/x", "pkg/kernel.py is a file, no folder"),
        ("pkg", "this is a folder"),
        ("../x", "the path leaves the tree"),
    ],
)
def test_in_a_series_an_edit_that_would_leave_the_tree_ends_with_exit_4(file, why):
    def link(target: bytes) -> Entry:
        return Entry(mode=LINK, data=target)

    tree = Held(
        {
            "pkg/kernel.py": Entry(mode=0o100644, data=b"a = 1\n"), "pkg/link": link(b"/etc/passwd"),
            "away": link(b"../.."), "pkg/same": link(b"kernel.py"),
        }
    )  # fmt: skip
    with pytest.raises(PatchError) as failure:
        require_applied(judge([Change(patch=edit("a", "b", file=file))], tree), where="x")
    assert failure.value.exit_code == 4
    assert f"  {file}: {why}" in failure.value.details
