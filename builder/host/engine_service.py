"""Starts a Docker Engine where none answers, without an init system, and ends exactly that one again.

An engine that answers is used as it is. Nothing outside the state folder is written by this; the engine itself
keeps its data and its socket where it always does.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder import process
from builder.engine import client
from builder.engine.client import EngineInfo
from builder.errors import EngineError, Failure
from builder.host import apt, own_root, programs, service_process
from builder.host.service_process import ProcessMark
from builder.story import Story
from builder.workspace import Workspace, write_atomic

SYSTEM_CONFIGURATION = Path("/etc/docker/daemon.json")
_DEFAULT_HOSTS = ("unix:///var/run/docker.sock", "unix:///run/docker.sock")
_OLDER_STORE = Path("image/overlay2/repositories.json")
_ASKING_SECONDS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """One engine: where its state is kept, and what its configuration says beside the defaults.

    `host` is the address it is asked at, None for the one the docker command line uses. `configuration` is added
    to the written daemon.json in that file's own words (`data-root`, `hosts`, `bridge`, …). A file at `system`,
    the machine's own daemon.json, is used as it is instead of a written one.
    """

    folder: Path
    host: str | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict)
    system: Path | None = SYSTEM_CONFIGURATION
    start_seconds: float = 60.0
    stop_seconds: float = 60.0

    @property
    def log(self) -> Path:
        """What the engine writes while it runs."""
        return self.folder / "dockerd.log"

    @property
    def state(self) -> Path:
        """Which process was started, and what it leaves behind."""
        return self.folder / "state.json"

    @property
    def lock(self) -> Path:
        """Held while an engine is started or ended."""
        return self.folder / "lock"

    @property
    def address(self) -> str:
        """Where the engine is asked."""
        return self.host or client.endpoint()


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineStatus:
    """What answers, and whether it is ours. `why_not` holds the reason when no engine answers."""

    host: str
    info: EngineInfo | None
    why_not: str | None
    ours: ProcessMark | None
    log: Path


def settings_for(workspace: Workspace) -> EngineSettings:
    """Return the settings of the engine that a workspace starts."""
    return EngineSettings(folder=workspace.state.absolute() / "engine")


def up(settings: EngineSettings, story: Story, *, install: bool = False) -> EngineInfo:
    """Return the engine that answers; start one where none does, with `install` after getting its packages.

    Raises `EngineError` when it cannot be started, or what answers is too old or lacks buildx.
    """
    with service_process.exclusive(settings.lock, story):
        answers = _answers(settings)
        if answers:
            story.note(f"an engine answers at {settings.address}; it is used as it is")
        else:
            _require_own_address(settings)
        if lacking := programs.missing_for_engine(answers=answers):
            if not install:
                raise EngineError(
                    f"this machine lacks {', '.join(need.name for need in lacking)}", hint=client.START_HINT
                )
            apt.install(lacking, story)
            # With systemd the package has started its own service by now.
            answers = answers or (programs.systemd_runs() and _answers(settings))
        if not answers:
            _start(settings, story)
    engine = client.info(settings.host)
    client.require_usable(engine)
    store = "containerd" if engine.containerd_store else "older"
    story.note(f"engine {engine.version}, {store} image store, buildx {engine.buildx_version}")
    return engine


def down(settings: EngineSettings, story: Story) -> bool:
    """End the engine that `up` started, with all it left, and tell whether there was one."""
    with service_process.exclusive(settings.lock, story):
        state = service_process.read_state(settings.state)
        engine = service_process.recorded(state)
        if engine is None:
            story.note("no engine started from here runs")
            settings.state.unlink(missing_ok=True)
            return False
        with story.step(f"stop the engine (process {engine.pid})"):
            _stop(engine, state, settings, story)
    return True


def status(settings: EngineSettings) -> EngineStatus:
    """Tell what answers and whether it was started from here. Starts and changes nothing."""
    ours = service_process.recorded(service_process.read_state(settings.state))
    info, why_not, host = None, None, "an unknown place"
    try:
        host = settings.address
        info = client.info(settings.host, timeout_seconds=_ASKING_SECONDS)
    except Failure as failure:
        why_not = "; ".join((failure.message, *failure.details))
    return EngineStatus(host=host, info=info, why_not=why_not, ours=ours, log=settings.log)


def _answers(settings: EngineSettings) -> bool:
    try:
        client.connect(settings.host, timeout_seconds=_ASKING_SECONDS).close()
    except EngineError:
        return False
    return True


def _require_own_address(settings: EngineSettings) -> None:
    if settings.host is None and settings.address not in _DEFAULT_HOSTS:
        raise EngineError(
            f"no engine answers at {settings.address}, which DOCKER_HOST or the docker context names",
            hint="start that engine, or unset DOCKER_HOST and DOCKER_CONTEXT to have one started here",
        )


def _start(settings: EngineSettings, story: Story) -> None:
    program = programs.find("dockerd")
    if program is None:
        raise EngineError("there is no dockerd on this machine", hint=client.START_HINT)
    if os.geteuid() != 0:
        raise EngineError("starting an engine needs root", hint="run the same command with sudo")
    if programs.systemd_runs() and settings.host is None and _unit_exists():
        raise EngineError("docker.service is installed but does not run", hint="systemctl start docker")
    if service_process.recorded(service_process.read_state(settings.state)) is not None:
        raise EngineError(
            "the engine started from here still runs but does not answer",
            hint="rocm-images engine down",
            details=service_process.last_lines(settings.log),
        )
    configuration = _configure(settings, story)
    argv: tuple[str | Path, ...] = (
        sys.executable,
        own_root.__file__,
        program,
        "--config-file",
        configuration.file,
    )
    log_begin = settings.log.stat().st_size if settings.log.exists() else 0
    with story.step(f"start an engine, its log in {settings.log}"):
        pid = process.start_detached(argv, log=settings.log, env={"PATH": programs.search_path()})
        engine = service_process.mark(pid)
        state = {"pidfile": str(configuration.pidfile), "sockets": [str(path) for path in configuration.sockets]}
        try:
            service_process.write_state(settings.state, state, engine)
            answered = engine is not None and service_process.wait_until(
                lambda: _answers(settings), engine, seconds=settings.start_seconds
            )
        except BaseException:
            if engine is not None:
                _stop(engine, state, settings, story)
            raise
    if not answered:
        alive = engine is not None and service_process.is_running(engine)
        if engine is not None:
            _stop(engine, state, settings, story)
        raise EngineError(
            f"the engine was started but did not answer within {settings.start_seconds:.0f} s"
            if alive
            else "the engine was started and ended at once",
            hint=f"the lines above are the end of {settings.log}; remove the cause, then: rocm-images engine up",
            details=service_process.last_lines(settings.log, since=log_begin),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Configuration:
    file: Path
    pidfile: Path
    sockets: tuple[Path, ...]


def _configure(settings: EngineSettings, story: Story) -> _Configuration:
    held: dict[str, Any]
    if settings.system is not None and settings.system.exists():
        file = settings.system
        try:
            held = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise EngineError(f"{file}: {error}", hint="correct it, or remove it") from error
        story.note(f"{file} is there and is used as it is")
        if not held.get("features", {}).get("containerd-snapshotter"):
            story.warn(f"{file} does not turn on features.containerd-snapshotter, the containerd image store")
    else:
        file = settings.folder / "daemon.json"
        held = {"features": {"containerd-snapshotter": True}} | dict(settings.configuration)
        write_atomic(file, json.dumps(held, indent=2, sort_keys=True) + "\n")
        data_root = Path(held.get("data-root", "/var/lib/docker"))
        if (data_root / _OLDER_STORE).exists():
            story.warn(f"images of the older image store stay in {data_root} but do not show in this engine")
    hosts = held.get("hosts") or [_DEFAULT_HOSTS[0]]
    return _Configuration(
        file=file,
        pidfile=Path(held.get("pidfile", "/var/run/docker.pid")),
        sockets=tuple(Path(host.removeprefix("unix://")) for host in hosts if host.startswith("unix://")),
    )


def _stop(engine: ProcessMark, state: Mapping[str, Any], settings: EngineSettings, story: Story) -> None:
    offspring = service_process.children(engine.pid)
    if not service_process.stop(engine, grace_seconds=settings.stop_seconds):
        story.warn(f"the engine did not end within {settings.stop_seconds:.0f} s and was killed")
    for child in offspring:  # containerd; it ends with the engine unless that was killed
        service_process.stop(child, grace_seconds=10.0)
    pidfile = Path(state["pidfile"])
    if pidfile.is_file() and pidfile.read_text(encoding="ascii", errors="replace").strip() == str(engine.pid):
        pidfile.unlink()
    for path in map(Path, state["sockets"]):
        if path.is_socket() and not _listens(path):
            path.unlink()
    settings.state.unlink(missing_ok=True)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _unit_exists() -> bool:
    folders = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
    return any((Path(folder) / "docker.service").exists() for folder in folders)
