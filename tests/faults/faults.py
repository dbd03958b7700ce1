"""What each fault does and what each remedy is, by the words of the table."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from builder.host import registry_service
from builder.story import Silent

from ..integration.project import Project
from ..integration.road import moments
from ..integration.road.moments import Moment, build_words
from ..integration.road.proxy import Handler, Proxy, cut, status
from .damage import flip, half_a_context, keep, largest, own_bases, truncate, truncated_mirrors
from .rig import disk, faketime, strace
from .survive import Fault, Scene, Stage

_ALWAYS = 1 << 30
_SLOW_MICROSECONDS = 400_000
_LONG_MICROSECONDS = 4_000_000
_FOR_A_WHILE = 5.0
_YEAR = 365 * 24 * 3600


@contextmanager
def _the_record_is_written(project: Project, *, scene: Scene, **_: object) -> Iterator[Moment]:
    pin = project.workspace.pin("tiny")
    calls = "rename,renameat,renameat2"
    scene.below = strace(f"trace={calls}", f"inject={calls}:delay_enter={_LONG_MICROSECONDS}")
    yield Moment(words=build_words(project), reached=lambda _: any(pin.parent.glob(f".{pin.name}.*")))


STAGES: dict[str, Stage] = {
    "apt resolves": moments.apt_resolves,
    "uv resolves": moments.uv_resolves,
    "packages are fetched": moments.packages_are_fetched,
    "the base is bootstrapped": moments.the_base_is_bootstrapped,
    "a step is built": moments.a_step_is_built,
    "a smoke test runs": moments.a_smoke_test_runs,
    "a layer is pushed": moments.a_layer_is_pushed,
    "the candidate is pushed": moments.the_tag_is_pushed,
    "the documents are pushed": moments.the_documents_are_pushed,
    "the version tag is pushed": moments.the_version_tag_is_pushed,
    "the record is written": _the_record_is_written,
}

# What is asked of a registry at these moments.
_ASKED = {
    "a layer is pushed": r"(?:PUT|PATCH) .*/blobs/uploads/",
    "the candidate is pushed": r"PUT .*/manifests/candidate",
    "the documents are pushed": r"PUT .*/manifests/sha256:",
    "the version tag is pushed": r"PUT .*/manifests/26\.4-",
}


def _at_once(act: Callable[[Scene], object]) -> Callable[[Scene], AbstractContextManager[None]]:
    @contextmanager
    def do(scene: Scene) -> Iterator[None]:
        act(scene)
        yield

    return do


def _during(act: Callable[[Scene], object]) -> Fault:
    return Fault(do=_at_once(act), during=True)


def _before(act: Callable[[Scene], object]) -> Fault:
    return Fault(do=_at_once(act))


def _held(do: Callable[[Scene], AbstractContextManager[None]]) -> Fault:
    return Fault(do=do)


# The program.


def _signal(number: signal.Signals) -> Fault:
    return _during(lambda scene: scene.run.process.send_signal(number))  # type: ignore[union-attr]


def _group(number: signal.Signals) -> Fault:
    return _during(lambda scene: os.killpg(scene.run.process.pid, number))  # type: ignore[union-attr]


# The engine.


def _engine_ends(number: signal.Signals) -> Fault:
    def act(scene: Scene) -> None:
        scene.rig.signal_engine(number)
        if scene.point.moment == "a smoke test runs":
            scene.go_on()

    return _during(act)


def _engine_stands_still(scene: Scene) -> None:
    scene.rig.signal_engine(signal.SIGSTOP)
    time.sleep(_FOR_A_WHILE)
    scene.rig.signal_engine(signal.SIGCONT)


# The registry.


def _answers(do: Callable[[Proxy, Handler], None], *, times: int = _ALWAYS) -> Fault:
    @contextmanager
    def done(scene: Scene) -> Iterator[None]:
        proxy = scene.answer(_ASKED[scene.point.moment], do, times=times)
        yield
        assert proxy.faults[0].times < times, "the fault never happened"
        proxy.faults = []

    return _held(done)


@contextmanager
def _registry_is_killed(scene: Scene) -> Iterator[None]:
    def kill(_: Proxy, handler: Handler) -> None:
        scene.rig.signal_registry(signal.SIGKILL)
        handler.close_connection = True
        handler.connection.close()

    proxy = scene.answer(_ASKED[scene.point.moment], kill, times=1)
    yield
    assert proxy.faults[0].times == 0, "the fault never happened"


def _late(proxy: Proxy, handler: Handler) -> None:
    time.sleep(_FOR_A_WHILE)
    proxy.passed(handler)


# The disk.


def _small(place: Callable[[Project], Path], size: str) -> Fault:
    """Have a small disk at a place, which is larger for the next run."""

    @contextmanager
    def do(scene: Scene) -> Iterator[None]:
        at = place(scene.project)
        held = {path: path.read_bytes() for path in at.rglob("*") if path.is_file()} if at.is_dir() else {}
        scene.disk(disk(at, size))
        for path, content in held.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if scene.point.own == ("store",):
            _serve_packages(scene)
        if held:
            _fill(at / "filler")
        yield
        (at / "filler").unlink(missing_ok=True)
        subprocess.run(["mount", "-o", "remount,size=1g", at], check=True)

    return _held(do)


def _serve_packages(scene: Scene) -> None:
    moment = scene.stack.enter_context(moments.packages_are_fetched(scene.project, store=scene.rig.store))
    moment.go_on()


def _full(place: Callable[[Scene], Path]) -> Fault:
    """Fill the disk of a service, and give the room back for the next run."""

    @contextmanager
    def do(scene: Scene) -> Iterator[None]:
        filler = place(scene) / "filler"
        try:
            _fill(filler)
            yield
        finally:
            filler.unlink()

    return _held(do)


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as sink:
        size = 1 << 20
        while size >= 1:
            try:
                sink.write(bytes(size))
            except OSError:
                size //= 2


def _read_only(place: Callable[[Project], Path]) -> Fault:
    @contextmanager
    def do(scene: Scene) -> Iterator[None]:
        at = place(scene.project)
        subprocess.run(["mount", "--bind", at, at], check=True)
        scene.mounted.add(str(at))
        subprocess.run(["mount", "-o", "remount,bind,ro", at], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", at], check=True)

    return _held(do)


@contextmanager
def _registry_read_only(scene: Scene) -> Iterator[None]:
    data = scene.rig.registry.data
    subprocess.run(["mount", "-o", "remount,ro", data], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", data], check=True)


def _traced(*words: str) -> Fault:
    @contextmanager
    def do(scene: Scene) -> Iterator[None]:
        scene.below = strace(*words)
        yield
        scene.below = ()

    return _held(do)


# The clock.


def _clock(offset: str) -> Fault:
    def act(scene: Scene) -> None:
        scene.env |= {"LD_PRELOAD": str(faketime()), "FAKETIME": offset}

    return _before(act)


def _from_the_future(scene: Scene) -> None:
    own_bases(scene)
    later = time.time() + _YEAR
    for path in scene.project.workspace.root.rglob("*"):
        os.utime(path, (later, later), follow_symlinks=False)


# Two runs.


def _meanwhile(*words: str) -> Fault:
    def act(scene: Scene) -> None:
        scene.told = scene.project.run(*words)
        scene.go_on()

    return _during(act)


def _lock_meanwhile(scene: Scene) -> None:
    (scene.project.workspace.images / "tiny/marker/marker").write_text(f"{scene.project.folder.name} again\n")
    scene.told = scene.project.run("lock", "tiny", "--update", "marker")
    scene.go_on()


def _other(project: Project) -> str:
    """Give the project a second image of the same parts."""
    project.add("other", project.workspace.images / "tiny")
    shutil.rmtree(project.workspace.images / "other/tests", ignore_errors=True)
    lock = project.workspace.lock("other")
    lock.write_text(lock.read_text().replace('image = "tiny"', 'image = "other"'))
    return "other"


def _other_meanwhile(scene: Scene) -> None:
    scene.told = scene.project.build(_other(scene.project))
    scene.go_on()


def _other_project_meanwhile(scene: Scene) -> None:
    other = scene.rig.project()
    scene.stack.callback(shutil.rmtree, other.folder)
    shutil.rmtree(other.workspace.images)
    shutil.copytree(scene.project.workspace.images, other.workspace.images)
    shutil.rmtree(other.workspace.images / "tiny/tests")
    other.publish = scene.project.publish
    scene.told = other.build("tiny")
    scene.go_on()


def _same_base_meanwhile(scene: Scene) -> None:
    other = scene.project.start("build", _other(scene.project))
    assert scene.run is not None
    scene.run.wait()
    scene.told = other.wait()


def _truncated(place: Callable[[Project], Path]) -> Fault:
    def act(scene: Scene) -> None:
        if scene.point.moment == "a second build":
            scene.project.done(*build_words(scene.project))
        truncate(place(scene.project))

    return _before(act)


FAULTS: dict[str, Fault] = {
    "SIGINT": _signal(signal.SIGINT),
    "SIGTERM": _signal(signal.SIGTERM),
    "SIGKILL": _signal(signal.SIGKILL),
    "SIGINT to the whole group": _group(signal.SIGINT),
    "the terminal is closed": _group(signal.SIGHUP),
    "the engine is killed": _engine_ends(signal.SIGKILL),
    "the engine is stopped": _engine_ends(signal.SIGTERM),
    "the engine stands still for a while": _during(_engine_stands_still),
    "the engine is not there": _before(lambda scene: scene.rig.signal_engine(signal.SIGTERM)),
    "the registry answers 500": _answers(status(500)),
    "the registry answers 500 once": _answers(status(500), times=1),
    "the registry hangs up": _answers(cut),
    "the registry hangs up once": _answers(cut, times=1),
    "the registry is killed": _held(_registry_is_killed),
    "the registry is slow": _answers(_late, times=3),
    "the registry asks for a login": _answers(status(401, WWW_Authenticate='Basic realm="here"')),
    "the connection is cut": _during(lambda scene: scene.at.cut()),  # type: ignore[union-attr]
    "the store's disk is full": _small(lambda project: project.workspace.store, "8m"),
    "the disk of the build contexts is full": _small(lambda project: project.workspace.state / "contexts", "2m"),
    "the disk of the bases is full": _small(lambda project: project.workspace.state / "bases", "16m"),
    "TMPDIR's disk is full": _small(lambda project: project.scratch, "16k"),
    "the disk of dist/ is full": _small(lambda project: project.workspace.dist, "4k"),
    "the disk of pins/ is full": _small(lambda project: project.workspace.pins, "4k"),
    "the disk of images/ is full": _small(lambda project: project.workspace.images, "256k"),
    "the engine's disk is full": _full(lambda scene: scene.rig.engine_data),
    "the registry's disk is full": _full(lambda scene: scene.rig.registry.data),
    "the project is read-only": _read_only(lambda project: project.workspace.root),
    "the state is read-only": _read_only(lambda project: project.workspace.state),
    "the registry's disk is read-only": _held(_registry_read_only),
    "the disk fails to write through": _traced("trace=fsync", "inject=fsync:error=EIO"),
    "the disk is slow": _traced("trace=fsync,rename", f"inject=fsync,rename:delay_enter={_SLOW_MICROSECONDS}"),
    "the clock is a month behind": _clock("-30d"),
    "the clock is ten years ahead": _clock("+3650d"),
    "what is kept is from the future": _before(_from_the_future),
    "a second build of the image": _meanwhile("build", "tiny"),
    "a second test of the image": _meanwhile("test", "tiny"),
    "room is given back in the engine": _meanwhile("engine", "free", "--unused-hours", "1"),
    "the image is locked anew": _during(_lock_meanwhile),
    "a build of another image": _during(_other_meanwhile),
    "the same image from another project": _during(_other_project_meanwhile),
    "another image that needs the same base": _during(_same_base_meanwhile),
    "a kept package is truncated": _before(lambda scene: truncate(keep(scene)[0])),
    "a bit of a kept wheel is flipped": _before(lambda scene: flip(keep(scene)[1])),
    "a kept wheel is gone": _before(lambda scene: keep(scene)[1].unlink()),
    "a blob of the base is truncated": _before(lambda scene: truncate(largest(own_bases(scene)))),
    "a bit of the base is flipped": _before(lambda scene: flip(largest(own_bases(scene)))),
    "the index of the base is truncated": _before(lambda scene: truncate(own_bases(scene) / "index.json")),
    "the build context is half there": _before(half_a_context),
    "the lock is truncated": _truncated(lambda project: project.workspace.lock("tiny")),
    "the lock is empty": _before(lambda scene: os.truncate(scene.project.workspace.lock("tiny"), 0)),
    "the recipe is truncated": _truncated(lambda project: project.workspace.recipe("tiny")),
    "the state of the last build is truncated": _truncated(
        lambda project: project.workspace.dist / "tiny/state.json"
    ),
    "the record is truncated": _truncated(lambda project: project.workspace.pin("tiny")),
    "mirrors.toml is truncated": _before(truncated_mirrors),
}


def _lock_again(scene: Scene) -> None:
    scene.project.done("lock", "tiny")


def _give_back(place: Callable[[Project], Path], scene: Scene) -> None:
    mine = place(scene.project)
    shutil.copyfile(place(scene.rig.locked), mine)


def _registry_again(scene: Scene) -> None:
    registry_service.down(scene.rig.registry, Silent())
    registry_service.up(scene.rig.registry, Silent())


REMEDIES: dict[str, Callable[[Scene], object]] = {
    "rocm-images lock tiny": _lock_again,
    "the recipe is corrected": partial(_give_back, lambda project: project.workspace.recipe("tiny")),
    "mirrors.toml is corrected": lambda scene: (scene.project.workspace.root / "mirrors.toml").unlink(),
    "the registry is started again": _registry_again,
    "rm dist/tiny/state.json": lambda scene: (scene.project.workspace.dist / "tiny/state.json").unlink(),
}
