"""Runs the embedded registry: Debian's docker-registry on loopback, its data in the project's state folder.

The port is remembered, so that a published reference stays good on later runs. Only a process started from here
is ever ended.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests

from builder import process
from builder.errors import EngineError
from builder.host import apt, programs, service_process
from builder.host.service_process import ProcessMark
from builder.story import Story
from builder.workspace import Workspace, write_atomic

_LOOPBACK = "127.0.0.1"
_ASKING_SECONDS = 5.0
_OWN_HEADER = "X-Rocm-Images-Registry"


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistrySettings:
    """One registry: the folder that holds all of it, and the first port it tries (then the ones above)."""

    folder: Path
    port: int = 5000
    ports_tried: int = 100
    start_seconds: float = 30.0
    stop_seconds: float = 20.0

    @property
    def data(self) -> Path:
        """The blobs and tags."""
        return self.folder / "registry"

    @property
    def log(self) -> Path:
        """What the registry writes while it runs."""
        return self.folder / "registry.log"

    @property
    def configuration(self) -> Path:
        """The registry's configuration; JSON, which is YAML too."""
        return self.folder / "registry.yml"

    @property
    def state(self) -> Path:
        """Its port, and the process while one runs."""
        return self.folder / "registry.json"

    @property
    def lock(self) -> Path:
        """Held while the registry is started or ended."""
        return self.folder / "registry.lock"


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistryStatus:
    """A registry as it is now. `address` is HOST:PORT, None when it never ran; `answers` only if it is ours."""

    address: str | None
    answers: bool
    process: ProcessMark | None
    data: Path
    log: Path


def settings_for(workspace: Workspace) -> RegistrySettings:
    """Return the settings of a workspace's embedded registry."""
    return RegistrySettings(folder=workspace.state.absolute())


def up(settings: RegistrySettings, story: Story, *, install: bool = False) -> str:
    """Return HOST:PORT of the embedded registry, started where it does not run yet.

    With `install` its package is installed where it is missing. Raises `EngineError` when it cannot be started.
    """
    with service_process.exclusive(settings.lock, story):
        state = service_process.read_state(settings.state)
        running = service_process.recorded(state)
        if running is not None:
            address = f"{_LOOPBACK}:{state['port']}"
            if service_process.wait_until(
                lambda: _answers(address, state["stamp"]), running, seconds=_ASKING_SECONDS
            ):
                story.note(f"the embedded registry runs already at {address}")
                return address
            story.warn(
                f"the embedded registry (process {running.pid}) does not answer at {address}; starting anew"
            )
            service_process.stop(running, grace_seconds=settings.stop_seconds)
        if lacking := programs.missing_for_registry():
            if not install:
                raise EngineError(
                    "this machine lacks docker-registry, the embedded registry",
                    hint="rocm-images registry up --install",
                )
            apt.install(lacking, story)
        return _start(settings, state.get("port"), story)


def down(settings: RegistrySettings, story: Story) -> bool:
    """End the registry that `up` started and tell whether there was one. Its data and its port stay."""
    with service_process.exclusive(settings.lock, story):
        state = service_process.read_state(settings.state)
        running = service_process.recorded(state)
        if running is not None:
            with story.step(f"stop the embedded registry (process {running.pid})"):
                service_process.stop(running, grace_seconds=settings.stop_seconds)
        else:
            story.note("no embedded registry started from here runs")
        if "port" in state:
            service_process.write_state(settings.state, {"port": state["port"]}, None)
        return running is not None


def status(settings: RegistrySettings) -> RegistryStatus:
    """Tell whether the embedded registry runs and where. Starts and changes nothing."""
    state = service_process.read_state(settings.state)
    address = f"{_LOOPBACK}:{state['port']}" if "port" in state else None
    running = service_process.recorded(state)
    return RegistryStatus(
        address=address,
        answers=running is not None and address is not None and _answers(address, state["stamp"]),
        process=running,
        data=settings.data,
        log=settings.log,
    )


def free_ports(first: int, count: int) -> Iterator[int]:
    """Return the ports from `first` on that nothing listens on, at the moment each is asked for."""
    for port in range(first, min(first + count, 65536)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # What a server does too: a port whose last connections have just been closed is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_LOOPBACK, port))
            except OSError:
                continue
        yield port


def _start(settings: RegistrySettings, remembered: int | None, story: Story) -> str:
    program = programs.find("docker-registry")
    if program is None:
        raise EngineError("there is no docker-registry on this machine", hint="rocm-images registry up --install")
    settings.data.mkdir(parents=True, exist_ok=True)
    if emptied := remove_empty_links(settings.data):
        story.warn(
            f"{settings.data}: {emptied} links of the registry were empty, as a full disk leaves them; removed"
        )
    wanted = remembered or settings.port
    for port in _candidates(settings, wanted):
        if port != wanted:
            story.warn(f"port {wanted} is taken by another program; the embedded registry uses {port}")
        begin = settings.log.stat().st_size if settings.log.exists() else 0
        if _serve(settings, program, port, story):
            return f"{_LOOPBACK}:{port}"
        if remembered is not None:
            service_process.write_state(settings.state, {"port": remembered}, None)
        said = service_process.last_lines(settings.log, since=begin)
        if not any("address already in use" in line for line in said):
            raise EngineError(
                "the embedded registry was started but does not answer",
                hint=f"the lines above are the end of {settings.log}",
                details=said,
            )
    raise EngineError(
        f"no port from {settings.port} to {settings.port + settings.ports_tried - 1} is free on {_LOOPBACK}",
        hint="free one, or publish to another registry",
    )


def remove_empty_links(data: Path) -> int:
    """Remove the links of a registry's storage that hold nothing, and return how many.

    The registry makes the file first and then writes the digest into it. Where the disk took the name and not the
    digest, it answers 500 to every question about that layer or tag from then on, also when there is room again.
    """
    found = [link for link in data.glob("docker/registry/v2/repositories/**/link") if link.stat().st_size == 0]
    for link in found:
        link.unlink()
    return len(found)


def _candidates(settings: RegistrySettings, wanted: int) -> Iterator[int]:
    yield from free_ports(wanted, 1)
    for port in free_ports(settings.port, settings.ports_tried):
        if port != wanted:
            yield port


def _serve(settings: RegistrySettings, program: Path, port: int, story: Story) -> bool:
    """Start one registry and tell whether it answers. One that does not is not left running."""
    address = f"{_LOOPBACK}:{port}"
    stamp = secrets.token_hex(16)
    held = json.dumps(_configuration(settings, port, stamp), indent=2)
    write_atomic(settings.configuration, held + "\n")
    with story.step(f"start the embedded registry at {address}, its data in {settings.data}"):
        pid = process.start_detached([program, "serve", settings.configuration], log=settings.log)
        started = service_process.mark(pid)
        if started is None:
            return False
        answered = False
        try:
            service_process.write_state(settings.state, {"port": port, "stamp": stamp}, started)
            answered = service_process.wait_until(
                lambda: _answers(address, stamp), started, seconds=settings.start_seconds
            )
        finally:
            if not answered:
                service_process.stop(started, grace_seconds=settings.stop_seconds)
                settings.state.unlink(missing_ok=True)
    return answered


def _configuration(settings: RegistrySettings, port: int, stamp: str) -> dict[str, Any]:
    return {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(settings.data)},
            "cache": {"blobdescriptor": "inmemory"},
            "delete": {"enabled": True},
        },
        "http": {"addr": f"{_LOOPBACK}:{port}", "headers": {_OWN_HEADER: [stamp]}},
    }


def _answers(address: str, stamp: str) -> bool:
    """Tell whether the registry that was started with this stamp answers there, and not another program."""
    with requests.Session() as session:
        session.trust_env = False  # a proxy must not be asked for loopback
        try:
            answer = session.get(f"http://{address}/v2/", timeout=_ASKING_SECONDS)
        except requests.RequestException:
            return False
    return answer.status_code == HTTPStatus.OK and answer.headers.get(_OWN_HEADER) == stamp
