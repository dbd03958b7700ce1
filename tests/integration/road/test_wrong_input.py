"""Every kind of wrong input ends with the exit code of its class and names file, key and remedy."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from builder.lockfile import parse_lock

from ..project import Ended, Project
from .conftest import TINY, Tiny, copy_objects
from .loopback import served

pytestmark = pytest.mark.engine


def refused(ended: Ended, status: int) -> tuple[str, str]:
    """Return the error and the hint of a run that has to end with `status` and no result."""
    assert ended.status == status, ended.stderr
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("error: "))
    hint = next((line for line in lines if line.startswith("hint: ")), "")
    assert "Traceback" not in ended.stderr
    return "\n".join(line for line in lines[first:] if not line.startswith("hint: ")), hint.removeprefix("hint: ")


def test_a_recipe_that_is_not_toml(project: Project) -> None:
    project.add("tiny", TINY)
    project.workspace.recipe("tiny").write_text("name = tiny\n")
    error, hint = refused(project.build("tiny"), 2)
    assert error.startswith("error: images/tiny/recipe.toml: not a TOML file: ")
    assert "line 1" in error
    assert hint == "the format is described in docs/recipe.md"


def test_an_unknown_key_with_a_near_miss(project: Project) -> None:
    project.add("tiny", TINY, lambda recipe: recipe["image"].update(entrypont=["/bin/sh"]))
    error, hint = refused(project.build("tiny"), 2)
    assert error == "error: images/tiny/recipe.toml: image.entrypont: unknown key; did you mean 'entrypoint'?"
    assert hint == "every key is described in docs/recipe.md"


def test_f65_a_floating_tag_without_a_digest(project: Project) -> None:
    project.add("tiny", TINY, lambda recipe: recipe["base"].update(build={"image": "docker.io/library/debian:13"}))
    error, hint = refused(project.build("tiny"), 2)
    assert error.startswith("error: images/tiny/recipe.toml: base.build.image: a tag floats: expected '@sha256:")
    assert error.endswith("got 'docker.io/library/debian:13'")
    assert hint == "every key is described in docs/recipe.md"


def test_an_image_that_nobody_wrote(project: Project) -> None:
    project.add("tiny", TINY)
    error, hint = refused(project.build("tinny"), 2)
    assert error == "error: images/tinny/recipe.toml: there is no image called 'tinny'; known: tiny"
    assert hint == "rocm-images list"


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:5000/x", "127.0.0.1:5000/UPPER", "rocm-images", "127.0.0.1:5000/x:1", ""]
)
def test_a_malformed_place_to_publish_to(target: str, tiny: Tiny) -> None:
    error, hint = refused(tiny().run("build", "tiny", "--publish", target), 2)
    assert error.startswith("error: --publish: expected ")
    assert hint == "for example --publish 127.0.0.1:5000/rocm-images, or --publish oci:out"


def test_a_recipe_that_was_never_locked(project: Project) -> None:
    project.add("tiny", TINY)
    error, hint = refused(project.build("tiny"), 3)
    assert error == "error: images/tiny/recipe.lock: the recipe was never locked"
    assert hint == "rocm-images lock tiny"


def test_a_lock_that_was_made_for_another_recipe(tiny: Tiny) -> None:
    project = tiny(lambda recipe: recipe["component"][0].update(version="26.3"))
    error, hint = refused(project.build("tiny"), 3)
    assert error.startswith("error: images/tiny/recipe.lock: made for another recipe than the one beside it\n")
    assert "component.packaging: locked for" in error
    assert "26.4" in error
    assert "26.3" in error
    assert hint == "rocm-images lock tiny"


def test_a_source_that_changed_after_it_was_locked(tiny: Tiny) -> None:
    project = tiny()
    (project.workspace.images / "tiny/marker/marker").write_text("other bytes")
    error, hint = refused(project.build("tiny"), 3)
    assert error.startswith("error: images/tiny/marker: its files changed since the lock was made\n")
    assert hint == "rocm-images lock tiny"


def test_a_wheel_whose_bytes_are_not_the_locked_ones(tiny: Tiny, store: Path) -> None:
    project = tiny(own=("store",))
    lock = parse_lock(project.workspace.lock("tiny").read_text(), file="recipe.lock")
    copy_objects(store, project.workspace.store, {package.sha256 for package in lock.deb})
    (wheel,) = lock.python
    tampered = bytearray((store / "sha256" / wheel.sha256[:2] / wheel.sha256).read_bytes())
    tampered[len(tampered) // 2] ^= 1

    def index(path: str) -> bytes | None:
        if path == "/simple/packaging/":
            return f'<a href="/files/{wheel.file}">{wheel.file}</a>'.encode()
        return bytes(tampered) if path == f"/files/{wheel.file}" else None

    # what this machine has of wheels must not come to help
    clean = {"PIP_FIND_LINKS": "", "UV_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}
    with served(index) as address:
        (project.workspace.root / "mirrors.toml").write_text(f'[indexes]\ndefault = "{address}/simple"\n')
        error, hint = refused(project.run("build", "tiny", "--publish", project.publish, env=clean), 3)
    assert f"{wheel.file}: " in error
    assert f"expected sha256 {wheel.sha256}" in error
    assert hint == "if the pin should follow: rocm-images lock"
    kept = {path.name for path in project.workspace.store.glob("sha256/*/*")}
    assert kept == {package.sha256 for package in lock.deb}
    assert list((project.workspace.store / "incoming").iterdir()) == []
    assert [path.name for path in (project.workspace.dist / "tiny").iterdir()] == ["report.html"]
    assert project.tags("tiny") == []


def test_an_engine_that_is_not_there(tiny: Tiny, tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/docker.sock"
    project = tiny()
    error, hint = refused(
        project.run("build", "tiny", "--publish", project.publish, env={"DOCKER_HOST": nowhere}), 8
    )
    assert error.startswith(f"error: no container engine answers at {nowhere}\n")
    assert "No such file or directory" in error
    assert hint == "rocm-images engine up --install"


def test_a_registry_that_is_down(tiny: Tiny) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        down = f"127.0.0.1:{probe.getsockname()[1]}"
    error, hint = refused(tiny().run("build", "tiny", "--publish", f"{down}/x"), 8)
    assert error.startswith(f"error: the registry {down} cannot be used for {down}/x/tiny:26.4-")
    assert "Connection refused" in error
    assert "rocm-images registry up" in hint
