"""One digest, wherever one looks: on standard output, in the record, where it is published, of what was tested."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from builder.engine.client import endpoint
from builder.mirrors import Mirrors
from builder.reference import Digest, parse_place, parse_reference
from builder.registries.layouts import Layout
from builder.registries.referrers import fetched, referrers

from ..project import SAFETY_SECONDS, Ended, Project
from .conftest import Tiny
from .loopback import Relay
from .proxy import Proxy, proxied

pytestmark = pytest.mark.engine


@pytest.fixture
def proxy(registry: str) -> Iterator[Proxy]:
    with proxied(registry) as running:
        yield running


@dataclass(frozen=True)
class Published:
    """A run that published, and where everybody says the image is."""

    ended: Ended
    project: Project

    @property
    def record(self) -> dict[str, Any]:
        return dict(json.loads(self.project.workspace.pin("tiny").read_text()))

    @property
    def tested(self) -> str:
        """The image that the tests ran on, as the engine calls it."""
        report = json.loads((self.project.workspace.dist / "tiny/smoke.json").read_text())
        return str(report["reference"])


def nightly(recipe: dict[str, Any]) -> None:
    recipe["publish"] = {"moving-tags": ["nightly"]}


def publish(project: Project, *words: str) -> Published:
    ended = project.run("build", "tiny", *words)
    assert ended.status == 0, ended.stderr
    return Published(ended=ended, project=project)


def test_one_digest_on_stdout_in_record_registry_container_and_output_of_the_step(
    tiny: Tiny, engine: docker.DockerClient, registry: str, proxy: Proxy
) -> None:
    project = tiny(nightly)
    project.publish = project.publish.replace(registry, proxy.address)
    outputs, summary = project.folder / "outputs", project.folder / "summary"
    outputs.write_text("earlier=step\n")
    project.env |= {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
    run = publish(project, "--publish", project.publish)
    reference = parse_reference(run.ended.result)
    digest, tag = str(reference.digest), str(reference.tag)
    assert run.ended.stdout == f"{project.publish}/tiny:{tag}@{digest}\n"
    assert (run.record["digest"], run.record["reference"]) == (digest, run.ended.result)
    assert (run.record["tags"], run.record["moved-from"]) == ([tag, "nightly"], None)
    assert run.tested == digest
    assert engine.images.get(f"rocm-images.local/tiny:{tag}").id == digest
    for name in (tag, "nightly", digest):
        served = project.served("tiny", name)
        assert served.headers["Docker-Content-Digest"] == digest
        assert f"sha256:{hashlib.sha256(served.content).hexdigest()}" == digest
    assert sorted(project.tags("tiny")) == sorted([tag, "nightly"])
    told = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    shown = project.done("pin", "show", "tiny", "--format", "github").stdout
    assert outputs.read_text() == f"earlier=step\n{shown}"
    assert (told["digest"], told["reference"], told["tag"]) == (digest, run.ended.result, tag)
    assert run.ended.result in summary.read_text()

    # Nothing new, nothing pushed.
    proxy.asked.clear()
    again = publish(project, "--publish", project.publish)
    assert again.ended.stdout == run.ended.stdout
    assert proxy.asked
    assert [asked for asked in proxy.asked if not asked.startswith(("GET ", "HEAD "))] == []


def test_a_layout_holds_the_engines_own_bytes_and_what_belongs_to_them(
    tiny: Tiny, engine: docker.DockerClient
) -> None:
    project = tiny(nightly)
    run = publish(project, "--publish", "oci:out")
    place = parse_place(run.ended.result)
    tag, digest = str(place.tag), str(place.digest)
    assert run.ended.stdout == f"oci:out/tiny:{tag}@{digest}\n"
    assert (run.record["digest"], run.record["reference"]) == (digest, run.ended.result)
    assert run.tested == digest
    assert engine.images.get(f"rocm-images.local/tiny:{tag}").id == digest
    layout = Layout(project.folder / "out/tiny")
    for name in (tag, "nightly"):
        document = layout.standing(name)
        assert document is not None
        assert f"sha256:{hashlib.sha256(document.content).hexdigest()}" == digest
    for blob in (layout.folder / "blobs/sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    beside = {each.artifact_type: layout.fetched(each.digest) for each in layout.referrers(Digest(digest))}
    sbom = {f"sha256:{hashlib.sha256(each.content).hexdigest()}" for each in beside.values()}
    assert set(run.record["sbom"].values()) <= sbom

    before = {path: path.stat().st_mtime_ns for path in layout.folder.rglob("*")}
    assert "tiny: skip - " in project.done("plan", "tiny", "--publish", "oci:out").stdout
    again = publish(project, "--publish", "oci:out")
    assert again.ended.stdout == run.ended.stdout
    assert {path: path.stat().st_mtime_ns for path in layout.folder.rglob("*")} == before

    # Where nothing is left but the layout, it is what is tested again.
    engine.images.remove(f"rocm-images.local/tiny:{tag}", force=True)
    (project.workspace.dist / "tiny/state.json").unlink()
    project.workspace.pin("tiny").unlink()
    fetched_again = publish(project, "--publish", "oci:out")
    assert "==> loading oci:out/tiny@" in fetched_again.ended.stderr
    assert "==> building" not in fetched_again.ended.stderr
    assert fetched_again.ended.stdout == run.ended.stdout
    assert fetched_again.tested == digest


def test_a_tag_of_a_layout_is_not_moved_to_other_bytes_unless_told_so_and_then_the_record_says_it(
    tiny: Tiny,
) -> None:
    project = tiny()
    run = publish(project, "--publish", "oci:out")
    place = parse_place(run.ended.result)
    tag, digest = str(place.tag), str(place.digest)
    layout = Layout(project.folder / "out/tiny")
    tested = layout.standing(tag)
    assert tested is not None
    table = json.loads(tested.content) | {"annotations": {"org.example": "the same image in another manifest"}}
    other = json.dumps(table).encode()
    foreign = f"sha256:{hashlib.sha256(other).hexdigest()}"
    (layout.folder / "blobs/sha256" / foreign.removeprefix("sha256:")).write_bytes(other)
    index = layout.folder / "index.json"
    entries = json.loads(index.read_bytes())
    for entry in entries["manifests"]:
        if entry.get("annotations"):
            entry |= {"digest": foreign, "size": len(other)}
    index.write_text(json.dumps(entries))

    refused = project.run("build", "tiny", "--publish", "oci:out", "--no-cache")
    assert refused.status == 7, refused.stderr
    assert f"error: oci:out/tiny:{tag}: the tag names other bytes already" in refused.stderr
    assert f"  | published {foreign}" in refused.stderr
    assert f"  | tested    {digest}" in refused.stderr
    moved = publish(project, "--publish", "oci:out", "--no-cache", "--move-tag")
    assert moved.ended.result == run.ended.result
    assert moved.record["moved-from"] == foreign
    assert f"moved from {foreign} to {digest}" in moved.ended.stderr


def test_a_run_that_is_killed_before_the_tag_is_ended_by_the_next(tiny: Tiny) -> None:
    project = tiny()
    host, _, namespace = project.publish.partition("/")
    relay = Relay(host, at=rb"PUT /v2/[^ ]*/manifests/26")
    project.publish = f"{relay.address}/{namespace}"
    run = project.start("build", "tiny", "--publish", project.publish)
    assert relay.gate.reached.wait(timeout=SAFETY_SECONDS)
    run.process.kill()
    assert run.wait().status == -signal.SIGKILL
    assert relay.closed.wait(timeout=SAFETY_SECONDS)
    relay.gate.opened.set()
    assert project.tags("tiny") == ["candidate"]
    assert not project.workspace.pin("tiny").exists()
    ended = publish(project, "--publish", project.publish)
    subject = parse_reference(ended.ended.result)
    assert project.tags("tiny") == [subject.tag]
    beside = [fetched(subject, each.digest, mirrors=Mirrors()) for each in referrers(subject, mirrors=Mirrors())]
    assert len({each.artifact_type for each in beside}) == len(beside)
    relay.close()


@pytest.fixture
def remote(engine: docker.DockerClient) -> Iterator[dict[str, str]]:
    """A builder with the remote driver, and the environment it is known in.

    What it reaches is the engine's own BuildKit, over a socket that speaks plain gRPC as a buildkitd does.
    """
    with tempfile.TemporaryDirectory(prefix="rit.") as name:  # a socket's path may have 107 bytes
        place = Path(name) / "buildkit.sock"
        env = {"BUILDX_CONFIG": f"{name}/buildx"}
        with _as_buildkitd(place):
            subprocess.run(
                ["docker", "buildx", "create", "--name", "elsewhere", "--driver", "remote", f"unix://{place}"],
                env=os.environ | env, check=True, capture_output=True,
            )  # fmt: skip
            yield env


@contextlib.contextmanager
def _as_buildkitd(place: Path) -> Iterator[None]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen()

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(endpoint().removeprefix("unix://"))
            far.sendall(b"POST /grpc HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += far.recv(1)
            for ends in ((near, far), (far, near)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_a_builder_that_is_not_the_engine_gives_the_same_digest(
    tiny: Tiny, remote: dict[str, str], engine: docker.DockerClient
) -> None:
    project = tiny()
    here = project.done("build", "tiny").result
    tag = project.done("plan", "tiny").stdout and next(
        name for name in engine.images.get(here).tags if name.startswith("rocm-images.local/tiny:")
    )
    engine.images.remove(tag, force=True)
    (project.workspace.dist / "tiny/state.json").unlink()
    project.env |= remote
    there = publish(project, "--builder", "elsewhere")
    assert "==> loading the image that builder elsewhere handed over" in there.ended.stderr
    assert there.ended.result == there.tested == here

    unknown = project.run("build", "tiny", "--no-cache", "--builder", "nowhere")
    assert unknown.status == 8
    assert "--builder: there is no builder 'nowhere'" in unknown.stderr
