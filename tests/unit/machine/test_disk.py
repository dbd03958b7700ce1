"""The engine's disk: which folder counts, what is measured, and when a build does not begin."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path, PurePosixPath

import pytest

from builder import process
from builder.engine import builders, space
from builder.engine.builders import Builder
from builder.engine.client import EngineInfo
from builder.errors import EngineError
from builder.host.disk import require_room
from builder.host.doctor import examine

from ..recipe.samples import SMALL

MEASURE = """
import json, sys
from pathlib import Path
from builder.engine.space import room
here = room(Path(sys.argv[1]) / "not" / "there" / "yet")
print(json.dumps([here.free, here.total]))
"""


OWN = builders.builder(None)


class Told:
    """A story that remembers its warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def step(self, text: str) -> object:
        raise AssertionError(text)

    def follow(self, how_far: object) -> None:
        raise AssertionError(how_far)

    def note(self, text: str) -> None:
        raise AssertionError(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def engine(data_root: Path | str, **more: object) -> EngineInfo:
    values: dict[str, object] = {
        "host": "unix:///var/run/docker.sock", "version": "28.0.0", "containerd_store": False,
        "data_root": PurePosixPath(data_root), "server_os": "linux", "arch": "amd64", "buildx_version": "0.20.0",
        "driver": "docker",
    }  # fmt: skip
    return EngineInfo(**(values | more))  # type: ignore[arg-type]


def test_a_file_system_of_16_mib_is_measured_as_such_also_before_the_folder_is_there(tmp_path: Path) -> None:
    """As in a container of its own: a tmpfs that nobody else sees."""
    private = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    mount = 'mount -t tmpfs -o size=16m none "$0" && dd if=/dev/zero of="$0/used" bs=1M count=4 status=none && '
    done = process.run(
        [*private, "sh", "-c", mount + 'exec "$1" -c "$2" "$0"', tmp_path, sys.executable, MEASURE],
        cwd=Path(__file__).resolve().parents[3],
    )
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout) == [12 << 20, 16 << 20]


def test_the_folder_with_the_layers_is_the_engine_s_or_that_of_the_containerd_it_uses(tmp_path: Path) -> None:
    here = Path("/srv/docker")
    system, its_own = "/run/containerd/containerd.sock", "/run/docker/containerd/containerd.sock"
    assert space.data_folder(engine(here)) == here
    assert space.data_folder(engine(here, containerd=system)) == here
    assert space.data_folder(engine(here, containerd_store=True, containerd=its_own)) == here
    assert space.data_folder(engine(here, containerd_store=True, containerd=system)) != here
    assert space.data_folder(engine(here, host="ssh://builder")) is None

    container = Builder(name="of-ci", driver="docker-container", in_engine=False)
    store = engine(here, containerd_store=True, containerd=system)
    assert space.build_folder(store, OWN) == space.data_folder(store)
    assert space.build_folder(store, container) == here

    configuration = tmp_path / "config.toml"
    assert space._containerd_root(configuration) == Path("/var/lib/containerd")
    configuration.write_text('version = 2\nroot = "/big/containerd"\n')
    assert space._containerd_root(configuration) == Path("/big/containerd")
    configuration.write_text("version = 2\nroot = broken")
    assert space._containerd_root(configuration) == Path("/var/lib/containerd")


def test_a_build_does_not_begin_on_a_disk_that_is_too_small_for_what_its_recipe_declares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    docker = tmp_path / "bin/docker"  # of a machine that may have none: it is asked for the cache and has none
    docker.parent.mkdir()
    docker.write_text("#!/bin/sh\necho 'Total: 0B'\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    free = space.room(tmp_path)
    monkeypatch.setattr(space, "room", lambda _: free)  # others on this machine write meanwhile
    with pytest.raises(EngineError) as failure:
        require_room("probe", "900000g", engine(tmp_path), OWN, told)
    assert failure.value.message == (
        "images/probe/recipe.toml: build.disk: a build takes up to 900000.0 GiB of the engine's disk, "
        f"{free.free / 2**30:.1f} GiB are free"
    )
    assert failure.value.details[0] == (
        f"{tmp_path}: {free.free / 2**30:.1f} GiB of {free.total / 2**30:.1f} GiB free"
    )
    assert failure.value.hint is not None
    assert failure.value.hint.startswith("rocm-images engine free --all, or move the engine's data")
    assert failure.value.exit_code == 8
    assert not told.warnings


@pytest.mark.parametrize(
    ("disk", "of", "by"),
    [
        ("1m", {}, OWN),
        (None, {}, OWN),
        ("900000g", {"host": "tcp://10.0.0.1:2376"}, OWN),
        ("900000g", {}, Builder(name="cluster", driver="kubernetes", in_engine=False)),
    ],
    ids=["there is room", "nothing is declared", "an engine on another machine", "a builder on another machine"],
)
def test_a_build_begins_where_nothing_speaks_against_it(
    tmp_path: Path, disk: str | None, of: dict[str, object], by: Builder
) -> None:
    told = Told()
    require_room("probe", disk, engine(tmp_path, **of), by, told)
    assert not told.warnings


def test_the_doctor_wants_the_room_that_the_largest_build_of_the_project_takes(tmp_path: Path) -> None:
    for name, disk in (("small", "1g"), ("large", "900000g"), ("none", None)):
        recipe = tmp_path / "images" / name / "recipe.toml"
        recipe.parent.mkdir(parents=True)
        more = f'\n[build]\ndisk = "{disk}"\n' if disk else ""
        recipe.write_text(SMALL.replace('name = "probe"', f'name = "{name}"', 1) + more)
    checks = {check.name: check for check in examine(tmp_path)}
    assert checks["free disk of the engine"].state.endswith("at least 900000 wanted by large")
    assert not checks["free disk of the engine"].found
    assert checks["free disk of the engine"].remedy is not None
    assert checks["free disk of the engine"].remedy.startswith("rocm-images engine free; or move")
