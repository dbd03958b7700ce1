"""However a smoke run ends: no container stays, nothing half-written is left, it never counts as passed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import docker.errors
import pytest

from builder.engine import containers
from builder.errors import EngineError, SmokeError
from builder.smoke.contract import Contract

from .conftest import Run, failed

pytestmark = pytest.mark.engine

Only = Callable[..., Contract]
Names = Callable[[], list[str]]

RUNNER = """
import sys
from pathlib import Path
from builder.errors import Failure
from builder.smoke.contract import Contract
from builder.smoke.run import run_smoke
from builder.story import Silent
try:
    contract = Contract.from_json(Path(sys.argv[2]).read_text())
    run_smoke(sys.argv[1], contract, results=Path(sys.argv[3]), story=Silent())
except Failure as failure:
    print(failure.message, failure.hint)
    sys.exit(failure.exit_code)
except KeyboardInterrupt:
    sys.exit(130)
"""


def started(image: str, contract: Contract, folder: Path, **env: str) -> subprocess.Popen[str]:
    """Start a smoke run in a process of its own."""
    (folder / "contract.json").write_text(contract.to_json(), encoding="utf-8")
    arguments = [image, str(folder / "contract.json"), str(folder / "results")]
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, *arguments], env={**os.environ, **env}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def compiling(client: docker.DockerClient, names: list[str]) -> str | None:
    """Return the container in which a C++ compiler is at work right now."""
    for name in names:
        try:
            rows = client.containers.get(name).top()["Processes"] or []
        except docker.errors.APIError:
            continue
        if any("cc1plus" in row[-1] for row in rows):
            return name
    return None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM to the tests"])
def test_an_interrupt_in_the_middle_of_a_compile_leaves_nothing(
    number: signal.Signals, image: str, only: Only, ours: Names, tmp_path: Path, client: docker.DockerClient
) -> None:
    run = started(image, only("sglang-hash"), tmp_path)
    until(lambda: compiling(client, ours()))
    if number is signal.SIGINT:
        run.send_signal(number)
        assert run.wait(timeout=60) == 130
    else:
        tests = subprocess.run(
            ["pgrep", "-P", str(run.pid), "-f", "pytest"], capture_output=True, text=True, check=True
        )
        os.kill(int(tests.stdout.split()[0]), number)
        out, _ = run.communicate(timeout=60)
        assert run.returncode == SmokeError.exit_code
        assert "the smoke tests did not run to their end" in out
    assert ours() == []
    assert not (tmp_path / "results" / "smoke.json").exists()
    assert not (tmp_path / "results" / "smoke.xml").exists()


def test_tests_that_are_killed_outright_leave_no_container(
    image: str, only: Only, ours: Names, tmp_path: Path, client: docker.DockerClient
) -> None:
    run = started(image, only("sglang-hash"), tmp_path)
    until(lambda: compiling(client, ours()))
    tests = subprocess.run(
        ["pgrep", "-P", str(run.pid), "-f", "pytest"], capture_output=True, text=True, check=True
    )
    os.kill(int(tests.stdout.split()[0]), signal.SIGKILL)
    assert run.wait(timeout=60) == SmokeError.exit_code
    assert ours() == []


def test_a_container_that_is_killed_fails_its_test_and_the_run_goes_on(
    smoke: Run, image: str, only: Only, ours: Names, client: docker.DockerClient
) -> None:
    def kill_it() -> None:
        until(lambda: compiling(client, ours()))
        client.containers.get(str(compiling(client, ours()))).kill()

    killer = threading.Thread(target=kill_it)
    killer.start()
    report = smoke(image, only("sglang-hash"))
    killer.join()
    found = failed(report, "the hash extension compiles from a cold cache").finding
    assert found is not None
    assert found.cause == "the container ended while the probe hash_extension ran in it: killed, or out of memory"


class Relay:
    """A TCP way to the engine's socket that can be cut, which no test may do to the engine itself."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept would let one more in otherwise
        self._listener.close()
        for each in self._open:
            with contextlib.suppress(OSError):  # the other side was faster
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._path)
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


@pytest.fixture
def relay(client: docker.DockerClient) -> Iterator[Relay]:
    way = Relay(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://"))
    yield way
    with contextlib.suppress(OSError):  # the test cut it
        way.cut()


def test_an_engine_that_goes_away_in_the_middle_is_no_verdict_on_the_image(
    image: str, only: Only, ours: Names, relay: Relay, tmp_path: Path, client: docker.DockerClient
) -> None:
    run = started(image, only("sglang-hash"), tmp_path, DOCKER_HOST=relay.address)
    try:
        until(lambda: compiling(client, ours()))
        relay.cut()
        out, _ = run.communicate(timeout=120)
    finally:
        run.kill()
        for name in ours():  # out of reach for the run; they would end by themselves
            containers.remove(name)
    assert run.returncode == EngineError.exit_code, out
    assert "engine" in out
    assert not (tmp_path / "results" / "smoke.json").exists()


def test_a_container_outlives_nobody_even_when_its_owner_is_killed(image: str, ours: Names) -> None:
    code = (
        "import os, signal, sys\nfrom builder.engine.containers import running\n"
        "with running(sys.argv[1], run='killed', lifetime_seconds=4):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, image], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(ours()) == 1
    until(lambda: ours() == [], seconds=30)


def test_what_was_created_and_never_started_by_a_killed_run_is_swept_up(
    image: str, client: docker.DockerClient, ours: Names
) -> None:
    labels = {containers.RUN_LABEL: "long ago", containers.UNTIL_LABEL: str(int(time.time()) - 3600)}
    client.containers.create(image, entrypoint=["/bin/sleep"], command=["1"], labels=labels)
    assert len(ours()) == 1
    assert containers.sweep() == 1


def test_the_container_of_a_killed_run_is_swept_up_by_the_next_one_and_that_of_another_run_stays(
    image: str, ours: Names
) -> None:
    code = (
        "import os, signal, sys\nfrom builder.engine.containers import running\n"
        "with running(sys.argv[1], run='killed', lifetime_seconds=600):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with containers.running(image, run="another"):
        subprocess.run([sys.executable, "-c", code, image], check=False)
        assert len(ours()) == 2
        assert containers.sweep() == 1
        assert len(ours()) == 1


def test_an_interrupt_while_a_container_is_created_does_not_lose_it(image: str, ours: Names) -> None:
    code = (
        "import os, signal, sys, threading\nfrom builder.engine.containers import running\n"
        "threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    with running(sys.argv[1], run='interrupted', lifetime_seconds=60):\n"
        "        threading.Event().wait(30)\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    for delay in (0.02, 0.1, 0.2, 0.3, 0.5):
        done = subprocess.run([sys.executable, "-c", code, image, str(delay)], check=False, timeout=60)
        assert done.returncode == 130
        assert ours() == []


def test_a_container_has_exactly_what_was_declared(image: str, client: docker.DockerClient, ours: Names) -> None:
    owner = containers.Identity(uid=4711, gid=4712)
    with containers.running(
        image, run="declared", user="4711:4712", owner=owner, writable=("/tmp", "/data"), shm="16m", env={"A": "b"}
    ) as started:
        attrs = client.containers.get(started.name).attrs
        host = attrs["HostConfig"]
        assert host["NetworkMode"] == "none"
        assert host["ReadonlyRootfs"] is True
        assert host["ShmSize"] == 16 * 1024 * 1024
        assert host["AutoRemove"] is True
        assert not host["Privileged"]
        assert not host["Binds"]
        assert set(host["Tmpfs"]) == {"/tmp", "/data"}
        assert attrs["Config"]["Labels"][containers.RUN_LABEL] == "declared"
        assert "A=b" in attrs["Config"]["Env"]
        ran = client.containers.get(started.name).exec_run(["/bin/sh", "-c", "touch /data/x && id -u && touch /x"])
        assert ran.output.decode().splitlines()[0] == "4711"
        assert "Read-only file system" in ran.output.decode()
        assert containers.state(started.name) == containers.State(running=True, exit_code=0, out_of_memory=False)
    assert containers.state(started.name) is None


def test_names_of_users_are_looked_up_in_the_image(image: str, ours: Names) -> None:
    assert containers.identity(image, "root") == containers.Identity(uid=0, gid=0, name="root", home="/root")
    assert containers.identity(image, "daemon:tty").gid == 5
    assert containers.identity(image, "4711") == containers.Identity(uid=4711, gid=0)
    assert containers.identity(image, "4711:12") == containers.Identity(uid=4711, gid=12)
    with pytest.raises(SmokeError, match="its user 'nobody-knows' is not in its /etc/passwd"):
        containers.identity(image, "nobody-knows")
