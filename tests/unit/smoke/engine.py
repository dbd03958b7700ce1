"""An engine on loopback that says and lists what a test wants, and keeps what it is asked to make."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Engine:
    """What it says of itself and lists, and the containers that it was asked to make, as the API has them.

    The first `failures` requests for the list of images fail, as they do while somebody removes one.
    """

    url: str = ""
    options: list[str] | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    images: list[dict[str, Any]] = field(default_factory=list)
    failures: int = 0


class _Handler(http.server.BaseHTTPRequestHandler):
    engine: Engine

    def do_GET(self) -> None:
        place = urlsplit(self.path).path
        if place.endswith("/info"):
            self.answer(200, {"SecurityOptions": self.engine.options})
        elif place.endswith("/version"):
            self.answer(200, {"ApiVersion": "1.45", "Version": "26.1.5"})
        elif place.endswith("/images/json"):
            self.engine.failures -= 1
            gone = {"message": "failed to calculate size of image a:1: content digest sha256:77: not found"}
            self.answer(404, gone) if self.engine.failures >= 0 else self.answer(200, self.engine.images)
        else:
            self.answer(404, {"message": "no such thing"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if urlsplit(self.path).path.endswith("/containers/create"):
            self.engine.asked.append(json.loads(body))
        self.answer(404, {"message": "no such image"})

    def do_DELETE(self) -> None:
        self.answer(404, {"message": "no such thing"})

    def answer(self, status: int, told: object) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering() -> Iterator[Engine]:
    """Have such an engine answer for as long as the context is open."""
    engine = Engine()
    handler = type("Handler", (_Handler,), {"engine": engine})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        engine.url = f"tcp://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield engine
        finally:
            server.shutdown()
            thread.join()
