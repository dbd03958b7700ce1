"""The places that a measurement has of its own: an engine, a registry, and a node that pulls.

Each keeps all of its data in one folder and can be emptied. Nothing outside of these folders is touched, but for a
network bridge that ends with the engine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from builder import process
from builder.errors import EngineError
from builder.host import engine_service, service_process
from builder.host.engine_service import EngineSettings
from builder.host.service_process import ProcessMark
from builder.story import Silent
from tests.integration.bridge import own_bridge

_MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
_SERVED = re.compile(r'"GET /v2/\S+/(?:blobs|manifests)/\S+ HTTP/1\.1" 200 (\d+)')
_START_SECONDS = 30.0


def demand(argv: list[str | Path], **given: Any) -> str:  # noqa: ANN401 -- what `process.run` takes
    """Run a program that has to succeed, and return what it wrote."""
    done = process.run(argv, **given)
    if done.status:
        raise EngineError(f"{argv[0]} ended with {done.status}: {' '.join(done.argv[:6])} …", details=done.tail)
    return done.stdout


def settings() -> dict[str, str]:
    """Return what pip is told by variables; the rest of the environment is passed on or not as always."""
    return {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))}


def remove(folder: Path) -> None:
    """Remove a folder of a service that has ended, with the mounts it left."""
    for line in reversed(Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()):
        place = Path(line.split()[4])
        if place.is_relative_to(folder):
            demand(["umount", place])
    shutil.rmtree(folder, ignore_errors=True)


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    return int(demand(["du", "--summarize", "--block-size=1", folder]).split()[0])


@dataclass(kw_only=True, slots=True)
class Engine:
    """A Docker Engine with data of its own, which never throws its cache away by itself."""

    folder: Path
    bridge: str

    @property
    def address(self) -> str:
        """Where it is asked, as DOCKER_HOST has it."""
        return f"unix://{self.folder}/docker.sock"

    @property
    def _settings(self) -> EngineSettings:
        return EngineSettings(
            folder=self.folder / "state", host=self.address, system=None,
            configuration={
                "hosts": [self.address], "pidfile": f"{self.folder}/docker.pid",
                "data-root": f"{self.folder}/data", "exec-root": f"{self.folder}/exec",
                "bridge": self.bridge, "iptables": False, "ip6tables": False,
                "features": {"containerd-snapshotter": True}, "builder": {"gc": {"enabled": False}},
            },
        )  # fmt: skip

    def up(self) -> None:
        """Start it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        engine_service.up(self._settings, Silent())

    def down(self) -> None:
        """End it; its data stays."""
        engine_service.down(self._settings, Silent())

    def empty(self) -> None:
        """Leave no image, no container and no step of a build."""
        self.down()
        remove(self.folder)
        self.up()


@dataclass(kw_only=True, slots=True)
class Service:
    """A program that runs in the background until it is ended."""

    folder: Path
    process: ProcessMark | None = None

    def start(self, argv: list[str | Path], ready: Path | int) -> None:
        """Start it, and wait until there is a socket at a path, or on a port of this machine."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = service_process.mark(process.start_detached(argv, log=self.log))
        if self.process is None or not service_process.wait_until(
            lambda: _listens(ready), self.process, seconds=_START_SECONDS
        ):
            raise EngineError(f"{argv[0]} did not start", details=service_process.last_lines(self.log))

    def stop(self) -> None:
        """End it with what it started."""
        if self.process is not None:
            started = service_process.children(self.process.pid)
            service_process.stop(self.process, grace_seconds=20)
            for each in started:
                service_process.stop(each, grace_seconds=10)
            self.process = None

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "log"


def _listens(where: Path | int) -> bool:
    if isinstance(where, Path):
        family, address = socket.AF_UNIX, str(where)
    else:
        family, address = socket.AF_INET, ("127.0.0.1", where)  # type: ignore[assignment]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


@dataclass(kw_only=True, slots=True)
class Registry(Service):
    """A registry on loopback, which tells what it got and what it served."""

    port: int = 0

    @property
    def host(self) -> str:
        """Return HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    def up(self) -> None:
        """Start it on a port that is free, the same one each time."""
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "registry.yml"  # JSON is YAML too
        configuration.write_text(
            json.dumps(
                {
                    "version": 0.1,
                    "log": {"level": "warn", "accesslog": {"disabled": False}},
                    "storage": {
                        "filesystem": {"rootdirectory": str(self.folder / "data")},
                        "cache": {"blobdescriptor": "inmemory"},
                        "delete": {"enabled": True},
                    },
                    "http": {"addr": self.host},
                }
            )
        )
        self.start(["docker-registry", "serve", configuration], self.port)

    def empty(self) -> None:
        """Forget everything that was pushed."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.up()

    def stored(self) -> dict[str, int]:
        """Return the sizes in bytes of all blobs it keeps, by sha256."""
        blobs = self.folder / "data/docker/registry/v2/blobs/sha256"
        return {path.parent.name: path.stat().st_size for path in blobs.glob("??/*/data")}

    def served(self, *, since: int) -> int:
        """Return the bytes of blobs and manifests that it has sent, from a place in its log on."""
        with self.log.open("rb") as source:
            source.seek(since)
            text = source.read().decode(errors="replace")
        return sum(int(size) for size in _SERVED.findall(text))

    def manifest(self, reference: str) -> dict[str, Any]:
        """Return the manifest of HOST/PATH@DIGEST or HOST/PATH:TAG."""
        path, _, name = reference.removeprefix(f"{self.host}/").rpartition("@")
        if not path:
            path, _, name = reference.removeprefix(f"{self.host}/").rpartition(":")
        path = path.partition(":")[0]
        answer = requests.get(
            f"http://{self.host}/v2/{path}/manifests/{name}", headers={"Accept": _MANIFESTS}, timeout=30
        )
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


@dataclass(kw_only=True, slots=True)
class Node(Service):
    """A machine that serves images: a containerd of its own that pulls and unpacks."""

    holds: list[str] = field(default_factory=list)

    def up(self) -> None:
        """Start it, with nothing in its store."""
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "config.toml"
        configuration.write_text(
            f'version = 2\nroot = "{self.folder}/root"\nstate = "{self.folder}/state"\n'
            f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{self._socket}"\n'
        )
        self.start(["containerd", "--config", configuration], self._socket)

    def empty(self) -> None:
        """Leave nothing in its store."""
        self.stop()
        remove(self.folder)
        self.holds.clear()
        self.up()

    def pull(self, reference: str) -> None:
        """Fetch an image and unpack it."""
        demand(["ctr", "--address", self._socket, "images", "pull", "--plain-http", reference])
        self.holds.append(reference)

    def size(self) -> int:
        """Return the bytes that its store takes: what was fetched, and what it was unpacked to."""
        return size_of(self.folder / "root")

    @property
    def _socket(self) -> Path:
        return self.folder / "containerd.sock"


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """All of them."""

    engine: Engine
    registry: Registry
    nodes: Mapping[str, Node]


@contextmanager
def places(work: Path) -> Iterator[Places]:
    """Start an engine and a registry below `work`, and end them, and the nodes where they were started."""
    with own_bridge() as bridge:
        found = Places(
            engine=Engine(folder=work / "engine", bridge=bridge),
            registry=Registry(folder=work / "registry"),
            nodes={way: Node(folder=work / f"node-{way}") for way in ("reference", "program")},
        )
        try:
            found.registry.up()
            found.engine.up()
            yield found
        finally:
            for node in found.nodes.values():
                node.stop()
                remove(node.folder)
            found.registry.stop()
            found.engine.down()
            remove(found.engine.folder)
