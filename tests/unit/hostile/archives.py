"""Archives that want to write elsewhere, to be more than they are, or to break who reads them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from functools import partial

import zstandard

from builder.audit.layers import BROKEN, buffered, read_layer
from builder.errors import LockError
from builder.sources.archive import Limits, extract
from builder.sources.archivetree import read_sdist, read_wheel
from builder.sources.trees import read_tree

from .rooms import Case, Room

AREA = "archives"
Entry = tuple[str, bytes, bytes, str]


def entry(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Entry:
    return name, data, kind, link


def tar(*entries: Entry, mtime: str = "0", mode: int = 0o644) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data, kind, link in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size, info.mode = kind, link, len(data), mode
            info.pax_headers = {"mtime": mtime}
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zipped(*entries: tuple[str, bytes], mode: int = 0o100644) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return made.getvalue()


def header(kind: bytes, size: int) -> bytes:
    """Return the header of a tar entry of this kind that says it has so many bytes."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def nameless() -> bytes:
    """Return a zip with one entry that has no name."""
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, 0, 0, 0, 0, 0)
    listed = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    return local + listed + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(listed), len(local), 0)


def misplaced() -> bytes:
    """Return a zip whose table says that it lies further back than it does."""
    made = bytearray(zipped(("a", b"x")))
    struct.pack_into("<I", made, len(made) - 6, struct.unpack_from("<I", made, len(made) - 6)[0] + 100)
    return bytes(made)


def unpacked(data: bytes, room: Room, limits: Limits | None = None) -> str:
    """Unpack an archive; nothing may be beside its folder, whatever comes of it."""
    source = room.write("object", data)
    outside = room.folder / "evil"
    try:
        into = extract(source, room.folder / "place" / "src", name="a-1.tar", strip=False, limits=limits)
    except LockError:
        assert list((room.folder / "place").iterdir()) == []
        raise
    finally:
        assert not outside.exists()
    found = sorted(path for path in into.rglob("*") if not path.is_dir() or path.is_symlink())
    assert all(path.resolve().is_relative_to(into.resolve()) for path in found)
    shown = [f"{path.relative_to(into)} ({oct(path.lstat().st_mode & 0o7777)[2:]})" for path in found]
    return f"unpacked: {', '.join(shown) or 'nothing'}"


def refused_or_not(given: str, data: bytes, *, refused: bool = True, limits: Limits | None = None) -> Case:
    return Case(area=AREA, given=given, run=partial(unpacked, data, limits=limits), refused=refused)


def _layer_of_an_image(data: bytes, _room: Room) -> str:
    try:
        read_layer(buffered([data]))
    except BROKEN as error:
        raise LockError(f"the layer is no complete archive: {error}") from error
    return "read"


def _sdist(data: bytes, room: Room) -> str:
    held = read_sdist(room.write("object", data), name="a-1.tar.gz", wanted=lambda _: True)
    return f"read: {', '.join(sorted(held.entries)) or 'nothing'}"


def _wheel(data: bytes, room: Room) -> str:
    held = read_wheel(room.write("a-1-py3-none-any.whl", data), wanted=lambda _: True)
    return f"read: {', '.join(sorted(held.entries)) or 'nothing'}"


def _linked_source(room: Room) -> str:
    folder = room.folder / "tree"
    folder.mkdir()
    (folder / "own.py").write_text("")
    room.write("secret.py", b"password = 1")
    (folder / "stolen.py").symlink_to(room.folder / "secret.py")
    tree = read_tree(folder)
    assert "stolen.py" not in tree.texts
    return f"its name is known, its contents are not read: {', '.join(sorted(tree.texts))}"


_DEEP = "/".join(["d"] * 1500)
_LINK = entry("a", kind=tarfile.SYMTYPE, link="../..")
CASES = (
    refused_or_not("a file with an absolute path", tar(entry("/tmp/evil", b"x"))),
    refused_or_not("a file that climbs out by `..`", tar(entry("../evil", b"x"))),
    refused_or_not("`..` in the middle of a path", tar(entry("a/../../evil", b"x"))),
    refused_or_not("`..` behind a backslash", zipped(("..\\evil", b"x"))),
    refused_or_not("a zip's file with an absolute path", zipped(("/tmp/evil", b"x"))),
    refused_or_not("a link to an absolute path", tar(entry("a", kind=tarfile.SYMTYPE, link="/etc/passwd"))),
    refused_or_not("a link that climbs out by `..`", tar(entry("a/b", kind=tarfile.SYMTYPE, link="../../evil"))),
    refused_or_not(
        "two links that climb out together",
        tar(
            entry("a", kind=tarfile.SYMTYPE, link="b/.."),
            entry("b", kind=tarfile.SYMTYPE, link="c/../.."),
            entry("c", kind=tarfile.DIRTYPE),
        ),
    ),
    refused_or_not(
        "a file written through a link",
        tar(entry("d", kind=tarfile.DIRTYPE), entry("a", kind=tarfile.SYMTYPE, link="d"), entry("a/x", b"x")),
    ),
    refused_or_not("a hard link to a file outside", tar(entry("a", kind=tarfile.LNKTYPE, link="/etc/passwd"))),
    refused_or_not(
        "a hard link to a link",
        tar(entry("b", kind=tarfile.SYMTYPE, link="c"), entry("a", kind=tarfile.LNKTYPE, link="b")),
    ),
    refused_or_not("a link in a zip whose target climbs out", zipped(("a", b"../../evil"), mode=0o120777)),
    refused_or_not("a device", tar(entry("dev", kind=tarfile.CHRTYPE))),
    refused_or_not("a named pipe", tar(entry("pipe", kind=tarfile.FIFOTYPE))),
    refused_or_not("a program with setuid", tar(entry("su", b"x"), mode=0o4777), refused=False),
    refused_or_not("the same name twice", tar(entry("a", b"first"), entry("a", b"second")), refused=False),
    refused_or_not("a name as a file and as a folder", tar(entry("a/b", b"x"), entry("a", b"x"))),
    refused_or_not("names that differ in case alone", tar(entry("A", b"1"), entry("a", b"2")), refused=False),
    refused_or_not(
        "more entries than allowed", tar(*[entry(f"f{n}", b"") for n in range(60)]), limits=Limits(entries=50)
    ),
    refused_or_not("a bomb of gzip", gzip.compress(tar(entry("a", bytes(8 << 20)))), limits=Limits(size=1 << 20)),
    refused_or_not(
        "a bomb of zstd", zstandard.compress(tar(entry("a", bytes(8 << 20)))), limits=Limits(size=1 << 20)
    ),
    refused_or_not("a bomb of zip", zipped(("a", bytes(8 << 20))), limits=Limits(size=1 << 20)),
    refused_or_not("a header that says it has 8 GB", header(tarfile.XHDTYPE, 8 << 30)),
    refused_or_not("a long name that says it has 8 GB", header(tarfile.GNUTYPE_LONGNAME, 8 << 30)),
    refused_or_not("3000 headers, each of the next", header(tarfile.XHDTYPE, 0) * 3000),
    refused_or_not("folders 1500 deep", tar(entry(f"{_DEEP}/x", b"x"))),
    refused_or_not("a name of 300 letters", tar(entry("n" * 300, b"x"))),
    refused_or_not("a date without end", tar(entry("a", b"x"), mtime="inf"), refused=False),
    refused_or_not("a date that is no number", tar(entry("a", b"x"), mtime="nan"), refused=False),
    refused_or_not("a zip whose entry has no name", nameless()),
    refused_or_not("a zip that names a place before its start", misplaced()),
    refused_or_not("a gzip with another checksum", gzip.compress(tar(entry("a", b"x")))[:-8] + bytes(8)),
    refused_or_not("a damaged bzip2", b"BZh9" + b"1AY&SY" + bytes(600)),
    refused_or_not("a page of HTML where an archive is to be", b"<html>" + b" " * 600),
    refused_or_not("an archive that is cut off", gzip.compress(tar(entry("a", b"x" * 9000)))[:60]),
    Case(
        area=AREA,
        given="an image's layer with a header of 8 GB",
        run=partial(_layer_of_an_image, header(tarfile.XHDTYPE, 8 << 30)),
    ),
    Case(
        area=AREA,
        given="an sdist with hard links in a circle",
        run=partial(
            _sdist,
            tar(entry("p/a", kind=tarfile.LNKTYPE, link="p/b"), entry("p/b", kind=tarfile.LNKTYPE, link="p/a")),
        ),
        refused=False,
    ),
    Case(
        area=AREA,
        given="an sdist with files outside of its folder",
        run=partial(_sdist, tar(entry("p/../../evil", b"x"), entry("p/ok", b"x"))),
        refused=False,
    ),
    Case(
        area=AREA,
        given="a wheel with files outside of site-packages",
        run=partial(_wheel, zipped(("../evil.py", b"x"), ("/evil.py", b"x"), ("ok.py", b""))),
        refused=False,
    ),
    Case(area=AREA, given="a source with a link to a file of this machine", run=_linked_source, refused=False),
)
