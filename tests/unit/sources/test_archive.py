"""Archives: what is unpacked, and what is refused without leaving a file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from builder.errors import LockError
from builder.sources.archive import Limits, extract

DATE = 1700000000


def _member(name: str, kind: bytes = tarfile.REGTYPE, *, data: bytes = b"", link: str = "", mode: int = 0o644):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode, info.mtime = kind, len(data), link, mode, DATE
    return info, data


def _tar(*members) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _zip(*members: tuple[str, bytes, int]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name, (2023, 11, 14, 22, 13, 20))
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return out.getvalue()


def _unpack(tmp_path: Path, data: bytes, **options) -> dict[str, bytes]:
    source = tmp_path / "object"
    source.write_bytes(data)
    into = extract(source, tmp_path / "place" / "src", name="x-1.tar.gz", **options)
    return {str(p.relative_to(into)): p.read_bytes() for p in sorted(into.rglob("*")) if p.is_file()}


def _refused(tmp_path: Path, data: bytes, **options) -> str:
    with pytest.raises(LockError) as refused:
        _unpack(tmp_path, data, **options)
    assert list((tmp_path / "place").iterdir()) == []
    assert not (tmp_path / "evil").exists()
    return refused.value.message


SDIST = _tar(
    _member("x-1", tarfile.DIRTYPE, mode=0o700),
    _member("x-1/setup.py", data=b"setup"),
    _member("x-1/run", data=b"#!", mode=0o4711),
    _member("x-1/a/b/c", data=b"c", mode=0o600),
    _member("x-1/link", tarfile.SYMTYPE, link="a/b/../b/c"),
    _member("x-1/same", tarfile.LNKTYPE, link="x-1/run"),
)
CONTENT = {"a/b/c": b"c", "link": b"c", "run": b"#!", "same": b"#!", "setup.py": b"setup"}


@pytest.mark.parametrize(
    "pack",
    [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress],
    ids=["tar", "gz", "bz2", "xz", "zst"],
)
def test_a_tar_is_unpacked_without_its_top_folder_whatever_it_is_compressed_with(tmp_path, pack):
    assert _unpack(tmp_path, pack(SDIST)) == CONTENT
    assert os.readlink(tmp_path / "place/src/link") == "a/b/../b/c"  # noqa: PTH115 - to the byte


def test_modes_and_times_depend_on_the_archive_alone(tmp_path):
    before = os.umask(0o077)
    try:
        _unpack(tmp_path, SDIST)
    finally:
        os.umask(before)
    place = tmp_path / "place/src"
    modes = {str(p.relative_to(place)): oct(p.stat().st_mode & 0o7777) for p in place.rglob("*")}
    assert modes == {
        "a": "0o755", "a/b": "0o755", "a/b/c": "0o644", "link": "0o644", "run": "0o755", "same": "0o755",
        "setup.py": "0o644",
    }  # fmt: skip
    assert oct(place.stat().st_mode & 0o7777) == "0o755"
    assert {p.lstat().st_mtime for p in place.rglob("*")} == {DATE}


def test_a_hard_link_becomes_a_file_of_its_own(tmp_path):
    _unpack(tmp_path, SDIST)
    assert (tmp_path / "place/src/run").stat().st_nlink == 1


def test_a_zip_is_unpacked_with_its_modes_and_links(tmp_path):
    data = _zip(
        ("x-1/", b"", stat.S_IFDIR | 0o755),
        ("x-1/a.py", b"a", stat.S_IFREG | 0o600),
        ("x-1/run", b"#!", stat.S_IFREG | 0o755),
        ("x-1/plain", b"p", 0),
        ("x-1/link", b"a.py", stat.S_IFLNK | 0o777),
    )
    assert _unpack(tmp_path, data) == {"a.py": b"a", "link": b"a", "plain": b"p", "run": b"#!"}
    assert (tmp_path / "place/src/run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "place/src/a.py").stat().st_mtime == DATE


def test_several_things_at_the_top_stay_where_they_are(tmp_path):
    assert _unpack(tmp_path, _tar(_member("a/x", data=b"1"), _member("b", data=b"2"))) == {"a/x": b"1", "b": b"2"}


def test_the_top_folder_stays_when_it_is_asked_for(tmp_path):
    assert _unpack(tmp_path, _tar(_member("a/x", data=b"1")), strip=False) == {"a/x": b"1"}


def test_what_was_unpacked_before_is_replaced(tmp_path):
    assert _unpack(tmp_path, _tar(_member("a/x", data=b"1"), _member("b", data=b"1"))).keys() == {"a/x", "b"}
    assert _unpack(tmp_path, _tar(_member("t/y", data=b"2"))) == {"y": b"2"}
    assert [p.name for p in (tmp_path / "place").iterdir()] == ["src"]


def test_a_later_entry_replaces_an_earlier_one_and_never_writes_through_a_link(tmp_path):
    members = (
        _member("t/keep", data=b"keep"),
        _member("t/x", tarfile.SYMTYPE, link="keep"),
        _member("t/x", data=b"new"),
    )
    assert _unpack(tmp_path, _tar(*members)) == {"keep": b"keep", "x": b"new"}


@pytest.mark.parametrize("name", ["/evil", "../evil", "t/../../evil", "t/a\\..\\evil"])
@pytest.mark.parametrize("pack", ["tar", "zip"])
def test_a_name_that_leads_out_is_refused(tmp_path, name, pack):
    data = _tar(_member(name, data=b"x")) if pack == "tar" else _zip((name, b"x", 0o100644))
    assert _refused(tmp_path, data) == f"x-1.tar.gz: {name!r} is not a path inside the archive"


@pytest.mark.parametrize("target", ["/etc/passwd", "../evil", "../../evil", "a/../../../evil"])
@pytest.mark.parametrize("pack", ["tar", "zip"])
def test_a_link_that_leads_out_is_refused(tmp_path, target, pack):
    if pack == "tar":
        data = _tar(_member("x", tarfile.SYMTYPE, link=target), _member("y", data=b""))
    else:
        data = _zip(("x", target.encode(), stat.S_IFLNK | 0o777), ("y", b"", 0))
    assert _refused(tmp_path, data) == f"x-1.tar.gz: 'x' links out of the archive, to {target!r}"


def test_a_link_that_leads_out_of_the_folder_that_remains_is_refused(tmp_path):
    data = _tar(_member("t/x", tarfile.SYMTYPE, link="../t2"), _member("t/y", data=b""))
    assert _refused(tmp_path, data) == "x-1.tar.gz: 'x' links out of the archive"


def test_a_link_that_leads_out_by_way_of_another_is_refused(tmp_path):
    members = (
        _member("a", data=b""),
        _member("d", tarfile.DIRTYPE, mode=0o755),
        _member("d/here", tarfile.SYMTYPE, link="."),
        _member("d/up", tarfile.SYMTYPE, link="here/../.."),
    )
    assert "links out of the archive" in _refused(tmp_path, _tar(*members))


def test_an_entry_below_a_link_is_refused(tmp_path):
    members = (
        _member("t/d", tarfile.DIRTYPE, mode=0o755),
        _member("t/l", tarfile.SYMTYPE, link="d"),
        _member("t/l/x", data=b"x"),
    )
    assert _refused(tmp_path, _tar(*members)) == "x-1.tar.gz: 't/l' goes through a link or a file"


def test_an_entry_below_a_file_is_refused(tmp_path):
    members = (_member("t/f", data=b"x"), _member("t/f/x", data=b"x"))
    assert _refused(tmp_path, _tar(*members)) == "x-1.tar.gz: 't/f' goes through a link or a file"


def test_a_folder_that_becomes_a_file_is_refused(tmp_path):
    members = (_member("t/f/x", data=b"x"), _member("t/f", data=b"x"))
    assert _refused(tmp_path, _tar(*members)) == "x-1.tar.gz: 't/f' is a folder and something else"


@pytest.mark.parametrize("target", ["/etc/passwd", "../evil", "t/none", "t/sym"])
def test_a_hard_link_reaches_only_files_of_the_archive(tmp_path, target):
    members = (
        _member("t/a", data=b""),
        _member("t/sym", tarfile.SYMTYPE, link="a"),
        _member("t/h", tarfile.LNKTYPE, link=target),
    )
    message = _refused(tmp_path, _tar(*members))
    assert message in (
        f"x-1.tar.gz: {target!r} is not a path inside the archive",
        f"x-1.tar.gz: 't/h' links to {target!r}, which is no file of it",
    )


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(tmp_path, kind):
    assert _refused(tmp_path, _tar(_member("t/x", kind))) == "x-1.tar.gz: 't/x' is neither file, folder nor link"


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    bomb = gzip.compress(_tar(_member("t/x", data=bytes(1_000_000))))
    assert len(bomb) < 10_000
    message = _refused(tmp_path, bomb, limits=Limits(size=999_999))
    assert message == "x-1.tar.gz: unpacks to more than 999999 bytes"
    many = _tar(*(_member(f"t/{n}") for n in range(11)))
    assert _refused(tmp_path, many, limits=Limits(entries=10)) == "x-1.tar.gz: has more than 10 entries"


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress],
    ids=["gz", "bz2", "xz", "zst"],
)
@pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
def test_a_truncated_archive_is_refused(tmp_path, pack, part):
    whole = pack(_tar(*(_member(f"t/{n}", data=os.urandom(5000)) for n in range(20))))
    message = _refused(tmp_path, whole[: int(len(whole) * part)])
    assert message.startswith("x-1.tar.gz: is no complete archive: ")


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_truncated_zip_is_refused(tmp_path, part):
    whole = _zip(*((f"t/{n}", os.urandom(5000), 0) for n in range(20)))
    assert _refused(tmp_path, whole[: int(len(whole) * part)]).startswith("x-1.tar.gz: is no complete archive: ")


def test_damaged_contents_of_a_zip_are_refused(tmp_path):
    whole = bytearray(_zip(("t/x", b"content of the file", 0)))
    whole[whole.index(b"content")] = 0
    assert _refused(tmp_path, bytes(whole)).startswith("x-1.tar.gz: is no complete archive: Bad CRC-32")


def test_a_page_instead_of_an_archive_is_refused(tmp_path):
    with pytest.raises(LockError) as refused:
        _unpack(tmp_path, b"<!DOCTYPE html><html>Not found</html>")
    assert refused.value.message == "x-1.tar.gz: is neither tar nor zip"
    assert refused.value.hint == "check that its address leads to a file, not a page"
