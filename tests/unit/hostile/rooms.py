"""What a hostile input needs around it: a folder of its own, and servers that lie."""

from __future__ import annotations

import http.server
import itertools
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from builder.errors import Failure
from builder.mirrors import Mirrors, parse_mirrors
from builder.sources.transport import Patience
from builder.visible import visible

Reply = Callable[[http.server.BaseHTTPRequestHandler], None]
QUICK = Patience(attempts=2, first=0.01, longest=0.02)


@dataclass
class Room:
    """A folder, and what runs as long as a case does."""

    folder: Path
    stack: ExitStack = field(default_factory=ExitStack)

    def serve(self, **replies: Reply) -> str:
        """Answer on loopback: by the path's last part, without what is no letter; return the address."""
        return self.stack.enter_context(_serving(replies))

    def mirrors(self, text: str = "") -> Mirrors:
        file = self.folder / "mirrors.toml"
        file.write_text(text)
        return Mirrors(table=parse_mirrors(text.encode(), file=file), file=file)

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path


@dataclass(frozen=True, kw_only=True)
class Case:
    """One hostile input: what it is in words, and what is done with it.

    `run` raises the failure that refuses it, or returns in words what becomes of it; `refused` says which.
    """

    area: str
    given: str
    run: Callable[[Room], str]
    refused: bool = True

    @property
    def id(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", f"{self.area} {self.given}".lower()).strip("-")[:90]


@dataclass(frozen=True)
class Outcome:
    """What became of a case: whether it was refused, and the words."""

    refused: bool
    words: str


def outcome(case: Case) -> Outcome:
    """Run a case in a room of its own."""
    with tempfile.TemporaryDirectory(prefix="rocm-images-hostile.") as name:
        room = Room(folder=Path(name))
        with room.stack:
            try:
                return Outcome(refused=False, words=_same_anywhere(case.run(room), name))
            except Failure as failure:
                evidence = failure.details[:2] if "does not apply" in failure.message else ()
                return Outcome(refused=True, words=_same_anywhere("; ".join([failure.message, *evidence]), name))


def _same_anywhere(words: str, folder: str) -> str:
    words = visible(words.replace(folder, "…")).replace("\n", "; ")
    words = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", words)
    words = re.sub(r"\b(?:[0-9a-f]{40}|[0-9a-f]{64})\b", lambda found: f"HEX{len(found[0])}", words)
    words = re.sub(r"\(more than \d+ bytes\)", "(more than that)", words)  # where one stopped to read
    words = re.sub(r"(is no complete (?:archive|wheel|layer)): (?!a header).*", r"\1: …", words)  # Python's words
    return words if len(words) <= 230 else f"{words[:228]}…"


@contextmanager
def _serving(replies: dict[str, Reply]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            name = re.sub(r"[^a-z]", "", self.path.partition("?")[0].rstrip("/").rpartition("/")[2])
            try:
                replies.get(name, replies.get("anything", status(404)))(self)
            except OSError:
                self.close_connection = True  # who asked has heard enough

        do_GET = do_HEAD = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def status(code: int, **headers: str) -> Reply:
    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        _start(handler, code, {"Content-Length": "0"} | headers)

    return reply


def body(data: bytes, kind: str = "application/octet-stream", **headers: str) -> Reply:
    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        _start(handler, 200, {"Content-Type": kind, "Content-Length": str(len(data))} | headers)
        if handler.command != "HEAD":
            handler.wfile.write(data)

    return reply


def endless(kind: str = "application/octet-stream", start: bytes = b"") -> Reply:
    """Send until nobody listens any more."""

    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        _start(handler, 200, {"Content-Type": kind})
        handler.wfile.write(start)
        for _ in itertools.count():
            handler.wfile.write(bytes(1 << 20))

    return reply


def _start(handler: http.server.BaseHTTPRequestHandler, code: int, headers: dict[str, str]) -> None:
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
