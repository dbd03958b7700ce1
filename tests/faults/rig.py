"""An engine and a registry that may be killed, filled and stopped: nobody else's, on disks of their own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import docker

from builder.engine.client import connect
from builder.errors import EngineError
from builder.host import engine_service, registry_service, service_process
from builder.host.engine_service import EngineSettings
from builder.host.registry_service import RegistrySettings
from builder.story import Silent

from ..integration.bridge import own_bridge
from ..integration.project import REPOSITORY, Project, make_project
from ..integration.road.leftovers import mounts_below

TINY = REPOSITORY / "tests/data/images/tiny"
_ENGINE_DISK, _REGISTRY_DISK = "4g", "512m"
_SHARED = ("store", "bases", "inventories")


@dataclass
class Rig:
    """What the points run on. `locked` is a project whose image was locked, built and published once."""

    folder: Path
    engine: EngineSettings
    registry: RegistrySettings
    client: docker.DockerClient
    locked: Project

    @property
    def store(self) -> Path:
        """Fetched files, so that nothing is downloaded twice."""
        return REPOSITORY / ".rocm-images/store"

    @property
    def engine_data(self) -> Path:
        return self.folder / "engine/data"

    def up(self) -> str:
        """Have engine and registry run, and return the registry's address."""
        engine_service.up(self.engine, Silent())
        return registry_service.up(self.registry, Silent())

    def signal_engine(self, number: signal.Signals) -> None:
        """Send a signal to the engine, and wait for its end where that ends it."""
        _signal(self.engine.state, number)

    def signal_registry(self, number: signal.Signals) -> None:
        _signal(self.registry.state, number)

    def project(self, *, own: Collection[str] = ()) -> Project:
        """Make a project with the locked image, which shares the folders of its state that `own` does not name."""
        shared = {name: self.store if name == "store" else self.folder / name for name in _SHARED}
        address = registry_service.status(self.registry).address
        new = make_project(
            f"{address}/faults-{secrets.token_hex(6)}",
            {name: at for name, at in shared.items() if name not in own},
        )
        new.add("tiny", self.locked.workspace.images / "tiny" if self.locked is not None else TINY)
        return new


def _signal(state: Path, number: signal.Signals) -> None:
    process = service_process.recorded(service_process.read_state(state))
    assert process is not None, f"{state}: nothing runs"
    os.kill(process.pid, number)
    if number in (signal.SIGKILL, signal.SIGTERM):
        while service_process.is_running(process):
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


@contextmanager
def disk(at: Path, size: str) -> Iterator[Path]:
    """Mount a disk of its own at a folder, and hand back what is in the way."""
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", at], check=True)
    try:
        yield at
    finally:
        _unmount(at)


def _unmount(*folders: Path) -> None:
    for folder in folders:
        for place in reversed(mounts_below(folder)):
            subprocess.run(["umount", "--lazy", place], check=False, stderr=subprocess.DEVNULL)


@contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """Start engine and registry below `folder`, lock and publish the image once, and remove all of it again."""
    _require_programs()
    address = f"unix://{folder}/engine/docker.sock"
    with ExitStack() as stack:
        bridge = stack.enter_context(own_bridge())
        stack.callback(shutil.rmtree, folder)
        folder.chmod(0o755)
        stack.callback(_unmount, folder)
        registry = RegistrySettings(folder=folder / "registry", port=17500)
        stack.enter_context(disk(folder / "engine/data", _ENGINE_DISK))
        stack.enter_context(disk(registry.data, _REGISTRY_DISK))
        engine = EngineSettings(
            folder=folder / "engine/state", host=address, system=None,
            configuration={
                "hosts": [address], "pidfile": f"{folder}/engine/docker.pid", "data-root": f"{folder}/engine/data",
                "exec-root": f"{folder}/engine/exec", "bridge": bridge, "iptables": False, "ip6tables": False,
                "features": {"containerd-snapshotter": True},
            },
        )  # fmt: skip
        os.environ["DOCKER_HOST"] = address
        (folder / "bases").mkdir()
        (folder / "inventories").mkdir()
        (REPOSITORY / ".rocm-images/store").mkdir(parents=True, exist_ok=True)
        stack.callback(_down, engine, registry)
        new = Rig(folder=folder, engine=engine, registry=registry, client=None, locked=None)  # type: ignore[arg-type]
        new.up()
        new.client = stack.enter_context(_connected(address))
        first = new.project()
        stack.callback(shutil.rmtree, first.folder)
        first.done("lock", "tiny")
        first.done("build", "tiny", "--publish", first.publish)
        new.locked = first
        yield new


@contextmanager
def _connected(address: str) -> Iterator[docker.DockerClient]:
    client = connect(address)
    try:
        yield client
    finally:
        client.close()


def _down(engine: EngineSettings, registry: RegistrySettings) -> None:
    for state in (engine.state, registry.state):
        with suppress(AssertionError, EngineError):
            _signal(state, signal.SIGCONT)
    engine_service.down(engine, Silent())
    registry_service.down(registry, Silent())


def _require_programs() -> None:
    assert os.geteuid() == 0, "an engine of its own, and disks that fill up, need root"
    assert shutil.which("strace"), "apt-get install strace"
    assert faketime() is not None, "apt-get install libfaketime"


def faketime() -> Path | None:
    """Return the library that tells a program another time."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def strace(*words: str) -> Sequence[str]:
    """Return the program that starts another and breaks the system calls of it that `words` say."""
    return ("strace", "-D", "-f", "-qq", "-o", "/dev/null", *(word for each in words for word in ("-e", each)))
