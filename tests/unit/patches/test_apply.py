"""Where hunks are placed, what stands in the way of a patch, and what it says then."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.patches.apply import Applied, Conflict, apply_patch
from builder.patches.tree import FILE, LINK, PROGRAM, Entry, Held

from .making import git_diff, hunk, parsed

LINES = [f"line {number}" for number in range(1, 31)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
CHANGE = hunk("x", " line 9", " line 10", "-line 11", "+eleven", " line 12", " line 13", at=9)


def run(patch: str | bytes, tree: dict[str, bytes | Entry]) -> Applied:
    held = {path: e if isinstance(e, Entry) else Entry(mode=FILE, data=e) for path, e in tree.items()}
    return apply_patch(parsed(patch), Held(held))


def conflict(patch: str | bytes, tree: dict[str, bytes | Entry]) -> Conflict:
    (found,) = run(patch, tree).conflicts
    return found


def test_a_hunk_goes_where_it_says() -> None:
    done = run(CHANGE, {"x": TEXT})
    assert not done.conflicts
    assert not done.offsets
    assert done.changes["x"] == Entry(mode=FILE, data=TEXT.replace(b"line 11\n", b"eleven\n"))


def test_a_hunk_with_one_single_other_place_is_moved_and_that_is_told() -> None:
    done = run(CHANGE, {"x": b"intro\n" * 3 + TEXT})
    assert [(o.file, o.hunk, o.lines) for o in done.offsets] == [("x", 1, 3)]
    assert done.changes["x"] == Entry(mode=FILE, data=b"intro\n" * 3 + TEXT.replace(b"line 11\n", b"eleven\n"))


def test_a_hunk_with_two_places_is_ambiguous() -> None:
    found = conflict(CHANGE, {"x": b"intro\n" + TEXT + TEXT})
    assert found.reason == "its old lines are there 2 times, at lines 10, 40: ambiguous"
    assert found.actual[0] == (10, "line 9")


def test_once_a_hunk_is_moved_the_stated_place_of_the_next_proves_nothing() -> None:
    two = CHANGE + "@@ -20,3 +20,3 @@\n a\n-b\n+B\n c\n"
    block = b"a\nb\nc\n"
    tree = TEXT.replace(b"line 20\nline 21\nline 22\n", block)
    assert run(two, {"x": tree}).offsets == []
    moved = b"intro\n" + tree.replace(b"line 19\n", block + b"line 19\n", 1)
    (found,) = run(two, {"x": moved}).conflicts
    assert (found.hunk, found.reason) == (2, "its old lines are there 2 times, at lines 20, 24: ambiguous")


def test_a_hunk_is_never_placed_above_the_one_before_it() -> None:
    two = hunk("x", " line 9", "-line 10", "+ten", " line 11", at=9) + "@@ -20,3 +20,3 @@\n a\n-b\n+B\n c\n"
    found = conflict(two, {"x": b"a\nb\nc\n" + TEXT[21:]})
    assert (found.hunk, found.reason) == (2, "its old lines are only above the hunk before it, at line 1")


def test_f47_a_moved_hunk_whose_new_lines_are_there_is_not_applied_twice() -> None:
    patch = hunk("x", " a", "+new", " b", at=9)
    found = conflict(patch, {"x": b"a\nnew\nb\n0\na\nb\n0\n"})
    assert found.problem == "already-there"
    assert found.reason == "what it adds is already there, at line 1, and its old lines are at line 5"


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (TEXT.replace(b"line 12", b"line  12"), "its old lines are at line 9 with other whitespace"),
        (TEXT.replace(b"\n", b"\r\n"), "its old lines are at line 9 with other whitespace"),
        (TEXT.replace(b"line 13", b"other"), "only with a fuzz of 1 it would fit, at line 9"),
        (
            b"more\n" + TEXT.replace(b"line 9\nline 10\n", b"nine\nten\n"),
            "only with a fuzz of 2 it would fit, at line 10",
        ),
        (TEXT.replace(b"line 11", b"changed"), "its old lines are not there; nearest is line 9 with 4 of 5 lines"),
        (TEXT.replace(b"line 11", b"eleven"), "what it adds is already there, at line 9"),
        (b"", "its old lines are not there; nearest is line 1 with 0 of 5 lines"),
    ],
)  # fmt: skip
def test_f46_what_only_fuzz_would_place_is_a_conflict_with_the_nearest_lines(tree: bytes, reason: str) -> None:
    found = conflict(CHANGE, {"x": tree})
    assert (found.file, found.hunk, found.reason) == ("x", 1, reason)
    assert found.expected == ("line 9", "line 10", "line 11", "line 12", "line 13")
    at = int(reason.partition("line ")[2].split()[0].strip(";,")) if tree else 1
    there = tree.decode().split("\n")[at - 1 : at + 4]
    assert found.actual == tuple((at + n, line.replace("\r", "\\r")) for n, line in enumerate(there) if tree)


def test_every_hunk_that_does_not_fit_is_told_and_nothing_is_changed() -> None:
    two = CHANGE + "@@ -20,3 +20,3 @@\n nowhere\n-b\n+B\n c\n"
    done = run(two, {"x": TEXT.replace(b"line 11", b"changed")})
    assert [found.hunk for found in done.conflicts] == [1, 2]
    assert "x" not in done.changes


def test_a_hunk_without_context_at_one_end_belongs_at_that_end() -> None:
    at_start = "--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n+new\n line 1\n line 2\n"
    assert run(at_start, {"x": TEXT}).changes["x"] == Entry(mode=FILE, data=b"new\n" + TEXT)
    found = conflict(at_start, {"x": b"intro\n" + TEXT})
    assert found.reason == "its old lines are at line 2, but have to be at the start of the file"
    at_end = "--- a/x\n+++ b/x\n@@ -29,2 +29,3 @@\n line 29\n line 30\n+new\n"
    assert run(at_end, {"x": TEXT}).changes["x"] == Entry(mode=FILE, data=TEXT + b"new\n")
    found = conflict(at_end, {"x": TEXT + b"more\n"})
    assert found.reason == "its old lines are at line 29, but have to be at the end of the file"
    assert conflict("--- a/x\n+++ b/x\n@@ -5,0 +6 @@\n+new\n", {"x": TEXT}).reason == (
        "it has no line of context, and the file is not empty"
    )


def test_a_header_whose_sides_disagree_proves_no_place() -> None:
    patch = CHANGE.replace("+9,5", "+12,5")
    assert not run(patch, {"x": TEXT}).conflicts
    assert conflict(patch, {"x": TEXT + TEXT}).reason.endswith("ambiguous")


def test_ends_of_lines_count() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"
    assert run(patch, {"x": b"a\nb"}).changes["x"] == Entry(mode=FILE, data=b"a\nc\n")
    assert conflict(patch, {"x": b"a\nb\n"}).reason == "its old lines are at line 1 with other whitespace"


@pytest.mark.parametrize(
    ("patch", "tree", "file", "reason"),
    [
        (CHANGE, {"y": b""}, "x", "there is no such file"),
        (CHANGE, {"x/y": b""}, "x", "it is a folder"),
        (CHANGE, {"x": Entry(mode=LINK, data=b"y")}, "x", "it is a link to 'y', not what the patch says"),
        (
            CHANGE, {"x": Entry(mode=LINK, data=b"../../etc/passwd")}, "x",
            "it is a link to '../../etc/passwd', outside the tree, not what the patch says",
        ),
        (
            hunk("lib/x", "-a", "+b"), {"lib": Entry(mode=LINK, data=b"/etc")}, "lib/x",
            "its path goes through the link 'lib', which leads to '/etc', outside the tree",
        ),
        (
            hunk("lib/x", "-a", "+b"), {"lib": Entry(mode=LINK, data=b"src"), "src/x": b"a\n"}, "lib/x",
            "its path goes through the link 'lib', which leads to 'src'",
        ),
        (hunk("lib/x", "-a", "+b"), {"lib": b""}, "lib/x", "its path goes through 'lib', which is a file"),
        (
            "--- /dev/null\n+++ b/lib/x\n@@ -0,0 +1 @@\n+b\n", {"lib": Entry(mode=LINK, data=b"../out")}, "lib/x",
            "its path goes through the link 'lib', which leads to '../out', outside the tree",
        ),
        (
            "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", {"x": b"a\n"}, "x",
            "it is to be made, but there is a file already",
        ),
        (
            "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", {"x": b"a\nmore\n"}, "x",
            "its old lines are at line 1, but have to be at the end of the file",
        ),
        (
            "diff --git a/x b/x\ndeleted file mode 100644\n", {"x": b"a\n"}, "x",
            "it is to be deleted, but holds more than the patch knows",
        ),
        (
            "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", {"x": b"", "y": b""}, "y",
            "it is to be made, but there is a file already",
        ),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_said(
    patch: str, tree: dict[str, bytes | Entry], file: str, reason: str
) -> None:
    found = conflict(patch, tree)
    assert (found.file, found.reason) == (file, reason)


@pytest.mark.parametrize("target", ["/etc", "../x", "a/../../x", "up/../x"])
def test_a_patch_cannot_make_a_link_that_leads_out(target: str) -> None:
    patch = (
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n"
        f"@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
    )
    found = conflict(patch, {"up": Entry(mode=LINK, data=b"."), "a/x": b""})
    assert found.reason == f"it becomes a link that leads out of the tree, to '{target}'"


def test_a_patch_cannot_write_through_a_link_that_it_makes() -> None:
    patch = (
        "diff --git a/lib b/lib\nnew file mode 120000\n--- /dev/null\n+++ b/lib\n"
        "@@ -0,0 +1 @@\n+src\n\\ No newline at end of file\n"
        "diff --git a/lib/x b/lib/x\nnew file mode 100644\n--- /dev/null\n+++ b/lib/x\n@@ -0,0 +1 @@\n+b\n"
    )
    assert conflict(patch, {"src/y": b""}).reason == "its path goes through the link 'lib', which leads to 'src'"


def test_files_that_swap_names_are_both_there_afterwards(tmp_path: Path) -> None:
    first, second = TEXT * 3, TEXT.replace(b"line", b"row") * 3
    patch = git_diff(tmp_path, {"a": first, "b": second}, {"a": second, "b": first}, "--find-renames", "-B")
    assert b"rename from a" in patch
    done = run(patch, {"a": first, "b": second})
    assert done.changes == {"a": Entry(mode=FILE, data=second), "b": Entry(mode=FILE, data=first)}


def test_a_copy_starts_from_the_file_before_the_patch(tmp_path: Path) -> None:
    changed = TEXT.replace(b"line 5\n", b"five\n")
    patch = git_diff(tmp_path, {"a": TEXT}, {"a": changed, "b": TEXT}, "--find-copies")
    assert b"copy from a" in patch
    assert run(patch, {"a": TEXT}).changes == {
        "a": Entry(mode=FILE, data=changed),
        "b": Entry(mode=FILE, data=TEXT),
    }


def test_a_binary_delta_needs_exactly_the_contents_it_was_made_for(tmp_path: Path) -> None:
    old = bytes(range(256)) * 40
    new = old[:5000] + b"\0new\0" + old[5000:]
    patch = git_diff(tmp_path, {"x": old}, {"x": new})
    assert b"\ndelta " in patch
    assert run(patch, {"x": old}).changes["x"] == Entry(mode=FILE, data=new)
    assert (
        conflict(patch, {"x": old + b"more"}).reason == "its contents are not those the binary patch was made for"
    )


def test_a_mode_changes_and_otherwise_stays() -> None:
    patch = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"
    assert run(patch, {"x": TEXT}).changes["x"] == Entry(mode=PROGRAM, data=TEXT)
    program = Entry(mode=PROGRAM, data=TEXT)
    changed = run(CHANGE, {"x": program}).changes["x"]
    assert changed is not None
    assert changed.mode == PROGRAM
