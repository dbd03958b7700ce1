"""The engine's list of images, over its own API: one that fails because an image went meanwhile is asked anew."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import docker
import docker.errors
import pytest

from builder.engine.images import listed

GONE = {"message": "failed to calculate size of image a:1: content digest sha256:77: not found"}
IMAGES = [{"Id": "sha256:1", "RepoTags": ["a:1"]}]


@contextmanager
def engine(failures: int) -> Iterator[docker.DockerClient]:
    """Answer the first requests for the list as an engine does while somebody removes an image."""
    asked = iter(range(1000))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fails = next(asked) < failures
            body = json.dumps(GONE if fails else IMAGES).encode()
            self.send_response(404 if fails else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = docker.DockerClient(base_url=f"tcp://127.0.0.1:{server.server_port}", version="1.45")
    try:
        yield client
    finally:
        client.close()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("failures", [0, 1, 5])
def test_an_image_that_goes_meanwhile_does_not_hide_the_others(failures: int) -> None:
    with engine(failures) as client:
        assert listed(client, filters={"reference": "a"}) == IMAGES


def test_an_engine_that_never_has_a_list_is_told_of() -> None:
    with engine(1000) as client, pytest.raises(docker.errors.NotFound, match="calculate size"):
        listed(client, whole=True)
