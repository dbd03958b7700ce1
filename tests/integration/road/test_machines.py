"""What a build takes of a machine: disk, memory for jobs, a registry for its cache; and what is given back."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import docker
import pytest

from builder import process
from builder.engine import images
from builder.engine.build import build_image, export_cache
from builder.engine.client import info
from builder.errors import EngineError
from builder.host.disk import free
from builder.project import LOCAL
from builder.reference import parse_reference
from builder.story import Silent

from ..project import Project
from .conftest import Tiny

pytestmark = pytest.mark.engine

Recipe = dict[str, Any]
DOCKERFILE = "FROM scratch AS first\nCOPY file /file\nFROM scratch\nCOPY --from=first /file /copy\n"


def declares(**keys: str) -> Callable[[Recipe], None]:
    def change(recipe: Recipe) -> None:
        recipe["build"] = {name.replace("_", "-"): value for name, value in keys.items()}

    return change


@contextlib.contextmanager
def refusing(seen: Callable[[], None] = lambda: None) -> Iterator[str]:
    """A registry that lets everybody in and takes nothing."""

    class Handler(BaseHTTPRequestHandler):
        default_request_version = "HTTP/1.0"  # who begins with TLS gets a status line, and goes on without

        def do_GET(self) -> None:
            self._answer(200 if self.path == "/v2/" else 404)

        def do_HEAD(self) -> None:
            self._answer(404)

        def do_POST(self) -> None:
            self._answer(403)

        def _answer(self, status: int) -> None:
            seen()
            body = json.dumps({"errors": [{"code": "DENIED", "message": "no caches here"}]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_disk_that_is_too_small_ends_the_build_before_it_begins(tiny: Tiny) -> None:
    project = tiny(declares(disk="900000g"), fresh=True)
    ended = project.build("tiny")
    assert ended.status == 8
    assert ended.stdout == ""
    wanted = "build.disk: a build takes up to 900000.0 GiB of the engine's disk, "
    assert f"error: images/tiny/recipe.toml: {wanted}" in ended.stderr
    assert " GiB are free\n" in ended.stderr
    assert "hint: rocm-images engine free --all, or move the engine's data" in ended.stderr
    assert not (project.workspace.dist / "tiny/build.log").exists()
    told = json.loads(project.run("doctor", "--json").stdout)
    disk = next(check for check in told["checks"] if check["name"] == "free disk of the engine")
    assert not disk["found"]
    assert disk["state"].endswith("at least 900000 wanted by tiny")


def test_a_refused_cache_is_a_warning_after_the_digest_is_out_and_jobs_go_by_memory(tiny: Tiny) -> None:
    """One compiler at a time where each takes 900 GiB; another figure changes neither content nor lock."""

    def change(recipe: Recipe) -> None:
        declares(memory_per_job="900g")(recipe)
        recipe["component"][1]["build"].insert(0, 'test "$MAX_JOBS:$CMAKE_BUILD_PARALLEL_LEVEL" = 1:1')

    project = tiny(change, fresh=True)
    out: list[bool] = []

    def look() -> None:
        printed = (project.folder / f"run-{project.runs}.out").read_text()
        out.append("@sha256:" in printed and project.workspace.pin("tiny").exists())

    with refusing(look) as registry:
        ended = project.build("tiny", "--cache-to", f"{registry}/caches")
    assert ended.status == 0, ended.stderr
    assert out
    assert all(out)
    warning = f"warning: {registry}/caches/tiny:build-cache: the build cache was not exported; ERROR: "
    said = next(line for line in ended.stderr.splitlines() if line.startswith(warning))
    assert "403" in said
    assert said.endswith("; the image is as good without it")

    project.edit("tiny", declares(memory_per_job="1m"))
    again = project.build("tiny")
    assert "tiny: skip - " in again.stderr, again.stderr
    assert again.stdout == ended.stdout


def test_a_cache_in_a_registry_is_found_by_the_next_build(
    registry: str, engine: docker.DockerClient, tmp_path: Path
) -> None:
    place = parse_reference(f"{registry}/test-caches/copy:build-cache")
    (tmp_path / "file").write_text("a file\n")
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    name, log = f"{LOCAL}/test-cache:1", tmp_path / "build.log"
    values: dict[str, Any] = {
        "dockerfile": tmp_path / "Dockerfile", "contexts": {}, "epoch": 315532800, "containerd_store": True,
        "story": Silent(), "log": log,
    }  # fmt: skip
    try:
        built = build_image(tmp_path, tag=name, cache=True, **values)
        export_cache(tmp_path, to=place, **values)
        again = build_image(tmp_path, tag=name, cache=True, cache_from=place, **values)
        assert again == built
        assert f"importing cache manifest from {place}" in log.read_text()
        assert "ERROR" not in log.read_text()
        with refusing() as closed, pytest.raises(EngineError) as failure:
            export_cache(tmp_path, to=parse_reference(f"{closed}/caches/copy:build-cache"), **values)
        assert failure.value.message == f"{closed}/caches/copy:build-cache: the build cache was not exported"
        with pytest.raises(EngineError, match="cannot export a cache with the older image store"):
            export_cache(tmp_path, to=place, **values | {"containerd_store": False})
    finally:
        engine.images.remove(name)


def test_room_is_given_back_by_what_no_recipe_of_the_project_makes_now(
    project: Project, engine: docker.DockerClient, tmp_path: Path
) -> None:
    title, current = f"room-{secrets.token_hex(6)}", "c" * 64
    (tmp_path / "Dockerfile").write_text('FROM scratch\nCOPY Dockerfile /\nCMD ["/none"]\n')
    made = {
        "old": (title, "0" * 64), "used": (title, "1" * 64), "present": (title, current),
        "foreign": (f"{title}-of-another", "0" * 64),
    }  # fmt: skip
    names = {word: f"{LOCAL}/{title}:{word}" for word in made}
    for word, (of, key) in made.items():
        labels = (f"rocm-images.content-key={key}", f"org.opencontainers.image.title={of}", f"word={word}")
        words = [part for label in labels for part in ("--label", label)]
        done = process.run(["docker", "build", "--quiet", "--tag", names[word], *words, tmp_path])
        assert done.status == 0, done.stderr
    container = engine.containers.create(names["used"])
    try:
        freed = free({title: {current}}, info(), Silent(), unused_hours=100_000, everything=False)
        assert freed.images == (names["old"],)
        assert freed.kept == (names["used"],)
        assert freed.room is not None
        assert freed.room.free > 0
        assert {word for word, name in names.items() if images.local_id(name)} == {"used", "present", "foreign"}
        told = project.done("engine", "free", "--unused-hours", "100000")  # has no images at all
        assert told.stdout.startswith("removed  0.0 GiB of build cache\nfree     ")
        assert (
            json.loads(project.done("engine", "free", "--unused-hours", "100000", "--json").stdout)["images"] == []
        )
    finally:
        container.remove()
        for name in names.values():
            images.remove(name)
