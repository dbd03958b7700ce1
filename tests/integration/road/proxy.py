"""A reverse proxy in front of a registry that misbehaves where a test asks for it, and lets all else pass."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Handler = http.server.BaseHTTPRequestHandler
_SKIPPED = ("transfer-encoding", "connection", "content-length")


@dataclass
class Fault:
    """What becomes of the next `times` requests whose method and path match `at`."""

    at: str
    do: Callable[[Proxy, Handler], None]
    times: int = 1


@dataclass
class Proxy:
    """The proxy's address, its faults, and what it was asked for."""

    target: str
    address: str = ""
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def answer(self, handler: Handler) -> None:
        asked = f"{handler.command} {handler.path}"
        self.asked.append(asked)
        for fault in self.faults:
            if fault.times and re.search(fault.at, asked):
                fault.times -= 1
                return fault.do(self, handler)
        return self.passed(handler)

    def passed(self, handler: Handler, **changed: str) -> None:
        """Hand a request on and its answer back, with other headers where `changed` says so."""
        connection = http.client.HTTPConnection(self.target)
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in _SKIPPED}
        connection.request(handler.command, handler.path, body=body_of(handler), headers=headers)
        came = connection.getresponse()
        data = came.read()
        told = {name: value for name, value in came.getheaders() if name.lower() not in _SKIPPED}
        told |= {name.replace("_", "-"): value for name, value in changed.items()}
        length = came.getheader("Content-Length") if handler.command == "HEAD" else str(len(data))
        handler.send_response_only(came.status)
        for name, value in (told | {"Content-Length": length or "0"}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)
        connection.close()


def body_of(handler: Handler) -> bytes:
    """Return the whole body of a request, chunked or not."""
    if "chunked" not in handler.headers.get("Transfer-Encoding", ""):
        return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    body = b""
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


def cut(_: Proxy, handler: Handler) -> None:
    """Take the first bytes of what is sent, and hang up."""
    handler.rfile.read(min(1 << 16, int(handler.headers.get("Content-Length") or 1 << 16)))
    handler.close_connection = True
    handler.connection.close()


def status(code: int, **headers: str) -> Callable[[Proxy, Handler], None]:
    """Take what is sent, and answer with a status alone."""

    def do(_: Proxy, handler: Handler) -> None:
        body_of(handler)
        handler.send_response_only(code)
        for name, value in (headers | {"Content-Length": "0"}).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return do


def wrong_digest(proxy: Proxy, handler: Handler) -> None:
    """Hand the request on, and tell another digest than the registry does."""
    proxy.passed(handler, Docker_Content_Digest=f"sha256:{'0' * 64}")


@contextlib.contextmanager
def proxied(target: str) -> Iterator[Proxy]:
    """Run a proxy in front of the registry at `target`."""
    proxy = Proxy(target=target)

    class Answering(Handler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            # An engine tries TLS first, and goes on without only where the answer is one of HTTP.
            if self.rfile.peek(1)[:1] == b"\x16":  # type: ignore[attr-defined]
                self.wfile.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            else:
                super().handle()

        def handle_one(self) -> None:
            try:
                proxy.answer(self)
            except OSError:  # whoever asked has gone, or the registry has
                self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = handle_one  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.daemon_threads = True
        proxy.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
