"""The gpu tier where there is no card: told as not run, it can be required, and its probes say what they lack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from builder.engine import cards, containers
from builder.engine.cards import Card
from builder.errors import SmokeError
from builder.smoke.contract import Contract
from builder.smoke.findings import Unfit
from builder.smoke.probing import Probing
from builder.smoke.run import require_passed

from .conftest import Run

pytestmark = pytest.mark.engine
no_card = pytest.mark.skipif(not isinstance(cards.card(), str), reason="about machines without a card")

Only = Callable[..., Contract]
TIER = {
    "the cards are there and are those of the recipe", "the cards have names",
    "a hip kernel computes on the card", "a triton kernel computes on the card",
    "a matrix product of the card is that of the processor", "the engine starts on the model and answers",
}  # fmt: skip
SERVER = """
import http.server, json, sys
class Engine(http.server.BaseHTTPRequestHandler):
    def _say(self, table):
        data = json.dumps(table).encode()
        self.send_response(int(sys.argv[2])); self.end_headers(); self.wfile.write(data)
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print("error: out of memory" if sys.argv[2] != "200" else "well", flush=True)
        self._say({"choices": [{"text": asked["prompt"][-6:] + " is Paris" if sys.argv[3] == "well" else ""}]})
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Engine).serve_forever()
"""


@pytest.fixture
def probing(image: str, sound: Contract, ours: object) -> Probing:
    return Probing(image, sound, "gputier")


@pytest.fixture
def ask(probing: Probing) -> Callable[..., dict[str, Any]]:
    def asked(name: str, **arguments: Any) -> dict[str, Any]:
        return probing.probe_alone(name, arguments)

    return asked


@no_card
def test_without_a_card_every_test_of_the_tier_is_told_as_not_run_with_the_reason(
    smoke: Run, image: str, only: Only, tmp_path: Path, ours: object
) -> None:
    why = cards.card()
    assert why == "this machine has no /dev/kfd: it has no AMD GPU, or the driver amdgpu is not loaded"
    report = smoke(image, only("hipcc", "triton", engine="sglang", hip_gfx=(), triton_gfx=()), card=why)
    told = [test for test in report.tests if test.tier == "gpu"]
    assert {test.title for test in told} == TIER
    for test in told:
        assert (test.outcome, test.seconds) == ("not run", 0.0)
        assert test.finding is not None
        assert test.finding.cause == why
        assert test.hint
    assert report.tiers["gpu"] == "not run"
    suite = ElementTree.parse(tmp_path / "results/smoke.xml").getroot()[0]
    skipped = [
        case for case in suite if (found := case.find("skipped")) is not None and found.get("message") == why
    ]
    assert len(skipped) == len(TIER)
    require_passed(report)
    with pytest.raises(SmokeError) as raised:
        require_passed(report, tiers=("gpu",))
    assert raised.value.exit_code == 6
    assert raised.value.message == (
        f"sglang-debian: the gpu tier of the smoke tests is required and was not run: {why}"
    )
    assert raised.value.hint == "rocm-images doctor --gpu; or leave out --require gpu"


@no_card
def test_a_contract_without_devices_to_hand_in_fails_and_does_not_pass(
    smoke: Run, image: str, only: Only, ours: object
) -> None:
    """A tier that was asked to run and finds no card has failed."""
    report = smoke(image, only(), card=Card(devices=(), groups=("44",)))
    assert report.tiers["gpu"] == "failed"
    first = next(test for test in report.tests if test.title == "the cards are there and are those of the recipe")
    assert first.finding is not None
    assert first.finding.cause.startswith("the HIP runtime ")
    model = next(test for test in report.tests if test.tier == "gpu" and test.outcome == "not run")
    assert model.finding is not None
    assert model.finding.cause == "no folder with a model was given; give one with --model"


@no_card
def test_devices_that_the_engine_cannot_hand_in_are_an_error_that_names_them(
    probing: Probing,
) -> None:
    probing.card = Card(devices=("/dev/kfd",), groups=("44",))
    with pytest.raises(Exception, match="/dev/kfd"):
        probing.probe_alone("gpu_devices", {"card": True})


def test_a_card_s_groups_and_model_reach_the_container(probing: Probing, tmp_path: Path, client: Any) -> None:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)  # a model is read by the image's user
    (tmp_path / "config.json").write_text("{}")
    probing.card = Card(devices=("/dev/null",), groups=("44", "107"), model=str(tmp_path))
    with probing.start(card=True) as started:
        host = client.containers.get(started.name).attrs["HostConfig"]
        assert [each["PathOnHost"] for each in host["Devices"]] == ["/dev/null"]
        assert host["GroupAdd"] == ["44", "107"]
        assert [(mount["Source"], mount["RW"]) for mount in client.containers.get(started.name).attrs["Mounts"]
                if mount["Destination"] == "/model"] == [(str(tmp_path), False)]  # fmt: skip
        ids = client.containers.get(started.name).exec_run(["id", "-G"]).output.decode().split()
        assert {"44", "107"} <= set(ids)
        assert client.containers.get(started.name).exec_run(["cat", "/model/config.json"]).output == b"{}"
    with probing.start() as without:
        assert not client.containers.get(without.name).attrs["HostConfig"]["Devices"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("matmul", "torch 2.6.0+debian is no HIP build"),
        ("triton", "torch 2.6.0+debian is no HIP build"),
        ("nothing", "there is nothing called nothing to compute"),
    ],
)
def test_a_computation_says_what_it_lacks(what: str, said: str, ask: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(Unfit) as raised:
        ask("gpu_compute", what=what, targets=["gfx1100"], writable=["/tmp"])
    assert raised.value.finding.cause == said


@no_card
def test_a_hip_program_is_compiled_and_says_that_there_is_no_card(ask: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(Unfit) as raised:
        ask("gpu_compute", what="hip", targets=["gfx1100"], writable=["/tmp"])
    cause = raised.value.finding.cause
    assert cause.startswith("a HIP program ended with status 2: hipMalloc(&device, count * sizeof(float)): ")


def serving(port: int, status: int = 200, how: str = "well") -> dict[str, Any]:
    return {
        "argv": ["python3", "-c", SERVER, str(port), str(status), how], "port": port, "model": "/tmp",
        "start_seconds": 60.0, "answer_seconds": 60.0,
    }  # fmt: skip


@pytest.fixture
def engine(probing: Probing) -> Iterator[Callable[..., dict[str, Any]]]:
    """Run the probe that starts an engine, in one container that has a model's configuration."""
    with probing.start() as started:
        box = probing.probe_in(started)
        with pytest.raises(Unfit, match="/tmp holds no model"):
            box("gpu_engine", **serving(30010))
        done = containers.output(started.name, ["sh", "-c", "echo '{}' > /tmp/config.json"])
        assert b"".join(done) == b""
        yield lambda **arguments: box("gpu_engine", **arguments)


def test_an_engine_is_started_asked_once_and_stopped(engine: Callable[..., dict[str, Any]]) -> None:
    found = engine(**serving(30011))
    assert found["text"] == "nce is is Paris"
    assert json.dumps(found)
    # The port is free again: the first server is gone.
    assert engine(**serving(30011))["text"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": 500}, "the engine answered a request with status 500"),
        ({"how": "empty"}, "the engine answered a request with an empty text"),
    ],
)
def test_an_engine_that_answers_badly_fails(
    changes: dict[str, Any], said: str, engine: Callable[..., dict[str, Any]]
) -> None:
    with pytest.raises(Unfit) as raised:
        engine(**serving(30012, **changes))
    assert raised.value.finding.cause.startswith(said)


def test_an_engine_that_dies_or_never_is_ready_fails_with_its_last_words(
    engine: Callable[..., dict[str, Any]],
) -> None:
    dies = serving(30013) | {"argv": ["python3", "-c", "raise SystemExit('no such model')"]}
    with pytest.raises(Unfit, match="python3 ended with status 1 before it was ready: no such model"):
        engine(**dies)
    sleeps = serving(30013) | {"argv": ["sh", "-c", "echo loading; exec sleep 60"], "start_seconds": 2.0}
    with pytest.raises(Unfit, match="the engine was not ready in time: loading"):
        engine(**sleeps)
