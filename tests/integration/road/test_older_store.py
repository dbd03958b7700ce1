"""The whole road on an engine with the older image store, which knows no manifest before an image is pushed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.engine.client import connect
from builder.host import engine_service
from builder.host.engine_service import EngineSettings
from builder.reference import parse_place
from builder.registries.layouts import Layout
from builder.story import Silent

from .conftest import Tiny

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an engine"),
]


@pytest.fixture
def older(bridge: str) -> Iterator[str]:
    """The address of an engine of the test's own with the older store."""
    folder = Path(tempfile.mkdtemp(prefix="rit."))  # a socket's path may have 107 bytes
    address = f"unix://{folder}/docker.sock"
    settings = EngineSettings(
        folder=folder / "state", host=address, system=None,
        configuration={
            "hosts": [address], "pidfile": f"{folder}/docker.pid", "data-root": f"{folder}/data",
            "exec-root": f"{folder}/exec", "bridge": bridge, "iptables": False, "ip6tables": False,
            "features": {"containerd-snapshotter": False},
        },
    )  # fmt: skip
    try:
        assert not engine_service.up(settings, Silent()).containerd_store
        yield address
    finally:
        engine_service.down(settings, Silent())
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if Path(line.split()[4]).is_relative_to(folder):
                subprocess.run(["umount", line.split()[4]], check=True)
        shutil.rmtree(folder)


def test_the_pinned_digest_is_the_registrys_and_a_second_run_skips(older: str, tiny: Tiny) -> None:
    project = tiny()
    project.env["DOCKER_HOST"] = older
    first = project.build("tiny")
    assert first.status == 0, first.stderr
    name, _, digest = first.result.partition("@")
    tag = name.rpartition(":")[2]
    assert first.stdout == f"{project.publish}/tiny:{tag}@{digest}\n"
    served = project.served("tiny", tag)
    assert served.headers["Docker-Content-Digest"] == digest
    pin = json.loads(project.workspace.pin("tiny").read_text())
    assert pin["digest"] == digest
    assert [(layer["digest"], layer["size"]) for layer in pin["layers"]] == [
        (layer["digest"], layer["size"]) for layer in served.json()["layers"]
    ]
    assert {"base", "packages", "packaging", "marker", "manifest"} <= {layer["owner"] for layer in pin["layers"]}
    # What was tested is what is served: the older store calls an image by its configuration.
    client = connect(older)
    assert client.images.get(f"rocm-images.local/tiny:{tag}").id == served.json()["config"]["digest"]
    client.close()

    again = project.build("tiny")
    assert again.status == 0, again.stderr
    assert again.stdout == first.stdout
    assert "tiny: skip - " in again.stderr

    # It has layers unpacked alone: what a node would pull is not known there, and whose they are is.
    told = json.loads(project.done("inspect", "tiny", "--json").stdout)
    assert (told["read-from"], told["digest"], told["size"]) == ("engine", None, None)
    assert [(each["owner"], each["size"]) for each in told["layers"]] == [
        (layer["owner"], None) for layer in pin["layers"]
    ]
    assert [each["name"] for each in told["components"]] == [each["name"] for each in pin["components"]]


def test_a_layout_gets_a_digest_of_its_own_over_the_tested_configuration(older: str, tiny: Tiny) -> None:
    project = tiny()
    project.env["DOCKER_HOST"] = older
    first = project.run("build", "tiny", "--publish", "oci:out")
    assert first.status == 0, first.stderr
    place = parse_place(first.result)
    layout = Layout(project.folder / "out/tiny")
    served = layout.standing(str(place.tag))
    assert served is not None
    assert (str(served.digest), json.loads(project.workspace.pin("tiny").read_text())["digest"]) == (
        str(place.digest), str(place.digest),
    )  # fmt: skip
    config = json.loads(served.content)["config"]["digest"]
    client = connect(older)
    name = f"rocm-images.local/tiny:{place.tag}"
    assert client.images.get(name).id == config
    again = project.run("build", "tiny", "--publish", "oci:out")
    assert again.stdout == first.stdout
    assert "tiny: skip - " in again.stderr

    # What is loaded from it has the layers of what was tested.
    client.images.remove(name, force=True)
    (project.workspace.dist / "tiny/state.json").unlink()
    project.workspace.pin("tiny").unlink()
    loaded = project.run("build", "tiny", "--publish", "oci:out")
    assert loaded.status == 0, loaded.stderr
    assert "==> loading oci:out/tiny@" in loaded.stderr
    assert loaded.stdout == first.stdout
    assert client.images.get(name).id == config
    client.close()
