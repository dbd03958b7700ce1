"""A node of a cluster as far as pulling goes: a containerd with a store of its own, and a proxy that counts."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import requests

_BLOB = re.compile(r"/blobs/(sha256:[0-9a-f]{64})$")
_CHUNK = 1 << 20
_KEPT = (
    "Content-Type",
    "Content-Length",
    "Docker-Content-Digest",
    "Docker-Distribution-Api-Version",
    "Content-Range",
)
_STARTED_SECONDS = 60


class Counting:
    """A way to a registry that counts, by digest, the bytes of the blobs that go through it."""

    def __init__(self, registry: str) -> None:
        self.sent: Counter[str] = Counter()
        counting = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                asked = {
                    name: ", ".join(self.headers.get_all(name, []))
                    for name in ("Accept", "Range")
                    if name in self.headers
                }
                url = f"http://{registry}{self.path}"
                with requests.request(
                    self.command, url, headers=asked | {"Accept-Encoding": "identity"}, stream=True, timeout=60
                ) as answer:
                    self.send_response(answer.status_code)
                    for name in _KEPT:
                        if name in answer.headers:
                            self.send_header(name, answer.headers[name])
                    self.end_headers()
                    if self.command == "GET":
                        self._pass_on(answer)

            def _pass_on(self, answer: requests.Response) -> None:
                found = _BLOB.search(self.path)
                for piece in answer.iter_content(_CHUNK):
                    self.wfile.write(piece)
                    if found is not None:
                        counting.sent[found[1]] += len(piece)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Node:
    """A containerd of its own. What it pulled it keeps by digest, as Kubernetes nodes do."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def pull(self, reference: str) -> None:
        """Fetch manifest, configuration and layers of an image into the store."""
        done = subprocess.run(
            ["ctr", "--address", self._socket, "content", "fetch", "--plain-http", reference],
            check=False, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def node(folder: Path) -> Iterator[Node]:
    """Run a containerd whose store is empty and lies in `folder`."""
    socket = folder / "containerd.sock"
    config = folder / "config.toml"
    config.write_text(
        f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        f'[grpc]\naddress = "{socket}"\n'
    )
    log = folder / "containerd.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(["containerd", "--config", config], stdout=sink, stderr=sink)
        try:
            begun = time.monotonic()
            while not _answers(socket):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() - begun < _STARTED_SECONDS, log.read_text()
                time.sleep(0.1)
            yield Node(socket)
        finally:
            process.terminate()
            process.wait(timeout=_STARTED_SECONDS)


def _answers(socket: Path) -> bool:
    done = subprocess.run(["ctr", "--address", socket, "version"], check=False, capture_output=True, timeout=60)
    return done.returncode == 0
