"""`rocm-images inspect --gfx` on real images: in the engine, in a registry without an engine, in a layout."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builder import process

from ..conftest import MakeProject
from ..project import Ended, Project
from .conftest import Compiler

pytestmark = [pytest.mark.engine, pytest.mark.network]

# What a later step takes away, replaces, or puts where a folder was, as real tools leave it in layers.
STEPS = """\
FROM {base}
COPY kept.so gone.so old.so /opt/
COPY gone.so /opt/folder/
COPY gone.so /opt/emptied/
RUN rm /opt/gone.so && rm -r /opt/folder && rm -r /opt/emptied && mkdir /opt/emptied
COPY new.so /opt/old.so
RUN ln /opt/kept.so /opt/linked.so && ln -s kept.so /opt/symbolic.so && echo text > /opt/folder
LABEL rocm-images.gfx=gfx1201,gfx942
"""


@pytest.fixture(scope="module")
def layered(
    hipcc_7: Compiler, namespace: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A published image of several layers, still in the engine."""
    context = tmp_path_factory.mktemp("context")
    for name, targets in (("kept", ["gfx1201", "gfx942"]), ("old", ["gfx90a"]), ("new", ["gfx1201"]),
                          ("gone", ["gfx1100"])):  # fmt: skip
        hipcc_7.hipcc(f"{name}.so", targets, "-fPIC", "-shared")
        (context / f"{name}.so").write_bytes((hipcc_7.out / f"{name}.so").read_bytes())
    (context / "Dockerfile").write_text(STEPS.format(base=hipcc_7.image))
    reference = f"{namespace()}/layered:1"
    try:
        for words in (
            ["build", "--quiet", "--network", "none", "--tag", reference, context],
            ["push", "-q", reference],
        ):
            done = process.run(["docker", *words])
            assert done.status == 0, done.stderr
        yield reference
    finally:
        process.run(["docker", "image", "rm", "--force", reference])


def audited(ended: Ended) -> dict[str, Any]:
    """Return what the command wrote, without the name of what was asked for."""
    table: dict[str, Any] = json.loads(ended.stdout)
    del table["subject"]
    return table


def test_an_image_is_the_same_in_engine_registry_and_layout(
    layered: str, project: Project, tmp_path: Path
) -> None:
    here = project.run("inspect", layered, "--gfx", "--json")
    assert here.status == 6
    parts = [part for component in audited(here)["components"] for part in component["parts"]]
    assert {part["path"]: [each["target"] for each in part["targets"]] for part in parts} == {
        "opt/kept.so": ["gfx942", "gfx1201"],
        "opt/linked.so": ["gfx942", "gfx1201"],
        "opt/old.so": ["gfx1201"],
    }
    assert "opt/old.so lacks gfx942" in here.stderr

    remote = project.run("inspect", layered, "--gfx", "--json", env={"DOCKER_HOST": f"unix://{tmp_path}/none"})
    assert (remote.status, audited(remote)) == (6, audited(here))
    assert "reading layer 1 of" in remote.stderr

    archive, layout = tmp_path / "image.tar", tmp_path / "layout"
    saved = process.run(["docker", "save", "--output", archive, layered])
    assert saved.status == 0, saved.stderr
    with tarfile.open(archive) as opened:
        opened.extractall(layout)  # engines write layouts since version 25
    if (layout / "oci-layout").exists():
        lying = project.run("inspect", str(layout), "--gfx", "--json")
        assert (lying.status, audited(lying)) == (6, audited(here))
    assert list(project.scratch.iterdir()) == []


def test_the_shipped_image_has_what_it_promises(sglang_debian: tuple[Project, Ended], make: MakeProject) -> None:
    project, built = sglang_debian
    anywhere = make()
    reference = built.result
    told = anywhere.run("inspect", reference, "--gfx", "--json", env={"DOCKER_HOST": "unix:///nowhere"})
    assert told.status == 0, told.stderr
    table = audited(told)
    assert (table["wanted"], table["passed"], table["unread"]) == (["gfx1100"], True, [])
    assert [(component["name"], component["judged"]) for component in table["components"]] == [("gfx-probe", True)]
    assert [each["target"] for each in table["components"][0]["targets"]] == ["gfx1100"]

    lacking = project.run("inspect", "sglang-debian", "--gfx", "--want", "gfx1100,gfx1201")
    assert lacking.status == 6
    assert "gfx-probe: usr/local/bin/gfx-probe lacks gfx1201" in lacking.stderr
