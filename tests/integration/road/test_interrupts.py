"""Interrupted at any moment, a run leaves nothing behind, publishes nothing, and the next one succeeds."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import docker
import pytest

from builder.engine.containers import RUN_LABEL
from builder.project import LOCAL

from ..project import Project
from .conftest import Tiny
from .moments import (
    Stage,
    a_layer_is_pushed,
    a_smoke_test_runs,
    a_step_is_built,
    apt_resolves,
    build_words,
    packages_are_fetched,
    the_base_is_bootstrapped,
    the_tag_is_pushed,
    until,
    uv_resolves,
)

pytestmark = pytest.mark.engine

# What a run may have written of its results by then; the pin and the state of the build are not among it.
WHOLE = {"build.log", "report.html", "smoke.json", "smoke.xml", "smoke.log", "state.json"}


@pytest.fixture(scope="module", autouse=True)
def meanwhile(request: pytest.FixtureRequest) -> None:
    """Have the long rebuild under way, where it is asked for: these tests mostly wait."""
    if any("rebuild" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("rebuild")


@pytest.mark.parametrize(
    ("moment", "number", "whom"),
    [
        (apt_resolves, signal.SIGINT, "process"),
        (uv_resolves, signal.SIGINT, "process"),
        (packages_are_fetched, signal.SIGINT, "process"),
        (the_base_is_bootstrapped, signal.SIGINT, "process"),
        (a_step_is_built, signal.SIGINT, "process"),
        (a_step_is_built, signal.SIGINT, "group"),
        (a_step_is_built, signal.SIGTERM, "process"),
        (a_smoke_test_runs, signal.SIGINT, "process"),
        (a_layer_is_pushed, signal.SIGINT, "process"),
        (the_tag_is_pushed, signal.SIGINT, "process"),
    ],
    ids=lambda each: each if isinstance(each, str) else getattr(each, "__name__", None) or each.name,
)
def test_an_interrupt_leaves_nothing_and_the_next_run_succeeds(
    moment: Stage, number: signal.Signals, whom: str, tiny: Tiny, store: Path, engine: docker.DockerClient
) -> None:
    def slow(recipe: dict[str, Any]) -> None:
        if moment is a_step_is_built:
            recipe["component"][1]["build"].insert(0, "sleep 5")

    # A layer that no repository of the registry has yet: one that it has is not sent again.
    fresh = moment in (a_step_is_built, a_layer_is_pushed)
    own = {packages_are_fetched: ("store",), the_base_is_bootstrapped: ("bases",)}.get(moment, ())
    project = tiny(slow, fresh=fresh, own=own)
    lock = project.workspace.lock("tiny")
    if moment is apt_resolves:
        lock.unlink()
    locked = lock.read_bytes() if lock.exists() else None
    with moment(project, store=store) as at:
        run = project.start(*at.words)
        until(lambda: at.reached(run) or run.process.poll() is not None)
        assert run.process.poll() is None, run.said
        assert started_by(project)
        if whom == "group":  # as a terminal does it
            os.killpg(run.process.pid, number)
        else:
            run.process.send_signal(number)
        ended = run.wait()

        assert ended.status == 130, ended.stderr
        assert ended.stdout == ""
        assert "interrupted; nothing was pinned" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert started_by(project) == {}
        assert containers_of(project, engine) == []
        assert mounts_below(project.folder) == []
        assert list(project.scratch.iterdir()) == []
        assert {path.name for path in (project.workspace.dist / "tiny").glob("*")} <= WHOLE
        assert (lock.read_bytes() if lock.exists() else None) == locked
        left = project.files()

        at.go_on()
        assert project.tags("tiny") == []
        if at.words[0] == "lock":
            project.done(*at.words)
        again = project.done(*build_words(project))
    assert again.result.startswith(f"{project.publish}/tiny:26.4-")
    assert list(project.scratch.iterdir()) == []
    # What the interrupted run left are whole files, which the finished one has as well.
    assert left - project.files() <= {"mirrors.toml"}


def started_by(project: Project) -> dict[int, str]:
    """Return the processes of a run, and their words: they have this project's TMPDIR, or their root is in it."""
    wanted = f"TMPDIR={project.scratch}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                within = (entry / "root").readlink().is_relative_to(project.scratch)
                if within or wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def containers_of(project: Project, engine: docker.DockerClient) -> list[str]:
    """Return the containers of smoke runs of this project's images."""
    own = tuple(f"{LOCAL}/{path.name}:" for path in project.workspace.images.iterdir())
    ids = {
        image["Id"]
        for image in engine.api.images()
        if any(name.startswith(own) for name in image["RepoTags"] or ())
    }
    found = engine.api.containers(all=True, filters={"label": RUN_LABEL})
    return [entry["Names"][0] for entry in found if entry["ImageID"] in ids]


def mounts_below(folder: Path) -> list[str]:
    places = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [str(place) for place in places if place.is_relative_to(folder)]
