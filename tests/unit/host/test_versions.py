from __future__ import annotations

import pytest

from builder.engine import client
from builder.engine.client import EngineInfo
from builder.errors import EngineError


def _engine(version: str, buildx: str | None) -> EngineInfo:
    return EngineInfo(
        host="unix:///run/e.sock", version=version, containerd_store=False, data_root="/d", server_os="linux",
        arch="amd64", buildx_version=buildx, driver="docker",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "buildx"), [("26.1.5+dfsg1", "0.13.1+ds1"), ("23.0.0", "0.13.0"), ("28.2.2", "0.24.0-desktop.2")]
)
def test_an_engine_and_a_plugin_that_are_new_enough_are_usable(version, buildx):
    client.require_usable(_engine(version, buildx))


@pytest.mark.parametrize(
    ("version", "buildx", "message"),
    [
        (
            "20.10.24+dfsg1",
            "0.13.1",
            "the engine at unix:///run/e.sock is 20.10.24+dfsg1, at least 23.0 is needed",
        ),
        ("26.1.5", None, "docker has no buildx plugin on this machine"),
        ("26.1.5", "0.12.1", "docker's buildx plugin is 0.12.1, at least 0.13 is needed"),
    ],
)
def test_what_is_too_old_or_missing_is_named(version, buildx, message):
    with pytest.raises(EngineError) as caught:
        client.require_usable(_engine(version, buildx))
    assert caught.value.message == message
    assert caught.value.hint is not None


def test_an_address_where_nothing_listens_is_named_with_the_remedy(tmp_path):
    with pytest.raises(EngineError) as caught:
        client.connect(f"unix://{tmp_path}/none.sock")
    assert caught.value.message == f"no container engine answers at unix://{tmp_path}/none.sock"
    assert caught.value.hint == "rocm-images engine up --install"
    assert caught.value.details == ("[Errno 2] No such file or directory",)


def test_docker_host_is_where_the_engine_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/mine.sock")
    with pytest.raises(EngineError, match=r"mine\.sock"):
        client.info()


def test_a_docker_context_that_does_not_exist_is_an_error_and_not_the_default_engine(monkeypatch):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONTEXT", "no-such-context")
    with pytest.raises(EngineError) as caught:
        client.info()
    assert caught.value.message == "there is no docker context 'no-such-context'"
