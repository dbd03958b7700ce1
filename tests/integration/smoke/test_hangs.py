"""What does not end is ended: by its own limit, by the test's, or with its container. It fails; nothing stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from builder.engine import containers
from builder.engine.commands import run_to_end
from builder.errors import SmokeError
from builder.smoke import probing
from builder.smoke.contract import Contract
from builder.smoke.findings import Unfit
from builder.smoke.probing import Probing
from builder.smoke.run import require_passed

from .conftest import Run, failed

pytestmark = pytest.mark.engine

Only = Callable[..., Contract]
OWN = '''
import pytest

@pytest.mark.limit(3)
def test_a_server_answers(host):
    """Nobody would be served."""
    host.run("sleep 600")

def test_the_next_one_runs(fresh_host):
    """Nothing would be known of it."""
    assert fresh_host.run("true").rc == 0
'''


def test_a_test_that_hangs_fails_by_name_and_the_next_one_runs(
    smoke: Run, image: str, only: Only, tmp_path: Path, ours: object
) -> None:
    own = tmp_path / "tests"
    own.mkdir()
    (own / "test_server.py").write_text(OWN, encoding="utf-8")
    report = smoke(image, only(), extra_tests=own)
    hung = failed(report, "a server answers")
    assert hung.finding is not None
    assert hung.finding.cause == "the test did not end within 3 s"
    assert hung.seconds >= 3
    assert {test.title for test in report.tests if test.outcome == "passed"} >= {"the next one runs"}
    with pytest.raises(SmokeError) as raised:
        require_passed(report)
    assert raised.value.exit_code == 6
    assert raised.value.message == (
        "sglang-debian: smoke test 'a server answers' failed: the test did not end within 3 s"
    )


def test_a_probe_that_hangs_ends_itself_and_shows_where(image: str, only: Only, ours: object) -> None:
    tests = Probing(image, only(), "hangs")
    with tests.start() as started, pytest.raises(Unfit) as raised:
        tests.probe_in(started)("extension_loader", loader="time:sleep(600)", writable=["/tmp"], limit_seconds=2)
    found = raised.value.finding
    assert found.cause == "the probe extension_loader did not end in time: it had 2 s"
    assert any("extension_loader" in line for line in found.details)


def test_a_probe_that_does_not_even_run_is_ended_with_its_container(
    image: str, only: Only, ours: object, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_KILL_SECONDS", 3.0)
    tests = Probing(image, only(), "hangs")
    with tests.start() as started:
        container = client.containers.get(started.name)

        def stop() -> None:
            while not any("-c" in row[-1] for row in container.top()["Processes"] or []):
                time.sleep(0.1)
            container.pause()

        stopper = threading.Thread(target=stop, daemon=True)
        stopper.start()
        with pytest.raises(Unfit) as raised:
            tests.probe_in(started)(
                "extension_loader", loader="time:sleep(600)", writable=["/tmp"], limit_seconds=4
            )
        stopper.join(timeout=30)
    assert raised.value.finding.cause == "the probe extension_loader did not end in time: it had 4 s"
    assert containers.state(started.name) is None


def test_a_command_that_does_not_end_is_ended(image: str, only: Only, ours: object) -> None:
    owner = containers.Identity(uid=1000, gid=1000)
    ended = run_to_end(
        image, run="hangs", entrypoint=[], command=["sh", "-c", "echo waiting; exec sleep 600"], owner=owner,
        writable=("/tmp",), limit_seconds=2,
    )  # fmt: skip
    assert (ended.status, ended.lines) == (None, ("waiting",))
    assert ended.seconds >= 2


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["sh", "-c", "echo told; exit 3"], 3, "told"),
        (["no-such-server"], 127, "no-such-server"),
        (["id", "-u"], 0, "1000"),
    ],
    ids=["fails", "not there", "its own user"],
)
def test_a_command_tells_status_and_last_lines(
    command: list[str], status: int, said: str, image: str, ours: object
) -> None:
    owner = containers.Identity(uid=1000, gid=1000)
    ended = run_to_end(image, run="ends", entrypoint=[], command=command, owner=owner, limit_seconds=60)
    assert ended.status == status
    assert said in ended.lines[-1]
