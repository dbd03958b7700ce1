"""What a patch file says, and what is refused in one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.errors import PatchError
from builder.patches.tree import FILE, LINK, PROGRAM, Entry

from .making import git_diff, hunk, parsed

MAIL = """From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
From: A <a@example.org>
Date: Tue, 14 Nov 2023 22:13:20 +0000
Subject: [PATCH] One
 line

- a list in the message
+ and another
---
 x.txt | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

"""
CHANGE = "diff --git a/x.txt b/x.txt\nindex 1..2 100644\n" + hunk("x.txt", " a", "-b", "+c", " d")
SIGNATURE = "-- \n2.39.5\n\n"


def refused(text: str | bytes) -> str:
    with pytest.raises(PatchError) as raised:
        parsed(text)
    return raised.value.message


def test_a_mail_of_git_format_patch_is_read_past_its_words() -> None:
    (change,) = parsed(MAIL + CHANGE + SIGNATURE).changes
    assert (change.action, change.path, change.source) == ("modify", "x.txt", "x.txt")
    (hunk_,) = change.hunks
    assert hunk_.old == (b"a\n", b"b\n", b"d\n")
    assert hunk_.new == (b"a\n", b"c\n", b"d\n")
    assert (hunk_.at, hunk_.leading, hunk_.trailing) == (0, 1, 1)


def test_the_mails_of_a_mailbox_are_parts_that_may_touch_one_file() -> None:
    again = CHANGE.replace("-b", "-c").replace("+c", "+e")
    patch = parsed(MAIL + CHANGE + SIGNATURE + MAIL + again + SIGNATURE)
    assert len(patch.parts) == 2
    assert patch.paths == ("x.txt",)
    assert patch.hunks == 2


def test_one_diff_that_touches_a_file_twice_is_refused() -> None:
    assert refused(CHANGE + CHANGE) == (
        "p: line 10: it changes 'x.txt' a second time; what was meant first cannot be told"
    )


def test_every_kind_of_change_that_git_writes_is_understood(tmp_path: Path) -> None:
    many = b"".join(b"%d\n" % number for number in range(30))
    before = {
        "mode": b"m\n", "gone": b"g\n", "old/name": many, "to link": b"l\n", "blob": bytes(range(256)),
        "é\t.py": b"1\n", "moved": many + b"moved\n",
    }  # fmt: skip
    after = {
        "mode": Entry(mode=PROGRAM, data=b"m\n"), "made": Entry(mode=PROGRAM, data=b"new\n"), "empty": b"",
        "new/name": many + b"more\n", "to link": Entry(mode=LINK, data=b"made"), "blob": bytes(range(255)),
        "é\t.py": b"2\n", "moved2": many + b"moved\n",
    }  # fmt: skip
    patch = parsed(git_diff(tmp_path, before, after, "--find-renames"))
    found = {(c.action, c.source, c.path, c.mode): (len(c.hunks), c.binary is not None) for c in patch.changes}
    assert found == {
        ("modify", "blob", "blob", None): (0, True),
        ("create", None, "empty", FILE): (0, False),
        ("delete", "gone", "gone", None): (1, False),
        ("create", None, "made", PROGRAM): (1, False),
        ("modify", "mode", "mode", PROGRAM): (0, False),
        ("rename", "moved", "moved2", None): (0, False),
        ("rename", "old/name", "new/name", None): (1, False),
        ("delete", "to link", "to link", None): (1, False),
        ("create", None, "to link", LINK): (1, False),
        ("modify", "é\t.py", "é\t.py", None): (1, False),
    }


def test_lines_keep_cr_lf_and_the_last_one_may_have_no_end() -> None:
    text = b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\r\n-b\n\\ No newline at end of file\n+c\r\n"
    ((change,),) = parsed(text).parts
    assert change.hunks[0].old == (b"a\r\n", b"b")
    assert change.hunks[0].new == (b"a\r\n", b"c\r\n")


def test_a_line_of_context_that_lost_its_blank_is_an_empty_one() -> None:
    ((change,),) = parsed("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n\n-b\n+c\n\n").parts
    assert change.hunks[0].old == (b"\n", b"b\n", b"\n")


@pytest.mark.parametrize(
    ("dates", "action"),
    [
        (("1970-01-01 01:00:00.000000000 +0100", "2024-05-01 10:00:00.000000000 +0200"), "create"),
        (("2024-05-01 10:00:00.000000000 +0200", "1969-12-31 19:00:00.000000000 -0500"), "delete"),
        (("2024-05-01 10:00:00.000000000 +0200", "2024-05-02 10:00:00.000000000 +0200"), "modify"),
    ],
)
def test_a_diff_of_two_folders_says_by_the_epoch_that_a_file_is_not_there(
    dates: tuple[str, str], action: str
) -> None:
    lines = {"create": "@@ -0,0 +1 @@\n+a\n", "delete": "@@ -1 +0,0 @@\n-a\n", "modify": "@@ -1 +1 @@\n-a\n+b\n"}
    text = f"diff -ruN old/x new/x\n--- old/x\t{dates[0]}\n+++ new/x\t{dates[1]}\n{lines[action]}"
    ((change,),) = parsed(text).parts
    assert (change.action, change.path) == (action, "x")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../../etc/x", "'../../etc/x' leaves the tree"),
        ("/etc/x", "'/etc/x' is an absolute path"),
        ("a/../../x", "'a/../../x' leaves the tree"),
        ("a/./x", "'a/./x' is no path of a file"),
        (".git/config", "'.git/config' belongs to git, not to the tree"),
        ("sub/.GIT/hooks/x", "'sub/.GIT/hooks/x' belongs to git, not to the tree"),
    ],
)
def test_a_path_that_leaves_the_tree_is_refused_however_it_is_written(path: str, reason: str) -> None:
    prefix = "" if path.startswith("/") else "a/"
    body = "@@ -1 +1 @@\n-a\n+b\n"
    for text in (
        f"--- {prefix}{path}\n+++ {prefix}{path}\n{body}",
        f"--- /dev/null\n+++ {prefix}{path}\n@@ -0,0 +1 @@\n+b\n",
        f'--- "{prefix}{path}"\n+++ "{prefix}{path}"\n{body}',
    ):
        assert refused(text) == f"p: line 1: {reason}"
    if prefix:
        assert reason in refused(f"diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to {path}\n")
        assert reason in refused(f"diff --git a/{path} b/{path}\nold mode 100644\nnew mode 100755\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p: there is no change in it"),
        ("only words\n", "p: there is no change in it"),
        (CHANGE.replace("-1,3 +1,3", "-1,2 +1,2"), "p: line 9: the hunk goes on behind the number of lines"),
        (CHANGE.replace("-1,3 +1,3", "-1,4 +1,4"), "p: line 5: the patch ends inside this hunk"),
        (CHANGE.removesuffix("\n"), "p: line 5: the patch ends inside this hunk"),
        (CHANGE.replace(" d\n", "?d\n"), "p: line 9: the hunk of line 5 does not have the lines"),
        (hunk("x", " a", " b"), "p: line 3: the hunk changes nothing"),
        (CHANGE.replace("\n", "\r\n"), "p: line 1: its own lines end in CR LF"),
        (hunk("x", "-a", "+b").replace("\n", "\r\n"), "p: line 1: its own lines end in CR LF"),
        ("@@ -1 +1 @@\n-a\n+b\n", "p: line 1: a hunk without the lines that name its file"),
        ("diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n", "p: line 1: it is the diff of a merge"),
        (
            "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n",
            "p: line 3: the binary change of 'x'",
        ),
        ("diff --git a/x b/x\nindex 1..2 160000\n", "p: line 2: it changes the commit of a submodule"),
        ("diff --git a/x b/x\nindex 1..2 100644\n", "p: line 1: it names 'x' and changes nothing in it"),
        ("diff --git a/x b/y\nindex 1..2 100644\n", "p: line 1: it names two files"),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "p: line 1: it is about two files, 'x' and 'y'"),
        ("--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n", "p: line 1: expected a name such as 'a/x', got 'x'"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "p: line 1: both sides are no file"),
        ("--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "p: line 1: 'x' is new, and yet"),
        ("--- a/x\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "p: line 1: 'x' is deleted, and yet"),
        (
            CHANGE.replace("--- a/x.txt", "--- a/y.txt"),
            "p: line 3: '---' names 'y.txt', the header above 'x.txt'",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -9 +9 @@\n-a\n+b\n@@ -9 +9 @@\n-a\n+b\n",
            "p: line 6: the hunk starts before the one above it ends",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n+b\n c\n",
            "p: line 3: a line without an end is followed by others",
        ),
        ('--- "a/x\n+++ "b/x\n@@ -1 +1 @@\n-a\n+b\n', "p: line 1: a quoted name without its end"),
        ('--- "a/\\x"\n+++ "b/x"\n@@ -1 +1 @@\n-a\n+b\n', "p: line 1: a quoted name with an unknown escape"),
        (CHANGE + "Only in b: y.txt\n", "p: line 10: it names a file without what is in it"),
        (
            "diff --git a/x b/x\nrename from x\nrename to y\n" + CHANGE.replace("x.txt", "x"),
            "p: line 4: it renames 'x' and changes it as well",
        ),
    ],
)  # fmt: skip
def test_a_patch_that_is_not_whole_is_refused_with_its_line(text: str, message: str) -> None:
    assert refused(text).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: re.sub(rb"(index \w{7})\w+(\.\.\w{7})\w+", rb"\1\2", t), "without the full names"),
        (lambda t: re.sub(rb"literal \d+", b"literal 3", t, count=1), "its data is not 3 bytes long"),
        (lambda t: re.sub(rb"(literal \d+\n.)...", rb'\1""!', t, count=1), "a line that is no base85"),
        (lambda t: re.sub(rb"(literal \d+\n.)...", rb"\1", t, count=1), "a line that is"),
        (lambda t: re.sub(rb"literal \d+\n", b"other 3\n", t, count=1), "expected 'literal SIZE' or 'delta SIZE'"),
        (lambda t: t[: t.index(b"\n", t.index(b"literal") + 12)], "it is cut off"),
    ],
)  # fmt: skip
def test_a_binary_hunk_is_proven_to_be_whole(tmp_path: Path, change, message: str) -> None:
    text = git_diff(tmp_path, {}, {"blob": bytes(range(256)) * 3})
    assert parsed(text).hunks == 1
    assert message in refused(change(text))
