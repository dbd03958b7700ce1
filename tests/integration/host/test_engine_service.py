"""A private engine, beside the machine's own: its data, socket and containerd are in a folder of the test."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.engine import client
from builder.errors import EngineError
from builder.host import engine_service, service_process
from builder.host.engine_service import EngineSettings
from builder.story import Silent

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an engine"),
]


def _private(folder: Path, *, bridge: str, **configuration: object) -> EngineSettings:
    address = f"unix://{folder}/run/docker.sock"
    (folder / "run").mkdir(exist_ok=True)
    return EngineSettings(
        folder=folder / "state",
        host=address,
        system=None,
        configuration={
            "hosts": [address],
            "pidfile": str(folder / "run/docker.pid"),
            "data-root": str(folder / "data"),
            "exec-root": str(folder / "exec"),
            "bridge": bridge,
            "iptables": False,
            "ip6tables": False,
        }
        | configuration,
    )


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory, bridge: str) -> Iterator[EngineSettings]:
    # a socket's path may have 107 bytes
    settings = _private(tmp_path_factory.mktemp("e"), bridge=bridge)
    yield settings
    engine_service.down(settings, Silent())
    # An engine that was killed leaves its data folder mounted on itself, also when it ran again in between.
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in reversed(mounted):
        if place.startswith(f"{settings.folder.parent}/"):
            subprocess.run(["umount", place], check=True)


def _processes_of(settings: EngineSettings) -> list[str]:
    """Return the command lines that name the private engine's folders, which containerd's and its shims' do."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(settings.folder.parent) in line:
                found.append(line)
    return found


def test_an_engine_starts_with_the_containerd_image_store_and_leaves_nothing_behind(settings):
    engine = engine_service.up(settings, Silent())

    assert engine.containerd_store
    assert engine.host == settings.host
    assert engine.data_root == Path(settings.configuration["data-root"])
    assert engine_service.status(settings).ours is not None
    assert any("containerd" in line for line in _processes_of(settings))

    assert engine_service.down(settings, Silent())
    assert _processes_of(settings) == []
    assert list((settings.folder.parent / "run").iterdir()) == []
    assert not settings.state.exists()
    assert "level=" in settings.log.read_text()
    status = engine_service.status(settings)
    assert (status.info, status.ours) == (None, None)


def test_a_second_up_uses_the_engine_that_runs_and_down_still_ends_it(settings):
    engine_service.up(settings, Silent())
    first = engine_service.status(settings).ours
    engine_service.up(settings, Silent())
    assert engine_service.status(settings).ours == first

    assert engine_service.down(settings, Silent())
    assert not engine_service.down(settings, Silent())


def test_an_engine_of_somebody_else_is_used_and_never_ended(settings, tmp_path):
    engine_service.up(settings, Silent())
    theirs = engine_service.status(settings).ours

    visitor = EngineSettings(folder=tmp_path / "visitor", host=settings.host, system=None)
    assert engine_service.up(visitor, Silent()).host == settings.host
    assert engine_service.status(visitor).ours is None
    assert not engine_service.down(visitor, Silent())
    assert service_process.is_running(theirs)


def test_an_engine_that_was_killed_is_started_again(settings):
    engine_service.up(settings, Silent())
    killed = engine_service.status(settings).ours
    os.kill(killed.pid, signal.SIGKILL)
    os.waitpid(killed.pid, 0)
    assert engine_service.status(settings).ours is None

    assert engine_service.up(settings, Silent()).containerd_store
    assert engine_service.status(settings).ours not in (None, killed)
    assert engine_service.down(settings, Silent())
    assert _processes_of(settings) == []


def test_an_engine_that_dies_at_once_shows_the_end_of_its_log(tmp_path_factory, bridge):
    wrong = {"storage-driver": "no-such-driver", "no-such-key": 1}
    settings = _private(tmp_path_factory.mktemp("e"), bridge=bridge, **wrong)
    with pytest.raises(EngineError) as caught:
        engine_service.up(settings, Silent())

    assert caught.value.message == "the engine was started and ended at once"
    assert any("no-such-key" in line for line in caught.value.details)
    assert str(settings.log) in caught.value.hint
    assert not settings.state.exists()
    assert _processes_of(settings) == []


def test_an_engine_that_does_not_answer_in_time_is_stopped_again(tmp_path_factory, bridge):
    folder = tmp_path_factory.mktemp("e")
    elsewhere = _private(folder, bridge=bridge, hosts=[f"unix://{folder}/run/other.sock"])
    settings = dataclasses.replace(elsewhere, start_seconds=5)
    with pytest.raises(EngineError, match="did not answer within 5 s"):
        engine_service.up(settings, Silent())

    assert _processes_of(settings) == []
    assert list((folder / "run").iterdir()) == []


def test_the_daemon_json_of_the_machine_is_used_as_it_is(tmp_path_factory, bridge):
    folder = tmp_path_factory.mktemp("e")
    private = _private(folder, bridge=bridge)
    theirs = folder / "daemon.json"
    content = json.dumps(dict(private.configuration) | {"labels": ["from=the-machine"]})
    theirs.write_text(content)
    settings = EngineSettings(folder=private.folder, host=private.host, system=theirs)
    try:
        engine = engine_service.up(settings, Silent())
        asked = client.connect(settings.host)
        assert asked.info()["Labels"] == ["from=the-machine"]
        asked.close()
        assert not engine.containerd_store
        assert theirs.read_text() == content
        assert not (settings.folder / "daemon.json").exists()
    finally:
        engine_service.down(settings, Silent())
    assert list((folder / "run").iterdir()) == []


def test_a_broken_daemon_json_of_the_machine_is_named(tmp_path):
    theirs = tmp_path / "daemon.json"
    theirs.write_text("{")
    settings = EngineSettings(folder=tmp_path / "state", host=f"unix://{tmp_path}/d.sock", system=theirs)
    with pytest.raises(EngineError) as caught:
        engine_service.up(settings, Silent())
    assert caught.value.message.startswith(f"{theirs}: ")
    assert theirs.read_text() == "{"


def test_an_engine_that_does_not_react_is_killed_with_its_containerd_and_its_files_removed(settings):
    engine_service.up(settings, Silent())
    os.kill(engine_service.status(settings).ours.pid, signal.SIGSTOP)
    impatient = dataclasses.replace(settings, stop_seconds=1)

    assert engine_service.down(impatient, Silent())
    assert _processes_of(settings) == []
    assert list((settings.folder.parent / "run").iterdir()) == []


def test_an_interrupt_while_the_engine_starts_ends_it_again(settings):
    class Interrupting(Silent):
        """Presses Ctrl-C as soon as a process is recorded."""

        def step(self, text):
            return self

        def __enter__(self):
            self._timer = threading.Thread(target=self._press)
            self._timer.start()

        def __exit__(self, *_):
            self._timer.join()

        def _press(self):
            while not settings.state.exists():
                time.sleep(0.01)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        engine_service.up(settings, Interrupting())

    assert _processes_of(settings) == []
    assert not settings.state.exists()
    assert list((settings.folder.parent / "run").iterdir()) == []
