"""Debian's registry, really started, on ports of the test's own."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests

from builder.errors import EngineError
from builder.host import registry_service, service_process
from builder.host.registry_service import RegistrySettings
from builder.story import Silent

pytestmark = pytest.mark.engine

FIRST_PORT = 15400


class Heard:
    """A story that keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    step = Silent.step

    def note(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def settings(tmp_path) -> Iterator[RegistrySettings]:
    settings = RegistrySettings(folder=tmp_path / "state", port=FIRST_PORT)
    yield settings
    registry_service.down(settings, Silent())


def _put_blob(address: str) -> str:
    """Upload one blob and return its address."""
    digest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of b"hello"
    begun = requests.post(f"http://{address}/v2/a/b/blobs/uploads/", timeout=10)
    place = begun.headers["Location"]
    done = requests.put(place, params={"digest": digest}, data=b"hello", timeout=10)
    assert done.status_code == 201, done.text
    return f"http://{address}/v2/a/b/blobs/{digest}"


def test_a_registry_starts_on_loopback_keeps_its_data_and_stops_without_a_trace(settings):
    address = registry_service.up(settings, Silent())
    host, port = address.split(":")
    assert host == "127.0.0.1"
    status = registry_service.status(settings)
    assert (status.address, status.answers) == (address, True)
    blob = _put_blob(address)
    with pytest.raises(ConnectionRefusedError):  # another of this machine's own addresses, but not the one it has
        socket.create_connection(("127.0.0.2", int(port)), timeout=5).close()

    assert registry_service.down(settings, Silent())
    assert not service_process.is_running(status.process)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5).close()
    assert not registry_service.down(settings, Silent())

    assert registry_service.up(settings, Silent()) == address
    assert requests.get(blob, timeout=10).content == b"hello"
    assert requests.delete(blob, timeout=10).status_code == 202


def test_a_registry_that_runs_is_used_again(settings):
    first = registry_service.up(settings, Silent())
    process = registry_service.status(settings).process
    assert registry_service.up(settings, Silent()) == first
    assert registry_service.status(settings).process == process


def test_a_taken_port_is_left_to_its_owner_and_the_next_one_is_remembered(settings):
    with socket.create_server(("127.0.0.1", FIRST_PORT)) as _owner:
        heard = Heard()
        address = registry_service.up(settings, heard)
        assert address != f"127.0.0.1:{FIRST_PORT}"
        assert heard.warnings == [
            f"port {FIRST_PORT} is taken by another program; the embedded registry uses {address.split(':')[1]}"
        ]
        registry_service.down(settings, Silent())

    # The first port is free by now, but what was published names the other one.
    assert registry_service.up(settings, Silent()) == address


def test_another_registry_on_the_remembered_port_is_neither_used_nor_ended(settings, tmp_path):
    address = registry_service.up(settings, Silent())
    registry_service.down(settings, Silent())
    theirs = RegistrySettings(folder=tmp_path / "theirs", port=int(address.split(":")[1]))
    assert registry_service.up(theirs, Silent()) == address
    try:
        assert registry_service.up(settings, Heard()) != address
        registry_service.down(settings, Silent())
        assert registry_service.status(theirs).answers
    finally:
        registry_service.down(theirs, Silent())


def test_a_program_that_answers_like_a_registry_does_not_pass_for_ours(settings):
    registry_service.up(settings, Silent())
    process = registry_service.status(settings).process
    os.kill(process.pid, signal.SIGKILL)
    os.waitpid(process.pid, 0)

    class Impostor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", FIRST_PORT), Impostor) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert not registry_service.status(settings).answers
        assert registry_service.up(settings, Heard()) != f"127.0.0.1:{FIRST_PORT}"
        server.shutdown()


def test_a_process_that_got_the_recorded_id_later_is_not_ended(settings):
    registry_service.up(settings, Silent())
    state = service_process.read_state(settings.state)
    ours = service_process.recorded(state)
    earlier = service_process.ProcessMark(pid=ours.pid, started=ours.started - 1, boot=ours.boot)
    service_process.write_state(settings.state, {"port": state["port"], "stamp": state["stamp"]}, earlier)

    assert not registry_service.down(settings, Silent())
    assert service_process.is_running(ours)
    service_process.stop(ours, grace_seconds=10)


def test_a_registry_that_dies_shows_the_end_of_its_log_and_keeps_its_port(settings, tmp_path, monkeypatch):
    address = registry_service.up(settings, Silent())
    registry_service.down(settings, Silent())
    settings.log.write_text("an older line\n")
    broken = tmp_path / "bin" / "docker-registry"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:/usr/bin:/bin")

    with pytest.raises(EngineError) as caught:
        registry_service.up(settings, Silent())

    assert caught.value.message == "the embedded registry was started but does not answer"
    assert caught.value.details == ("error while loading shared libraries",)
    assert registry_service.status(settings).address == address


def test_a_data_folder_that_cannot_be_made_is_named(settings):
    settings.folder.mkdir()
    settings.data.write_text("a file where the folder belongs")
    with pytest.raises(EngineError, match=f"^{settings.data}: File exists$"):
        registry_service.up(settings, Silent())


def test_no_free_port_is_an_error_that_names_the_range(tmp_path):
    with socket.create_server(("127.0.0.1", FIRST_PORT + 50)) as _owner:
        settings = RegistrySettings(folder=tmp_path, port=FIRST_PORT + 50, ports_tried=1)
        with pytest.raises(EngineError, match=f"no port from {FIRST_PORT + 50} to {FIRST_PORT + 50} is free"):
            registry_service.up(settings, Silent())
