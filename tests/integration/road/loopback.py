"""Loopback servers that can be made to wait at a chosen point, so that a test knows where a run is."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Bytes = Callable[[str], bytes | None]


class Gate:
    """A point that somebody reaches, and waits at until it is opened. `lost` tells that nothing goes on then."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.lost = threading.Event()

    def cut(self) -> None:
        """Let go of who waits, and of everybody who asks from now on, without an answer."""
        self.lost.set()
        self.opened.set()

    def wait(self) -> None:
        self.reached.set()
        self.opened.wait()


@contextlib.contextmanager
def served(content: Bytes, *, gate: Gate | None = None, at: str = r"(?!)") -> Iterator[str]:
    """Serve `content` by path, None for nothing there; one that matches `at` waits at the gate half-way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if gate is not None and gate.lost.is_set():
                return self.connection.shutdown(socket.SHUT_RDWR)
            body = content(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header(
                "Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream"
            )
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            half = len(body or b"") // 2
            self.wfile.write((body or b"")[:half])
            if gate is not None and re.search(at, self.path):
                self.wfile.flush()
                gate.wait()
            if gate is not None and gate.lost.is_set():
                return self.connection.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):  # who was interrupted meanwhile does not read on
                self.wfile.write((body or b"")[half:])
            return None

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            if gate is not None:
                gate.opened.set()
            server.shutdown()


class Relay:
    """A way to a server that lets everything pass, and stops a client's request that matches at a gate.

    `closed` tells that the client of a stopped request has gone; then the rest of it never reaches the server.
    """

    def __init__(self, target: str, *, at: bytes) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._at = re.compile(at)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.gate = Gate()
        self.closed = threading.Event()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut every connection."""
        with contextlib.suppress(OSError):  # it is closed already
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone does not wake up who accepts
        self._listener.close()
        self.gate.opened.set()
        for each in self._open:
            with contextlib.suppress(OSError):  # the other side was faster
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._open += [near, far]
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if from_client and not self.gate.opened.is_set() and self._at.search(data):
                    data += self._held(source)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _held(self, source: socket.socket) -> bytes:
        """Wait until the gate opens and return what came meanwhile. Raises `OSError` when the client went away."""
        self.gate.reached.set()
        source.settimeout(0.1)
        came = b""
        while not self.gate.opened.is_set():
            with contextlib.suppress(TimeoutError):
                data = source.recv(1 << 16)
                if not data:
                    self.closed.set()
                    raise ConnectionResetError
                came += data
        source.settimeout(None)
        return came
