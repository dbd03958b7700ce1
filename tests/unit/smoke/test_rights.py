"""Who containers of the tests run as, and with which rights: none but those that an engine gives anyway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from builder.engine import containers
from builder.errors import EngineError
from builder.smoke.contract import Contract
from builder.smoke.probing import COMMAND, NAMELESS, NAMELESS_IN_A_RANGE, Probing, for_user

from .engine import Engine, answering

CONTRACT = Contract(image="x", user="1000:1000")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with answering() as running:
        monkeypatch.setenv("DOCKER_HOST", running.url)
        monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
        yield running


@pytest.mark.parametrize("options", [None, [], ["name=seccomp,profile=builtin", "name=cgroupns"]])
def test_an_engine_with_every_id_runs_the_user_that_clusters_make_up(
    engine: Engine, options: list[str] | None
) -> None:
    engine.options = options
    assert not containers.ids_are_of_a_range()
    assert Probing("x", CONTRACT, "run").nameless == NAMELESS


@pytest.mark.parametrize("option", ["name=rootless", "name=userns"])
def test_an_engine_whose_ids_are_of_a_range_runs_a_user_of_that_range(engine: Engine, option: str) -> None:
    engine.options = ["name=seccomp,profile=builtin", option]
    assert containers.ids_are_of_a_range()
    nameless = Probing("x", CONTRACT, "run").nameless
    assert nameless == NAMELESS_IN_A_RANGE
    assert nameless.uid < 65536  # of which a range has that many, as useradd gives them
    assert (nameless.gid, nameless.name, nameless.home) == (NAMELESS.gid, None, None)


def test_an_engine_that_is_gone_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(EngineError, match="no container engine answers at"):
        _ = Probing("x", CONTRACT, "run").nameless


@pytest.mark.parametrize("user", [NAMELESS, NAMELESS_IN_A_RANGE])
def test_what_failed_for_another_user_is_looked_at_as_that_user(user: containers.Identity) -> None:
    assert for_user(CONTRACT, user).user == f"{user.uid}:0"
    assert for_user(CONTRACT, containers.Identity(uid=1000, gid=1000)) == CONTRACT


NOTHING_MORE = (
    "Privileged",
    "CapAdd",
    "SecurityOpt",
    "PidMode",
    "IpcMode",
    "UTSMode",
    "UsernsMode",
    "Binds",
    "Devices",
)


@pytest.mark.parametrize("nameless", [False, True])
def test_a_container_is_asked_for_without_network_rights_or_folders(engine: Engine, *, nameless: bool) -> None:
    probing = Probing("x", replace(CONTRACT, writable=("/tmp",)), "run")
    with pytest.raises(EngineError, match="no such image"), probing.start(nameless=nameless):
        pass
    with pytest.raises(EngineError, match="refuses"):
        probing.probe_alone(COMMAND, {"command": ["true"], "entrypoint": None, "nameless": nameless})
    user = NAMELESS if nameless else containers.Identity(uid=1000, gid=1000)
    assert len(engine.asked) == 2
    for asked in engine.asked:
        host = asked["HostConfig"]
        assert {name: host[name] for name in NOTHING_MORE if host.get(name)} == {}
        assert host["NetworkMode"] == "none"
        assert host["ReadonlyRootfs"] is True
        assert host["Tmpfs"] == {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,uid={user.uid},gid={user.gid}"}
        assert asked.get("User") == (f"{NAMELESS.uid}:0" if nameless else None)  # as the image says
