"""What a run needs to get in somewhere is nowhere afterwards: in no image, lock, record, log or message."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.server
import io
import json
import os
import secrets
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import docker
import pytest
import tomli
import zstandard

from builder.lockfile import parse_lock
from builder.mirrors import Mirrors
from builder.reference import parse_reference
from builder.registries.referrers import fetched, referrers

from ..project import Ended, Project
from .conftest import Tiny
from .proxy import Handler, Proxy, proxied

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Marked:
    """Secrets of one run, none like anything else. A login's `basic` is how it is sent and kept."""

    registry: str
    token: str
    index: str
    proxy: str
    authority: str

    @classmethod
    def new(cls) -> Marked:
        return cls(*(f"marked{name}{secrets.token_hex(8)}" for name in "abcde"))

    @property
    def basic(self) -> str:
        return base64.b64encode(f"robot:{self.registry}".encode()).decode()

    @property
    def needles(self) -> tuple[bytes, ...]:
        words = (self.registry, self.token, self.index, self.proxy, self.authority, self.basic)
        encoded = base64.b64encode(f"reader:{self.index}".encode()).decode()
        return tuple(word.encode() for word in (*words, encoded))


@contextlib.contextmanager
def guarded(target: str, marked: Marked) -> Iterator[Proxy]:
    """Run a way to the registry that asks for a token, and gives one to whoever has the login."""
    with proxied(target) as proxy:
        passed = proxy.passed

        def answer(handler: Handler) -> None:
            proxy.asked.append(f"{handler.command} {handler.path}")
            given = handler.headers.get("Authorization", "")
            if urlsplit(handler.path).path == "/token":
                length = int(handler.headers.get("Content-Length") or 0)
                form = parse_qs(handler.rfile.read(length).decode())
                known = given == f"Basic {marked.basic}" or form.get("password") == [marked.registry]
                words = {"token": marked.token, "access_token": marked.token, "expires_in": 600} if known else {}
                said(handler, 200 if known else 401, json.dumps(words).encode())
            elif given == f"Bearer {marked.token}":
                del handler.headers["Authorization"]
                passed(handler)
            else:
                handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
                realm = f'Bearer realm="http://{proxy.address}/token",service="here"'
                said(handler, 401, b"{}", **{"WWW-Authenticate": realm})

        proxy.answer = answer  # type: ignore[method-assign]
        yield proxy


def said(handler: Handler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response_only(status)
    for name, value in (headers | {"Content-Length": str(len(body)), "Content-Type": "application/json"}).items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


@contextlib.contextmanager
def index(wheel: Path, name: str, marked: Marked) -> Iterator[str]:
    """Serve one wheel on a Python index that wants a login; give its address, with the login in it."""

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = base64.b64encode(f"reader:{marked.index}".encode()).decode()
            if self.headers.get("Authorization") != f"Basic {wanted}":
                said(self, 401, b"{}", **{"WWW-Authenticate": 'Basic realm="here"'})
                return
            page = f'<a href="/files/{name}#sha256={wheel.name}">{name}</a>'.encode()
            data = wheel.read_bytes() if self.path == f"/files/{name}" else page
            self.send_response(200 if self.path.startswith(("/files/", "/simple/packaging")) else 404)
            self.send_header("Content-Type", "text/html" if data is page else "application/octet-stream")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield f"http://reader:{marked.index}@127.0.0.1:{server.server_address[1]}/simple/"
        finally:
            server.shutdown()


def settings(project: Project, marked: Marked, host: str, address: str) -> None:
    """Give the run everything that a machine behind a proxy, with private places, is told."""
    folder = project.folder / "docker"
    folder.mkdir(exist_ok=True)
    through = f"http://robot:{marked.proxy}@127.0.0.1:9"
    kept = {"httpProxy": through, "httpsProxy": through, "noProxy": "127.0.0.1,localhost"}
    config = {"auths": {host: {"auth": marked.basic}}, "proxies": {"default": kept}}
    (folder / "config.json").write_text(json.dumps(config))
    bundle = project.folder / f"{marked.authority}.pem"
    bundle.write_bytes(b"# " + marked.authority.encode() + b"\n" + certificates())
    project.env |= {
        "DOCKER_CONFIG": str(folder), "HTTP_PROXY": through, "HTTPS_PROXY": through,
        "NO_PROXY": "127.0.0.1,localhost", "REQUESTS_CA_BUNDLE": str(bundle), "SSL_CERT_FILE": str(bundle),
    }  # fmt: skip
    (project.folder / "mirrors.toml").write_text(f'[indexes]\ndefault = "{address}"\n')
    project.env["ROCM_IMAGES_MIRRORS"] = str(project.folder / "mirrors.toml")


def certificates() -> bytes:
    import certifi

    return Path(certifi.where()).read_bytes()


def written(project: Project) -> Iterator[tuple[str, bytes]]:
    """Yield every file of the project and of its runs, but those that gave the secrets in the first place."""
    given = {project.folder / "docker/config.json", project.folder / "mirrors.toml"}
    for top, folders, names in os.walk(project.folder):
        folders[:] = [name for name in folders if not Path(top, name).is_symlink()]
        for name in names:
            path = Path(top, name)
            if path not in given and path.suffix != ".pem" and path.is_file():
                yield str(path), path.read_bytes()


def held(image: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield all that is in an archive of an image: documents, layers, and what those are when unpacked."""
    with tarfile.open(fileobj=io.BytesIO(image)) as archive:
        for member in archive:
            content = archive.extractfile(member)
            data = content.read() if content is not None else b""
            yield member.name, data
            if data.startswith(b"\x28\xb5\x2f\xfd"):
                yield f"{member.name}, unpacked", zstandard.ZstdDecompressor().decompressobj().decompress(data)
            elif data.startswith(b"\x1f\x8b"):
                yield f"{member.name}, unpacked", gzip.decompress(data)


def no_secret(marked: Marked, texts: Iterator[tuple[str, bytes]]) -> int:
    count = 0
    for name, data in texts:
        count += 1
        for needle in marked.needles:
            assert needle not in data, f"{needle.decode()} is in {name}"
            assert needle.decode() not in name or name.endswith(".pem"), name
    return count


@dataclass(frozen=True)
class Room:
    project: Project
    marked: Marked
    proxy: Proxy
    address: str


@pytest.fixture
def room(tiny: Tiny, registry: str, store: Path) -> Iterator[Room]:
    marked = Marked.new()
    project = tiny(fresh=True)
    lock = parse_lock(project.workspace.lock("tiny").read_text(), file="recipe.lock")
    (wheel,) = (file for file in lock.python if file.project == "packaging")
    place = store / "sha256" / wheel.sha256[:2] / wheel.sha256
    with guarded(registry, marked) as proxy, index(place, wheel.file, marked) as address:
        project.publish = project.publish.replace(registry, proxy.address)
        settings(project, marked, proxy.address, address)
        yield Room(project=project, marked=marked, proxy=proxy, address=address)


def test_no_secret_of_a_whole_run_is_in_anything_that_it_leaves(
    room: Room, engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, marked = room.project, room.marked
    project.done("--verbose", "lock", "tiny", "--update", "packaging")
    run = project.done("--verbose", "build", "tiny", "--publish", project.publish)
    assert any(asked.startswith(("GET /token", "POST /token")) for asked in room.proxy.asked)
    again = project.done("build", "tiny", "--publish", project.publish)
    for words in (("plan", "tiny"), ("pin", "show", "tiny"), ("check", "--offline")):
        project.run(*words)
    assert no_secret(marked, written(project)) > 20
    reference = parse_reference(run.result)
    assert again.result == run.result
    image = b"".join(engine.images.get(str(reference)).save(named=True))
    assert no_secret(marked, held(image)) > 5
    told = json.dumps([engine.images.get(str(reference)).attrs, engine.images.get(str(reference)).history()])
    no_secret(marked, iter([("what the engine says", told.encode())]))
    monkeypatch.setenv("DOCKER_CONFIG", project.env["DOCKER_CONFIG"])
    beside = list(referrers(reference, mirrors=Mirrors()))
    assert beside
    for each in beside:
        document = fetched(reference, each.digest, mirrors=Mirrors())
        no_secret(marked, iter([(each.artifact_type, document.content)]))


def test_no_failure_shows_the_secret_that_did_not_help(room: Room) -> None:
    project, marked = room.project, room.marked
    failed: list[Ended] = []
    mirrors = Path(project.env["ROCM_IMAGES_MIRRORS"])
    right = mirrors.read_text()
    for wrong in (right.replace(marked.index, f"{marked.index}x"), right.replace("/simple/", "/nothing/"),
                  right.replace("@127.0.0.1:", "@127.0.0.1:1")):  # fmt: skip
        mirrors.write_text(wrong)
        failed.append(project.run("--verbose", "lock", "tiny", "--update", "packaging"))
    mirrors.write_text(right)
    config = Path(project.env["DOCKER_CONFIG"]) / "config.json"
    table = json.loads(config.read_text())
    other = base64.b64encode(f"robot:{marked.registry}x".encode()).decode()
    for auth in (other, f"!{marked.registry}"):
        table["auths"][room.proxy.address]["auth"] = auth
        config.write_text(json.dumps(table))
        failed.append(project.run("--verbose", "build", "tiny", "--publish", project.publish))
    mirrors.write_text(right.replace('"\n', ""))
    failed.append(project.run("--verbose", "lock", "tiny", "--update", "packaging"))
    assert 0 not in [ended.status for ended in failed]
    no_secret(marked, written(project))
    for ended in failed:
        no_secret(marked, iter([("standard error", ended.stderr.encode())]))
        assert "error: " in ended.stderr
    assert "docker's configuration cannot be used: " in failed[-2].stderr
    assert tomli.loads(project.workspace.lock("tiny").read_text())
