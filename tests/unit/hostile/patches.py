"""Patches that want to write elsewhere, or to break who reads them."""

from __future__ import annotations

import base64
import hashlib
import zlib
from functools import partial
from pathlib import Path

from builder.patches.diff import parse_patch
from builder.sources.worktree import patched_tree

from .rooms import Case, Room

AREA = "patches"


def applied(data: bytes, room: Room, *, links: dict[str, str] | None = None) -> str:
    """Apply a patch to a small tree; nothing beside it may change."""
    source = room.folder / "source"
    (source / "d").mkdir(parents=True)
    (source / "a.txt").write_text("one\n")
    for name, target in (links or {}).items():
        (source / name).symlink_to(target)
    victim = room.write("victim", b"one\n")
    try:
        made = patched_tree(
            source, [parse_patch(data, name="0001.patch")], room.folder / "out" / "tree", epoch=0, where="source.s"
        )
    finally:
        assert victim.read_bytes() == b"one\n"
        assert {path.name for path in room.folder.iterdir()} <= {"source", "victim", "out"}
    return f"applied: {', '.join(sorted(_shown(path, made.path) for path in made.path.rglob('*')))}"


def _shown(path: Path, root: Path) -> str:
    return f"{str(path.relative_to(root))!r} ({oct(path.lstat().st_mode & 0o7777)[2:]})"


def new(path: bytes, mode: bytes = b"100644", content: bytes = b"x") -> bytes:
    return (
        b"diff --git a/%b b/%b\nnew file mode %b\n--- /dev/null\n+++ b/%b\n@@ -0,0 +1 @@\n+%b\n"
        b"\\ No newline at end of file\n" % (path, path, mode, path, content)
    )


def changed(path: bytes) -> bytes:
    return b"diff --git a/%b b/%b\n--- a/%b\n+++ b/%b\n@@ -1 +1 @@\n-one\n+two\n" % (path, path, path, path)


def delta(instructions: bytes, old: bytes = b"one\n") -> bytes:
    """Return a binary patch of a.txt by this delta."""
    packed = zlib.compress(instructions)
    lines = b"".join(
        bytes([ord("A") + len(part) - 1 if len(part) <= 26 else ord("a") + len(part) - 27])
        + base64.b85encode(part, pad=True) + b"\n"
        for part in (packed[at : at + 52] for at in range(0, len(packed), 52))
    )  # fmt: skip
    name = hashlib.sha1(b"blob %d\0" % len(old) + old, usedforsecurity=False).hexdigest().encode()
    return b"diff --git a/a.txt b/a.txt\nindex %b..%b 100644\nGIT binary patch\ndelta %d\n%b\n" % (
        name,
        b"1" * 40,
        len(instructions),
        lines,
    )


def case(given: str, data: bytes, *, refused: bool = True, links: dict[str, str] | None = None) -> Case:
    return Case(area=AREA, given=given, run=partial(applied, data, links=links), refused=refused)


_HUGE = b"9" * 5000
CASES = (
    case("a file with an absolute path", b"--- a//etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-one\n+two\n"),
    case("a file that climbs out by `..`", changed(b"../victim")),
    case(
        "`..` behind an escape in a quoted name",
        b'diff --git "a/\\056\\056/victim" "b/\\056\\056/victim"\n'
        b'--- "a/\\056\\056/victim"\n+++ "b/\\056\\056/victim"\n@@ -1 +1 @@\n-one\n+two\n',
    ),
    case("a hook of git", new(b".git/hooks/post-checkout", b"100755")),
    case("`.GIT`, as systems without case read it", new(b".GIT/config")),
    case("a new link that leads out", new(b"l", b"120000", b"../victim")),
    case("a new link with an absolute target", new(b"l", b"120000", b"/etc/passwd")),
    case("a link, and a file written through it", new(b"l", b"120000", b"d") + new(b"l/x")),
    case("a change to a file behind a link of the tree", changed(b"l/victim"), links={"l": ".."}),
    case(
        "a rename to a place outside", b"diff --git a/a.txt b/../victim\nrename from a.txt\nrename to ../victim\n"
    ),
    case("a copy of a file outside", b"diff --git a/../victim b/stolen\ncopy from ../victim\ncopy to stolen\n"),
    case("the commit of a submodule", new(b"sub", b"160000")),
    case("a device", new(b"dev", b"020000")),
    case("a new file with setuid", new(b"su", b"104755"), refused=False),
    case(
        "a line break in a name",
        b'diff --git "a/x\\nRUN id" "b/x\\nRUN id"\nnew file mode 100644\n',
        refused=False,
    ),
    case("a control sequence in a name", b"--- a\x1b[2J\n+++ a\x1b[2J\n@@ -1 +1 @@\n-one\n+two\n"),
    case(
        "a delta that makes terabytes of a few bytes",
        delta(b"\x04\x04" + b"\xff\x00\x00\x00\x00\x04\x00\x00" * 400),
    ),
    case("a delta that says it makes terabytes", delta(b"\x04" + b"\xff" * 6 + b"\x01")),
    case("a delta with a number that never ends", delta(b"\xff" * 4000)),
    case(
        "a binary patch that unpacks to more than it says",
        delta(b"\x04\x04" + bytes(5000)).replace(b"delta 5002", b"delta 6"),
    ),
    case("a line number of 5000 digits", changed(b"a.txt").replace(b"-1 +1", b"-%b +1" % _HUGE)),
    case("a size of 5000 digits", delta(b"\x04\x04\x90\x04").replace(b"delta 4", b"delta %b" % _HUGE)),
    case("a name of a million spaces", b"diff --git " + b" " * 1_000_000 + b"\n"),
    case("a hunk that is longer than its header says", changed(b"a.txt") + b"+RUN id\n"),
    case("the same file twice", changed(b"a.txt") + changed(b"a.txt")),
)
