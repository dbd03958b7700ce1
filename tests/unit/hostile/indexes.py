"""Package indexes and file servers that lie, send without end, or point at this machine."""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import partial
from unittest import mock

from builder.errors import Failure
from builder.sources import download
from builder.sources.download import Wanted, fetch_all
from builder.sources.index import LockedFile, fetch_wheels, list_files
from builder.sources.store import Store
from builder.story import Silent

from .rooms import QUICK, Case, Reply, Room, body, endless, status

AREA = "package indexes and file servers"
DATA = b"the wheel"
SHA = hashlib.sha256(DATA).hexdigest()
_JSON = "application/vnd.pypi.simple.v1+json"


def _fetched(reply: Reply, size: int | None, room: Room) -> str:
    """Fetch a file by its hash; nothing else may come into the store."""
    url = room.serve(file=reply)
    store = Store(room.folder / "store")
    wanted = Wanted(name="a-1-py3-none-any.whl", sha256=SHA, size=size, urls=(f"{url}/file",))
    try:
        with mock.patch.object(download, "_LARGEST_UNKNOWN", 4 << 20):
            fetch_all([wanted], store=store, mirrors=room.mirrors(), story=Silent(), patience=QUICK)
    except Failure:
        assert [path for path in store.root.rglob("*") if path.is_file() and path.name != ".lock"] == []
        raise
    return "fetched, and it is what was locked"


def _listed(reply: Reply, room: Room) -> str:
    url = room.serve(proj=reply)
    found = list_files("proj", index=f"{url}/simple", mirrors=room.mirrors(), patience=QUICK)
    shown = ", ".join(f"{name} at {each.url.partition('//')[0]}" for name, each in sorted(found.items()))
    assert not any(each.url.startswith("file:") for each in found.values())
    return f"listed: {shown or 'nothing'}"


def _locked(page: str, room: Room) -> str:
    """Fetch a locked wheel by way of an index's page."""
    secret = room.write("secret", DATA)
    url = room.serve(
        proj=body(page.replace("ROOM", str(room.folder)).encode(), "text/html"), secret=body(b"other")
    )
    file = LockedFile(project="proj", filename="secret", sha256=SHA, index=f"{url}/simple")
    fetch_wheels(
        [file], store=Store(room.folder / "store"), mirrors=room.mirrors(), story=Silent(), patience=QUICK
    )
    return f"fetched {secret.name}"


def case(given: str, reply: Reply, size: int | None = len(DATA), *, refused: bool = True) -> Case:
    return Case(area=AREA, given=given, run=partial(_fetched, reply, size), refused=refused)


def listing(given: str, reply: Reply, *, refused: bool = True) -> Case:
    return Case(area=AREA, given=given, run=partial(_listed, reply), refused=refused)


def html(links: str) -> Reply:
    return body(f"<html><body>{links}</body></html>".encode(), "text/html")


CASES = (
    case("other bytes than were locked, of the same size", body(b"the whee1")),
    case("more bytes than were locked", body(DATA + b"!" * 5000)),
    case("fewer bytes than were locked", body(DATA[:4])),
    case("bytes without end, where the lock knows the size", endless(start=DATA)),
    case("bytes without end, where nobody knows the size", endless(start=DATA), None),
    case("a length that is longer than what comes", body(DATA[:4], Content_Length="9")),
    case("the right bytes, compressed on the way", body(gzip.compress(DATA), Content_Encoding="gzip")),
    case("a redirect to a file of this machine", status(302, Location="file:///etc/passwd")),
    case("a redirect to itself, for ever", status(302, Location="/file")),
    case("a page that asks for a login", status(401)),
    case("the right bytes, and a cookie", body(DATA, Set_Cookie="a=b"), refused=False),
    listing("a page without end", endless("text/html", b"<html>")),
    listing(
        "a page that unpacks without end",
        body(gzip.compress(bytes(140 << 20), 1), "text/html", Content_Encoding="gzip"),
    ),
    listing("JSON with brackets in brackets", body(b"[" * 200_000, _JSON)),
    listing("JSON that is no page", body(b'{"files": 3}', _JSON)),
    listing("JSON with a number of 5000 digits", body(b'{"files": [' + b"1" * 5000 + b"]}", _JSON)),
    listing("a page of another kind", body(b"\x7fELF", "application/x-executable")),
    listing(
        "a version of the protocol that is not known",
        body(json.dumps({"meta": {"api-version": "9.0"}, "name": "proj", "files": []}).encode(), _JSON),
    ),
    listing("addresses of this machine's files", html('<a href="file:///etc/passwd">a-1-py3-none-any.whl</a>')),
    listing("a name that climbs out by `..`", html('<a href="/x/..%2f..%2fevil.whl">evil.whl</a>'), refused=False),
    Case(
        area=AREA,
        given="a locked wheel whose page leads to a file of this machine, and that has its hash",
        run=partial(_locked, '<a href="file://ROOM/secret">secret</a>'),
    ),
    Case(
        area=AREA,
        given="a locked wheel whose page tells its hash, and serves other bytes",
        run=partial(_locked, f'<a href="/file/secret#sha256={SHA}">secret</a>'),
    ),
)
