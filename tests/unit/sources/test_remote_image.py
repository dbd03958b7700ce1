"""Images read from a registry without an engine: blobs as streams, going on where a connection broke."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from builder.audit.oci_images import read_image
from builder.errors import EngineError, LockError, RecipeError
from builder.mirrors import Mirrors
from builder.reference import Digest, parse_reference
from builder.registries.reading import remote_image
from builder.sources.transport import Patience
from builder.story import Silent

from ..audit.images import layer
from ..codeobjects import forge

QUICK = Patience(attempts=3, first=0.01, longest=0.02)
TARGETS = forge.program(forge.bundle("gfx1201"))


@dataclass
class Served:
    """What a registry has, by path below the repository. The first `breaks` answers end after `after` bytes."""

    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    breaks: int = 0
    after: int = 700
    ranges: bool = True
    token: bool = False
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)

    def add(self, kind: str, data: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[f"{kind}/{digest}"] = data
        return {"digest": digest, "size": len(data)}

    def image(self, *layers: bytes) -> Digest:
        config = self.add("blobs", b'{"config": {"Labels": {"rocm-images.gfx": "gfx1201"}}}')
        table = {"config": config, "layers": [self.add("blobs", data) for data in layers]}
        manifest = self.add("manifests", json.dumps(table).encode())
        self.blobs["manifests/1.0"] = self.blobs[f"manifests/{manifest['digest']}"]
        return Digest(str(manifest["digest"]))


@pytest.fixture
def served() -> Iterator[Served]:
    serving = Served()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            path = self.path.removeprefix("/v2/team/image/")
            serving.asked.append((self.command, path, self.headers.get("Range")))
            if path.startswith("/token"):
                return self.send(200, b'{"token": "good"}', body=True)
            if serving.token and self.headers.get("Authorization") != "Bearer good":
                realm = f'Bearer realm="http://{serving.host}/token",service="here"'
                return self.send(401, b"", {"WWW-Authenticate": realm}, body=body)
            data = serving.blobs.get(path)
            if data is None:
                return self.send(404, b"", body=body)
            digest = {"Docker-Content-Digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}
            start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if serving.ranges else 0
            return self.send(206 if start else 200, data[start:], digest, body=body)

        def send(self, code: int, data: bytes, headers: dict[str, str] | None = None, *, body: bool) -> None:
            self.send_response(code)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body and serving.breaks and len(data) > serving.after:
                serving.breaks -= 1
                self.wfile.write(data[: serving.after])
                self.close_connection = True
            elif body:
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    serving.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield serving
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def targets(served: Served, name: str = ":1.0") -> list[str]:
    reference = parse_reference(f"{served.host}/team/image{name}")
    with remote_image(reference, mirrors=Mirrors(), patience=QUICK) as remote:
        contents = read_image(remote, remote.digest, name="it", story=Silent())
    assert contents.labels == {"rocm-images.gfx": "gfx1201"}
    return [each.target for code in contents.code.values() for bundle in code.bundles for each in bundle.objects]


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
@pytest.mark.parametrize("token", [False, True])
def test_an_image_is_read_by_tag_and_by_digest(served: Served, compression: str | None, *, token: bool) -> None:
    served.token = token
    digest = served.image(layer({"k.so": TARGETS}, compression=compression))
    assert targets(served) == ["gfx1201"]
    assert targets(served, f"@{digest}") == ["gfx1201"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_layer_whose_connection_breaks_is_read_on(served: Served, *, ranges: bool) -> None:
    served.image(layer({"weights": bytes(4 << 20), "k.so": TARGETS}))
    served.breaks, served.after, served.ranges = 1, 2_500_000, ranges
    assert targets(served) == ["gfx1201"]
    asked = [where for _, path, where in served.asked if path.startswith("blobs/") and where is not None]
    assert asked == [f"bytes={2 << 20}-"]


def test_a_registry_that_keeps_hanging_up_is_an_error(served: Served) -> None:
    served.image(layer({"k.so": TARGETS}))
    served.breaks = 99
    with pytest.raises(EngineError, match=r"team/image:1.0: cannot be read: .*3 attempts"):
        targets(served)


def test_a_layer_that_is_gone_is_an_error(served: Served) -> None:
    data = layer({"k.so": TARGETS})
    served.image(data)
    del served.blobs[f"blobs/sha256:{hashlib.sha256(data).hexdigest()}"]
    with pytest.raises(LockError, match=r"the registry does not serve sha256:.*, which is part of it"):
        targets(served)


def test_a_layer_with_other_bytes_than_its_digest_says_is_an_error(served: Served) -> None:
    data = layer({"k.so": TARGETS})
    served.image(data)
    served.blobs[f"blobs/sha256:{hashlib.sha256(data).hexdigest()}"] = layer({"k.so": b"else"})
    with pytest.raises(RecipeError, match="has other bytes than its digest says"):
        targets(served)


def test_an_image_that_is_not_there_is_an_error(served: Served) -> None:
    with pytest.raises(LockError, match="the registry has no such image"):
        targets(served)
