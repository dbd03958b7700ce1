"""Whenever a patch is applied here, `git apply` makes the same bytes of it; what git refuses is refused."""

from __future__ import annotations

import re
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from builder import process
from builder.errors import PatchError
from builder.patches.apply import apply_patch
from builder.patches.diff import parse_patch
from builder.patches.tree import LINK, PROGRAM, Entry, Layer
from builder.sources.worktree import FolderTree, write_tree

from .making import entries, git_apply, git_diff, lay_out

# Few different lines, so that contexts repeat and hunks have several places.
LINE = st.sampled_from(
    [b"a", b"b", b"c", b"  a", b"\ta", b"", b"a\r", b"-- ", b"+++ x", b"@@ -1 +1 @@", b"\xff\xfe", b"\\ no"]
)
CONTENT = st.builds(
    lambda lines, end: b"\n".join(lines) + (end if lines else b""),
    st.lists(LINE, max_size=14), st.sampled_from([b"\n", b""]),
)  # fmt: skip
UNIQUE = st.integers(0, 40).map(lambda n: b"".join(b"%d\n" % number for number in range(n)))
FILE_DATA = st.one_of(CONTENT, UNIQUE, st.binary(max_size=40))
NAMES = st.sampled_from(["x", "d/y", "d/e/z w.py", "é"])
TREES = st.dictionaries(NAMES, FILE_DATA, max_size=3)
COMMON = {"max_examples": 60, "deadline": None, "suppress_health_check": list(HealthCheck)}


def no_index(place: Path, before: dict[str, bytes], after: dict[str, bytes], context: int) -> bytes:
    """Return git's patch between two folders, which costs one program."""
    lay_out(place / "a", before)
    lay_out(place / "b", after)
    out = place / "out.patch"
    process.run(
        ["git", "diff", "--no-index", "--no-prefix", "--no-renames", "--binary", "--full-index", f"-U{context}",
         f"--output={out}", "a", "b"], cwd=place,
    )  # fmt: skip
    return out.read_bytes()


def compare(place: Path, patch: bytes, tree: dict[str, bytes | Entry], *, told: bool = True) -> bool:
    """Apply a patch to a tree both ways and compare; return whether it was applied here."""
    folder = lay_out(place / "tree", tree)
    try:
        parsed = parse_patch(patch, name="p")
    except PatchError:
        return False
    done = apply_patch(parsed, FolderTree(folder))
    if done.conflicts:
        return False
    write_tree(folder, done.changes, place / "ours", epoch=0)
    assert git_apply(folder, patch), "git refuses what is applied here"
    assert entries(place / "ours") == entries(folder)
    return True


@given(before=TREES, after=TREES, context=st.integers(0, 3), data=st.data())
@settings(**COMMON)
def test_git_makes_the_same_of_every_patch_that_applies_here(
    before: dict[str, bytes], after: dict[str, bytes], context: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        after = {**before, **after} if data.draw(st.booleans()) else after
        patch = no_index(place, before, after, context)
        tree = dict(before)
        if tree and data.draw(st.booleans()):  # another version of one of the files
            path = data.draw(st.sampled_from(sorted(tree)))
            top = b"".join(line + b"\n" for line in data.draw(st.lists(LINE, max_size=3)))
            tree[path] = top + tree[path]
        event(f"applied: {compare(place, patch, tree)}")


@given(before=CONTENT, after=CONTENT, other=CONTENT, context=st.integers(1, 3))
@settings(**COMMON)
def test_git_makes_the_same_of_a_patch_on_a_file_it_was_not_made_for(
    before: bytes, after: bytes, other: bytes, context: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        patch = no_index(place, {"x": before}, {"x": after}, context)
        event(f"applied: {compare(place, patch, {'x': before + other})}")


@given(
    before=UNIQUE, after=CONTENT, edits=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=3)
)
@settings(**COMMON)
def test_a_damaged_patch_is_refused_or_means_what_git_takes_it_for(
    before: bytes, after: bytes, edits: list[tuple[int, bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        patch = no_index(place, {"x": before}, {"x": before[:30] + after + before[30:]}, 3)
        for at, what in edits:
            at = min(at, len(patch))
            patch = patch[:at] + what + patch[at + 1 :]
        event(f"applied: {compare(place, patch, {'x': before})}")


MANY = b"".join(b"line %d\n" % number for number in range(60))
CRLF = MANY.replace(b"\n", b"\r\n")
KINDS: dict[str, tuple[dict[str, bytes | Entry], dict[str, bytes | Entry], tuple[str, ...]]] = {
    "rename": ({"a": MANY}, {"d/b": MANY}, ("--find-renames",)),
    "rename and change": ({"a": MANY}, {"b": MANY.replace(b"line 7\n", b"7\n")}, ("--find-renames",)),
    "copy": ({"a": MANY}, {"a": MANY + b"x\n", "b": MANY}, ("--find-copies",)),
    "swap": ({"a": MANY, "b": MANY.replace(b"line", b"row")}, {"b": MANY, "a": MANY.replace(b"line", b"row")},
             ("--find-renames", "-B")),
    "modes": ({"a": b"1\n", "b": Entry(mode=PROGRAM, data=b"2\n")},
              {"a": Entry(mode=PROGRAM, data=b"1\n"), "b": b"3\n"}, ()),
    "file to link": ({"a": b"1\n", "b": b""}, {"a": Entry(mode=LINK, data=b"b"), "b": b""}, ()),
    "link to file": ({"a": Entry(mode=LINK, data=b"b"), "b": b""}, {"a": b"1\n", "b": b""}, ()),
    "link changes": ({"a": Entry(mode=LINK, data=b"b"), "b": b""},
                     {"a": Entry(mode=LINK, data=b"d/c"), "b": b""}, ()),
    "link moves": ({"a": Entry(mode=LINK, data=b"b"), "b": b""}, {"c": Entry(mode=LINK, data=b"b"), "b": b""},
                   ("--find-renames",)),
    "file to folder": ({"a": b"1\n"}, {"a/b": b"2\n"}, ()),
    "quoted names": ({'q"u\\o\tte': b"1\n", "sp ace": b"1\n", "\udcff": b"1\n", "é": b"1\n"},
                     {'q"u\\o\tte': b"2\n", "sp ace": b"2\n", "\udcff": b"2\n", "é": b"2\n"}, ()),
    "binary": ({"a": bytes(range(256)) * 50, "b": b"\0"},
               {"a": bytes(range(256)) * 49 + b"\0x", "c": b"\0\1"}, ()),
    "crlf": ({"a": CRLF}, {"a": CRLF.replace(b"line 9\r", b"9\r")}, ()),
    "ends": ({"a": b"1\n2", "b": b"1\n2\n"}, {"a": b"1\n2\n", "b": b"1\n2"}, ()),
    "empty": ({"a": b"", "b": b"1\n"}, {"a": b"1\n", "b": b"", "c": b""}, ()),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_change_gives_what_git_gives(tmp_path: Path, kind: str) -> None:
    before, after, options = KINDS[kind]
    patch = git_diff(tmp_path, before, after, *options)
    assert compare(tmp_path, patch, before)
    assert entries(tmp_path / "ours") == entries(lay_out(tmp_path / "wanted", after))


def test_a_series_gives_what_a_loop_of_git_apply_gives(tmp_path: Path) -> None:
    trees: list[dict[str, bytes | Entry]] = [{"a": MANY, "d/b": b"1\n"}]
    trees.append({"a": MANY.replace(b"line 3\n", b"3\n"), "d/b": b"1\n", "new.py": b"x = 1\n"})
    trees.append({"c": MANY.replace(b"line 3\n", b"3\n"), "new.py": Entry(mode=PROGRAM, data=b"x = 2\n")})
    trees.append({"c": MANY.replace(b"line 3\n", b"three\n"), "new.py": Entry(mode=PROGRAM, data=b"x = 2\n")})
    patches = [
        git_diff(tmp_path / str(n), old, new, "--find-renames") for n, (old, new) in enumerate(pairwise(trees))
    ]
    folder = lay_out(tmp_path / "tree", trees[0])
    tree: FolderTree | Layer = FolderTree(folder)
    for patch in patches:
        done = apply_patch(parse_patch(patch, name="p"), tree)
        assert not done.conflicts
        tree = Layer(tree, done.changes)
    assert isinstance(tree, Layer)
    write_tree(folder, tree.changes, tmp_path / "ours", epoch=0)
    assert entries(tmp_path / "ours") == entries(lay_out(tmp_path / "wanted", trees[-1]))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(rb"(@@ -\d+,)\d+", rb"\g<1>2", text, count=1),
        lambda text: text.replace(b"+7\n", b"", 1),
        lambda text: text[: len(text) // 2],
    ],
)
def test_what_git_calls_corrupt_is_refused(tmp_path: Path, change) -> None:
    patch = change(git_diff(tmp_path, {"a": MANY}, {"a": MANY.replace(b"line 7\n", b"7\n")}))
    folder = lay_out(tmp_path / "tree", {"a": MANY})
    assert not git_apply(folder, patch)
    with pytest.raises(PatchError):
        parse_patch(patch, name="p")
