"""Interrupted at any moment, a run leaves nothing behind, publishes nothing, and the next one succeeds."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import docker
import pytest

from .conftest import Tiny
from .leftovers import containers_of, mounts_below, mounts_seen_by, started_by
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
WHOLE = {"build.log", "durations.json", "report.html", "smoke.json", "smoke.xml", "smoke.log", "state.json"}


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


def test_what_a_bootstrap_mounts_ends_with_it_also_when_the_run_is_killed(tiny: Tiny, store: Path) -> None:
    def mounted() -> list[str]:
        return [place for pid in started_by(project) for place in mounts_seen_by(pid, project.folder)]

    project = tiny(own=("bases",))
    with the_base_is_bootstrapped(project, store=store) as at:
        run = project.start(*at.words)
        until(lambda: bool(mounted()) or run.process.poll() is not None)
        assert run.process.poll() is None, run.said
        assert mounts_below(project.folder) == []
        run.process.kill()
        run.wait()
        until(lambda: started_by(project) == {})
    assert mounts_below(project.folder) == []
    project.done(*build_words(project))
