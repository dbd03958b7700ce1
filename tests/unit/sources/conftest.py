"""A web site on loopback that misbehaves on request, and a story that remembers."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from builder.mirrors import Mirrors, parse_mirrors
from builder.story import Reached

from .repositories import Upstream, upstream

Reply = Callable[[http.server.BaseHTTPRequestHandler], None]


@dataclass
class Site:
    """Replies by path. A list of replies is used up one by one; its last one stays."""

    url: str = ""
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    default: Reply | None = None

    def on(self, path: str, *replies: Reply) -> str:
        self.replies[path] = list(replies)
        return self.url + path

    def asked(self, path: str) -> int:
        return sum(1 for asked, _ in self.requests if asked == path)

    def reply(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(handler.path).path)
        self.requests.append((path, {name.lower(): value for name, value in handler.headers.items()}))
        replies = self.replies.get(path, [self.default or self.status(404)])
        (replies.pop(0) if len(replies) > 1 else replies[0])(handler)

    @staticmethod
    def status(code: int, **headers: str) -> Reply:
        def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(code)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        return reply

    @staticmethod
    def body(data: bytes, kind: str = "application/octet-stream", *, length: bool = True) -> Reply:
        def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", kind)
            if length:
                handler.send_header("Content-Length", str(len(data)))
            else:
                handler.close_connection = True
            handler.end_headers()
            handler.wfile.write(data)

        return reply

    @staticmethod
    def cut(data: bytes, after: int, *, etag: str | None = None) -> Reply:
        """Promise `data`, send its first bytes, hang up."""

        def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(data)))
            if etag:
                handler.send_header("ETag", etag)
                handler.send_header("Accept-Ranges", "bytes")
            handler.end_headers()
            handler.wfile.write(data[:after])
            handler.close_connection = True

        return reply

    @staticmethod
    def rest(data: bytes) -> Reply:
        """Answer a range request with what is left of `data`."""

        def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
            start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            handler.send_header("Content-Length", str(len(data) - start))
            handler.end_headers()
            handler.wfile.write(data[start:])

        return reply


@contextmanager
def _serving() -> Iterator[Site]:
    site = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.reply(self)

        def do_POST(self) -> None:
            site.reply(self)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    with _serving() as serving:
        yield serving


@dataclass
class Told:
    """A story that can be read afterwards."""

    steps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    how_far: Callable[[], Reached] | None = None

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        self.steps.append(text)
        yield

    def follow(self, how_far: Callable[[], Reached]) -> None:
        self.how_far = how_far

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def story() -> Told:
    return Told()


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, empty_home: Path) -> None:
    """A machine whose pip, uv, git and user configuration say nothing."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "GIT_", "XDG_", "ROCM_IMAGES_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("HOME", str(empty_home))


@pytest.fixture
def mirrors_of(tmp_path: Path) -> Callable[[str], Mirrors]:
    """Mirrors made from the text of a mirrors.toml."""

    def make(text: str) -> Mirrors:
        file = tmp_path / "mirrors.toml"
        file.write_text(text)
        return Mirrors(table=parse_mirrors(text.encode(), file=file), file=file)

    return make


@pytest.fixture
def engine(tmp_path: Path) -> Upstream:
    made = upstream(tmp_path)
    made.commit("first", README="engine\n")
    return made


@pytest.fixture
def mirrors(tmp_path: Path, mirrors_of) -> Mirrors:
    return mirrors_of(f'[git]\n"https://git.example" = "{(tmp_path / "srv").as_uri()}"\n')


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
