"""Breaks one thing at one moment of a run, and proves what is promised of the run and of the one after it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import tomli

from ..integration.project import MANIFEST, Ended, Project, Running
from ..integration.road.leftovers import containers_of, mounts_below, started_by
from ..integration.road.moments import Moment, build_words, until
from ..integration.road.proxy import Fault as Answer
from ..integration.road.proxy import Handler, Proxy, proxied
from .rig import Rig
from .table import KILLED, Point

LOCKING = "a lock is made"
LOCK = ("lock", "tiny", "--update", "marker")
_CANDIDATE = "candidate"
_GONE_SECONDS = 60.0
# What somebody wrote who is not there any more: a file that is moved to its place once it is whole.
_PART = re.compile(r"\.(.+)\.[a-z0-9_]{8}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a run came to that a point was broken in: its status, and what it said in the end."""

    point: str
    status: int
    said: str


@dataclass
class Scene:
    """One point as it is tried: what a fault may break, and what it may say about the run that it is for."""

    rig: Rig
    point: Point
    project: Project
    stack: ExitStack
    at: Moment | None = None
    run: Running | None = None
    words: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    below: Sequence[str | Path] = ()
    told: Ended | None = None
    ours: set[int] = field(default_factory=set)
    mounted: set[str] = field(default_factory=set)
    gone_on: bool = False

    def go_on(self) -> None:
        """Let the run pass the moment it is held at; once."""
        if self.at is not None and not self.gone_on:
            self.gone_on = True
            self.at.go_on()

    def answer(self, at: str, do: Callable[[Proxy, Handler], None], *, times: int) -> Proxy:
        """Have a proxy before the registry that does so with requests that match `at`."""
        host, _, namespace = self.project.publish.partition("/")
        proxy = self.stack.enter_context(proxied(host))
        proxy.faults = [Answer(at, do, times)]
        self.project.publish = f"{proxy.address}/{namespace}"
        self.words = build_words(self.project)
        return proxy

    def disk(self, mount: AbstractContextManager[Path]) -> Path:
        """Mount something below the project's folder for as long as the point lasts."""
        place = self.stack.enter_context(mount)
        self.mounted.add(str(place))
        return place


Do = Callable[[Scene], AbstractContextManager[None]]
Stage = Callable[..., AbstractContextManager[Moment]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What is broken, and healed at its end: while a run is held at the point's moment, or before it starts."""

    do: Do
    during: bool = False


def survive(
    point: Point, rig: Rig, *, fault: Fault, stage: Stage | None, remedy: Callable[[Scene], object] | None
) -> Result:
    """Try a point, and return what became of it. Raises `AssertionError` where a promise does not hold."""
    rig.up()
    with ExitStack() as stack:
        project = rig.project(own=point.own)
        stack.callback(shutil.rmtree, project.folder)
        scene = Scene(rig=rig, point=point, project=project, stack=stack)
        _prepare(scene)
        scene.words = LOCK if point.moment == LOCKING else build_words(project)
        if fault.during:
            assert stage is not None
            scene.at = stack.enter_context(stage(project, store=rig.store, scene=scene))
            scene.words = scene.at.words
            run = scene.run = project.start(*scene.words, below=scene.below, env=scene.env)
            until(lambda: scene.at.reached(run) or run.process.poll() is not None)  # type: ignore[union-attr]
            assert run.process.poll() is None, run.said
            with fault.do(scene):
                ended = run.wait()
                _stands(scene, scene.told or ended)
        else:
            with fault.do(scene):
                run = scene.run = project.start(*scene.words, below=scene.below, env=scene.env)
                ended = run.wait()
                _stands(scene, scene.told or ended)
        told = scene.told or ended
        assert scene.told is None or ended.status == 0, ended.stderr
        rig.up()
        tagged = _tags(project)
        assert not tagged or _passed(project), tagged
        made = point.moment == "a second build" or 0 in (told.status, ended.status)
        assert made or not project.workspace.pin("tiny").exists()
        scene.go_on()
        if remedy is not None:
            assert "hint: " in told.stderr
            command = point.remedy.startswith(("rocm-images ", "rm "))
            words = " ".join(point.remedy.split()[:2])
            assert not command or words in told.stderr.rpartition("hint: ")[2], told.stderr
            remedy(scene)
        left = project.files()
        if scene.words[0] == "lock":
            project.done(*scene.words)
        again = project.done(*build_words(project))
        _settled(scene, again, tagged)
        _gone(scene)
        new = {file for file in left - project.files() if not file.startswith("mirrors.toml")}
        assert not new or told.status == KILLED, new
    return Result(point=point.id, status=told.status, said=_said(scene, told))


def _prepare(scene: Scene) -> None:
    """Give the image a file that no cache has, where the moment would be over at once with one that has it."""
    project, point = scene.project, scene.point
    if point.moment == "apt resolves":
        project.workspace.lock("tiny").unlink()
    if not point.fresh and point.moment != LOCKING:
        return
    marker = project.workspace.images / "tiny/marker/marker"
    marker.write_text(f"{project.folder.name}\n")
    if point.moment == "a step is built":
        project.edit("tiny", lambda recipe: recipe["component"][1]["build"].insert(0, "sleep 5"))
    if point.moment != LOCKING:
        project.done(*LOCK)


def _stands(scene: Scene, ended: Ended) -> None:
    """The run ended as the table says, said why, and has nothing left that somebody would have to clean up."""
    point, project = scene.point, scene.project
    assert ended.status == point.status, (ended.status, ended.stderr)
    assert re.search(point.says, ended.stderr), ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    assert "a bug in rocm-images" not in ended.stderr, ended.stderr
    assert ended.status == 0 or ended.stdout == "", ended.stdout
    deadline = time.monotonic() + _GONE_SECONDS
    while (left := _running(scene)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == {}
    assert set(mounts_below(project.folder)) <= scene.mounted
    if ended.status not in (0, KILLED):
        assert "error: " in ended.stderr or "interrupted; nothing was pinned" in ended.stderr
        assert list(project.scratch.iterdir()) == []
    if ended.status != KILLED:
        assert _halves(project) == []


def _running(scene: Scene) -> dict[int, str]:
    return {pid: words for pid, words in started_by(scene.project).items() if pid not in scene.ours}


def _gone(scene: Scene) -> None:
    assert _running(scene) == {}
    assert set(mounts_below(scene.project.folder)) <= scene.mounted
    assert containers_of(scene.project, scene.rig.client) == []
    killed = scene.point.status == KILLED
    assert killed or list(scene.project.scratch.iterdir()) == []
    assert killed or _halves(scene.project) == []
    assert _broken(scene.project) == []


def _halves(project: Project) -> list[str]:
    """Return the files on their way to a place that nobody will bring there any more."""
    folders = (project.workspace.images, project.workspace.pins, project.workspace.dist)
    found = [path for folder in folders for path in folder.rglob("*") if _PART.fullmatch(path.name)]
    own = project.workspace.store
    found += list((own / "incoming").glob("*")) if own.is_dir() and not own.is_symlink() else []
    return [str(path) for path in found]


def _broken(project: Project) -> list[str]:
    """Return the files that are not what their name says."""
    found = []
    root = project.workspace.root
    for name in sorted(project.files()):
        path = root / name
        if name.startswith(".rocm-images/contexts/") or _PART.fullmatch(path.name):
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.name in ("recipe.toml", "recipe.lock", "mirrors.toml"):
                tomli.loads(path.read_text())
            elif "/store/sha256/" in name and hashlib.sha256(path.read_bytes()).hexdigest() != path.name:
                found.append(name)
        except ValueError:
            found.append(name)
    return found


def _tags(project: Project) -> Mapping[str, str]:
    """Return what each tag of the image names, the candidate's among them."""
    host, _, namespace = project.publish.partition("/")
    found = {}
    for tag in [*project.tags("tiny")]:
        url = f"http://{host}/v2/{namespace}/tiny/manifests/{tag}"
        answer = requests.head(url, headers={"Accept": MANIFEST}, timeout=30)
        if answer.status_code == 200:
            found[tag] = answer.headers["Docker-Content-Digest"]
    return found


def _passed(project: Project) -> bool:
    report = project.workspace.dist / "tiny/smoke.json"
    return report.exists() and bool(json.loads(report.read_text())["passed"])


def _settled(scene: Scene, again: Ended, before: Mapping[str, str]) -> None:
    """The next run came to its end: one tag, of the tested digest, the record of just that, and nothing else."""
    project = scene.project
    reference = again.result
    assert reference.startswith(f"{project.publish}/tiny:26.4-"), again.stderr
    tag, _, digest = reference.rpartition(":26.4-")[2].partition("@")
    tags = _tags(project)
    assert tags[f"26.4-{tag}"] == digest
    if scene.told is None:
        assert set(tags) <= {f"26.4-{tag}", _CANDIDATE} | set(before)
        assert set(before.values()) <= {digest}, (before, digest)
    assert _passed(project)
    pin: dict[str, Any] = json.loads(project.workspace.pin("tiny").read_text())
    assert pin["reference"] == reference
    assert pin["digest"] == digest


def _said(scene: Scene, ended: Ended) -> str:
    """Return what a run said in the end, without what is different on every machine."""
    if ended.status == KILLED:
        return ""
    lines = ended.stderr.splitlines()
    wanted = [line for line in lines if line.startswith(("error: ", "warning: interrupted"))]
    if not wanted:
        wanted = [line for line in lines if line.startswith("warning: ")]
    line = wanted[-1] if wanted else ""
    for place, name in (
        (str(scene.project.workspace.root), "PROJECT"), (str(scene.project.scratch), "TMPDIR"),
        (str(scene.rig.folder), "ENGINE"),
    ):  # fmt: skip
        line = line.replace(place, name)
    for pattern, name in (
        (r"\btmp[a-z0-9_]{8}\b|(?<=\.)[a-z0-9_]{8}(?=:)", "…"),
        (r"127\.0\.0\.1:\d+", "HOST:PORT"),
        (r"\bfaults-[0-9a-f]{12}\b", "NAMESPACE"),
        (r"26\.4-[0-9a-f]{12}", "TAG"),
        (r"\b[0-9a-f]{64}\b", "…"),
    ):
        line = re.sub(pattern, name, line)
    return line if len(line) < 240 else f"{line[:239]}…"
