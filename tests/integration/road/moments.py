"""Runs that are known to be at a certain moment: each stage of the road, stopped or seen while it works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from builder.lockfile import parse_lock

from ..project import SAFETY_SECONDS, Project, Running
from .conftest import copy_objects
from .loopback import Gate, Relay, served


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A run that is about to come to a certain point. `reached` tells that it is there; `go_on` lets it pass.

    `cut` breaks the connection that the run waits for there, and every later one to that place.
    """

    words: tuple[str, ...]
    reached: Callable[[Running], bool]
    go_on: Callable[[], object] = lambda: None
    cut: Callable[[], object] = lambda: None


Stage = Callable[..., AbstractContextManager[Moment]]


def build_words(project: Project) -> tuple[str, ...]:
    return ("build", "tiny", "--publish", project.publish)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SAFETY_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def apt_resolves(project: Project, **_: object) -> Iterator[Moment]:
    gate = Gate()
    mirrors = project.workspace.root / "mirrors.toml"
    with served(lambda _: b"a release file, " * 100, gate=gate, at="InRelease") as address:
        mirrors.write_text(f'[debian]\nmirror = "{address}/debian"\n')
        reached = gate.reached.is_set
        yield Moment(words=("lock", "tiny"), reached=lambda _: reached(), go_on=mirrors.unlink, cut=gate.cut)


@contextmanager
def uv_resolves(project: Project, **_: object) -> Iterator[Moment]:
    gate = Gate()
    mirrors = project.workspace.root / "mirrors.toml"
    with served(lambda _: b"<html></html>", gate=gate, at="packaging") as address:
        mirrors.write_text(f'[indexes]\ndefault = "{address}/simple"\n')
        words = ("lock", "tiny", "--update", "packaging")
        yield Moment(words=words, reached=lambda _: gate.reached.is_set(), go_on=mirrors.unlink, cut=gate.cut)


@contextmanager
def packages_are_fetched(project: Project, *, store: Path, **_: object) -> Iterator[Moment]:
    lock = parse_lock(project.workspace.lock("tiny").read_text(), file="recipe.lock")
    copy_objects(store, project.workspace.store, {file.sha256 for file in lock.python})
    held = {f"/debian/{package.file}": package.sha256 for package in lock.deb}
    largest = max(lock.deb, key=lambda package: package.size)
    gate = Gate()

    def archive(path: str) -> bytes | None:
        sha256 = held.get(path)
        return (store / "sha256" / sha256[:2] / sha256).read_bytes() if sha256 else None

    def go_on() -> None:
        gate.lost.clear()
        gate.opened.set()

    with served(archive, gate=gate, at=largest.name) as address:
        (project.workspace.root / "mirrors.toml").write_text(f'[debian]\nmirror = "{address}/debian"\n')
        reached = gate.reached.is_set
        yield Moment(words=build_words(project), reached=lambda _: reached(), go_on=go_on, cut=gate.cut)


@contextmanager
def the_base_is_bootstrapped(project: Project, **_: object) -> Iterator[Moment]:
    # Its first packages are there, and the others are being installed with their help.
    yield Moment(
        words=build_words(project),
        reached=lambda _: any(project.scratch.glob("mmdebstrap.*/var/lib/dpkg/info/*")),
    )


@contextmanager
def a_step_is_built(project: Project, **_: object) -> Iterator[Moment]:
    yield Moment(
        words=build_words(project), reached=lambda run: "[component-marker] sh build-source.sh ..." in run.said
    )


@contextmanager
def a_smoke_test_runs(project: Project, **_: object) -> Iterator[Moment]:
    reached, hold = hold_smoke_test(project)
    yield Moment(words=build_words(project), reached=lambda _: reached.exists(), go_on=hold.unlink)


def hold_smoke_test(project: Project) -> tuple[Path, Path]:
    """Give the image a test that makes the first of two files when it runs, and ends when the second is gone."""
    reached, hold = project.folder / "reached", project.folder / "hold"
    hold.touch()
    own = project.workspace.images / "tiny/tests"
    own.mkdir()
    (own / "test_own.py").write_text(
        "import time\nfrom pathlib import Path\n\n\ndef test_the_marker_is_there(fresh_host):\n"
        '    """The marker would be missing."""\n'
        "    assert fresh_host.file('/usr/share/tiny/marker').exists\n"
        f"    Path({str(reached)!r}).touch()\n"
        f"    while Path({str(hold)!r}).exists():\n        time.sleep(0.05)\n"
    )
    return reached, hold


def a_layer_is_pushed(project: Project, **_: object) -> AbstractContextManager[Moment]:
    return _relayed(project, rb"(?:PUT|PATCH) /v2/[^ ]*/blobs/uploads/")


def the_documents_are_pushed(project: Project, **_: object) -> AbstractContextManager[Moment]:
    return _relayed(project, rb"PUT /v2/[^ ]*/manifests/sha256:")


def the_tag_is_pushed(project: Project, **_: object) -> AbstractContextManager[Moment]:
    return _relayed(project, rb"PUT /v2/[^ ]*/manifests/")


def the_version_tag_is_pushed(project: Project, **_: object) -> AbstractContextManager[Moment]:
    return _relayed(project, rb"PUT /v2/[^ ]*/manifests/[0-9]")


@contextmanager
def _relayed(project: Project, at: bytes) -> Iterator[Moment]:
    host, _, namespace = project.publish.partition("/")
    relay = Relay(host, at=at)
    project.publish = f"{relay.address}/{namespace}"

    def open_gate() -> None:
        # Not before the engine has given up: then nobody is left to send the rest.
        assert relay.gate.opened.is_set() or relay.closed.wait(timeout=SAFETY_SECONDS)
        relay.gate.opened.set()

    def cut() -> None:
        project.publish = f"{host}/{namespace}"
        relay.close()

    reached = relay.gate.reached.is_set
    try:
        yield Moment(words=build_words(project), reached=lambda _: reached(), go_on=open_gate, cut=cut)
    finally:
        relay.close()
