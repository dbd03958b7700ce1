"""The parsers of what strangers write, each as a function of bytes that returns, whatever the bytes are.

It raises nothing but what is a fault of the parser: a failure with words is how a parser answers to bad bytes.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from builder.codeobjects import elf as code_elf
from builder.codeobjects.audit import Found, audit
from builder.codeobjects.limits import Limits as CodeLimits
from builder.codeobjects.reading import read_file
from builder.elf import cache, dynamic
from builder.elf.headers import Unreadable
from builder.errors import Failure, PatchError
from builder.lockfile import dump_lock, parse_lock
from builder.mirrors import parse_mirrors
from builder.patches.diff import parse_patch
from builder.patches.judge import judge
from builder.patches.tree import Held, why_outside
from builder.recipe import parse_recipe
from builder.reference import parse_place, parse_reference, parse_target
from builder.registries.artifacts import Misshapen, described, entries_in, referrer_of
from builder.sources import gitoutput
from builder.sources.archive import Limits, extract

from ..unit.codeobjects import forge as codeobjects
from ..unit.elf import forge as elves
from ..unit.recipe import samples

_TREE = Held.of({"a.py": b"one\ntwo\nthree\n", "b/c.txt": b"x\n" * 20, "bin": bytes(range(256))})


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A parser, bytes that it takes as examples to start from, and words of its language."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    longest: int = 16384
    text: bool = field(default=False)  # whether it reads characters


def _told(failure: Failure) -> None:
    """A failure is for people: in lower case lines, of characters that are seen."""
    for line in (*failure.message.split("\n"), *failure.details, *(failure.hint or "").split("\n")):
        assert all(char.isprintable() or "\udc80" <= char <= "\udcff" or char == "\t" for char in line), line


def _said(words: str) -> None:
    assert words
    assert words.isprintable(), words


def elf(data: bytes) -> None:
    """Read what a file tells the loader, the loader's cache, and sections and notes."""
    view = memoryview(data)
    list(cache.entries(data))
    try:
        dynamic.read(view)
    except Unreadable as error:
        _said(str(error))
    try:
        head = code_elf.header(view)
        if head is None:
            return
        among = code_elf.segments(view, head)
        for section in code_elf.sections(view, head):
            code_elf.offset_of(section.address, among)
        for _ in zip(range(2000), code_elf.notes(view, among), strict=False):
            pass
        code_elf.target(view, head)
    except Unreadable as error:
        _said(str(error))


def bundle(data: bytes) -> None:
    """Read the GPU code of a file, and judge it."""
    found = read_file(memoryview(data), CodeLimits(bundles=200, decompressed=4 << 20))
    if found is not None:
        judged = audit([Found(path="lib.so", code=found, owner="unowned")], ["gfx1201", "gfx90a"])
        assert all(str(problem).isprintable() for part in judged.parts for problem in part.problems)


def patch(data: bytes) -> None:
    """Read a patch, and judge it against a small tree."""
    try:
        parsed = parse_patch(data, name="p.patch")
    except PatchError as error:
        _told(error)
        return
    assert all(why_outside(path) is None for path in parsed.paths)
    judged = judge([parsed], _TREE)
    assert all(why_outside(path) is None for path in judged.changes)
    json.dumps([verdict.plain() for verdict in judged.verdicts])


def reference(data: bytes) -> None:
    """Parse a reference to an image; what is understood is written as it is read."""
    text = data.decode("utf-8", "surrogateescape")
    for parse in (parse_place, parse_reference, parse_target):
        try:
            found = parse(text)
        except ValueError as error:
            _said(str(error))
            continue
        assert parse(str(found)) == found
        assert str(found).isprintable()


def toml(data: bytes) -> None:
    """Read a recipe, a lock and a file of mirrors."""
    text = data.decode("utf-8", "replace")
    try:
        parse_recipe(text, file="recipe.toml")
    except Failure as failure:
        _told(failure)
    try:
        lock = parse_lock(text, file="recipe.lock")
        assert parse_lock(dump_lock(lock), file="recipe.lock") == lock
    except Failure as failure:
        _told(failure)
    try:
        parse_mirrors(data, file=Path("/mirrors.toml"))
    except Failure as failure:
        _told(failure)


def git(data: bytes) -> None:
    """Read what git prints about a remote, a tree and its submodules."""
    text = data.decode("utf-8", "replace")
    wanted = ("refs/heads/main", "refs/tags/v1", "refs/tags/v1^{}")
    for read in (lambda: gitoutput.refs_in(text, wanted), lambda: gitoutput.listing_in(text)):
        try:
            read()
        except gitoutput.Malformed as error:
            _said(str(error))
    for url in (*gitoutput.addresses_in(text).values(), text[:200]):
        gitoutput.resolved(url, "https://example.org/a/b")


def registry(data: bytes) -> None:
    """Read what a registry says is beside an image."""
    try:
        described(data)
    except Misshapen as error:
        _said(str(error))
    try:
        for entry in entries_in(data):
            referrer_of(entry)
    except Misshapen as error:
        _said(str(error))


def archive(data: bytes) -> None:
    """Unpack an archive; nothing is written beside its folder."""
    with tempfile.TemporaryDirectory(prefix="rocm-images-fuzz.") as name:
        place = Path(name)
        (place / "a").write_bytes(data)
        try:
            extract(place / "a", place / "out" / "tree", name="a", limits=Limits(entries=200, size=1 << 20))
        except Failure as failure:
            _told(failure)
        assert {path.name for path in place.iterdir()} <= {"a", "out"}
        out = place / "out"
        assert {path.name for path in out.iterdir()} <= {"tree"} if out.is_dir() else True


def _tar(kind: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=f"w:{kind}", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for member, content in (("p/a.txt", b"hello"), (f"p/{'x' * 120}", b"long")):
            entry = tarfile.TarInfo(member)
            entry.size, entry.mtime = len(content), 1.5  # type: ignore[assignment]
            tar.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("p/l")
        link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
        tar.addfile(link)
    return made.getvalue()


def _zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        opened.writestr("p/a.txt", "hello")
        opened.writestr(zipfile.ZipInfo("p/b/"), "")
    return made.getvalue()


_TWO = codeobjects.bundle("gfx1201", "gfx90a:xnack+")
_GIT_PATCH = b"""\
diff --git a/a.py b/a.py
index 1111111..2222222 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@ def f():
 one
-two
+TWO
 three
diff --git a/new "b/n\\303\\251w"
new file mode 100755
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+x
\\ No newline at end of file
"""
_BINARY_PATCH = b"""\
From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
Subject: [PATCH] x

---
diff --git a/bin b/bin
index 0cb1fde9d1e1d6ad1b5fbdd22d1fd2a3b1b1f2b7..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 100644
GIT binary patch
literal 3
KcmZP&&dAF@!T|sP1ONa4

delta 6
NcmZo*nZ(9i#sB~)00jU5

--
2.39
"""

TARGETS = {
    "elf": Target(
        run=elf,
        seeds=(
            elves.library(soname="a.so", needed=["b.so"], requires={"b.so": ["V_1"]}, defines=["V_2"]),
            elves.library(kind=2, interpreter="/lib/ld.so", runpath="$ORIGIN:/x", exports=["PyInit_a"]),
            codeobjects.code("gfx1201"),
            codeobjects.program(_TWO),
            b"glibc-ld.so.cache1.1" + bytes(60),
        ),
        words=(b"\x7fELF\x02\x01\x01", b"PyInit_", b"\xff\xff\xff\xff\xff\xff\xff\xff"),
    ),
    "bundle": Target(
        run=bundle,
        seeds=(
            _TWO,
            *[codeobjects.compressed(_TWO, version=v, method=m) for v in (1, 2, 3) for m in (0, 1)],
            codeobjects.program(_TWO, codeobjects.compressed(_TWO)),
        ),
        words=(b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"hipv4-amdgcn-amd-amdhsa--gfx1201", b"FPIH"),
    ),
    "patch": Target(
        run=patch,
        seeds=(_GIT_PATCH, _BINARY_PATCH, b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n"),
        words=tuple(
            b"@@ -1 +1 @@|\n--- a/|\n+++ b/|/dev/null|diff --git |rename from |copy to |new file mode 120000|"
            b"GIT binary patch\n|literal |delta |index |\\ No newline|old mode |From |160000|.git/|../".split(b"|")
        ),
    ),
    "reference": Target(
        run=reference,
        seeds=(
            b"docker.io/rocm/vllm:a@sha256:" + b"0" * 64, b"oci:out/x:tag", b"localhost:5000/a", b"[::1]:5/a",
        ),
        words=(b"@sha256:", b"oci:", b"docker.io/", b"0" * 64),
        text=True,
    ),
    "toml": Target(
        run=toml,
        seeds=(
            samples.FULL.encode(), samples.SMALL.encode(), dump_lock(samples.lock(samples.recipe())).encode(),
            b'[registry]\n"docker.io" = "localhost:5000"\n[git]\n"https://a/" = "file:///b/"\n',
        ),
        words=tuple(b'[[component]]\n|[source.a]\n|[[patch]]\n|edit = {|hook = {| = |"""|[['.split(b"|")),
        text=True,
    ),
    "git": Target(
        run=git,
        seeds=(
            b"0" * 40 + b"\trefs/heads/main\n" + b"1" * 40 + b"\trefs/tags/v1\n",
            b"160000 commit " + b"2" * 40 + b"\tlib/a\x00100644 blob " + b"3" * 40 + b"\tb\x00",
            b"submodule.x.path\nlib/a\x00submodule.x.url\n../y\x00",
        ),
        words=(b"\trefs/heads/main", b"submodule.", b".path\n", b".url\n", b"../", b"ext::", b"160000 commit "),
        text=True,
    ),
    "registry": Target(
        run=registry,
        seeds=(
            b'{"manifests":[{"digest":"sha256:' + b"0" * 64 + b'","size":3,"annotations":{}}]}',
            b'{"layers":[{"mediaType":"a","digest":"sha256:' + b"0" * 64 + b'","size":3}],'
            b'"config":{"mediaType":"b"},"subject":null}',
        ),
        words=(b'"digest":', b'"size":', b'"annotations":', b'"layers":', b"null", b"1e999", b"NaN"),
        text=True,
    ),
    "archive": Target(
        run=archive,
        seeds=(_tar(""), _tar("gz"), _tar("xz"), _zip()),
        words=(b"ustar\x0000", b"PK\x03\x04", b"PK\x01\x02", b"path=", b"GNU.sparse.map=", b"size=", b"mtime=inf"),
        longest=32768,
    ),
}  # fmt: skip
