"""Images that are built on other images of the project: order, circles, what the base offers, what moves keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import LockError, RecipeError
from builder.lockfile import (
    DebianPackage,
    Lock,
    LockedBase,
    PythonFile,
    asked,
    dump_lock,
    provided_hash,
)
from builder.project import images_below, in_order, load_recipe, prepare
from builder.workspace import Workspace

HEAD = """
schema = 1
name = "{name}"
description = "An image"
gfx = ["gfx1201"]
python = "3.13"
"""
ON_DEBIAN = """
[base.build]
debian = { suite = "trixie" }
[base.runtime]
debian = { suite = "trixie" }
apt = ["python3"]
"""


def on(*names: str) -> str:
    build, runtime = (*names, *names)[:2]
    return f'\n[base.build]\nrecipe = "{build}"\n[base.runtime]\nrecipe = "{runtime}"\n'


def package(name: str, stage: str, version: str = "1.0-1") -> DebianPackage:
    return DebianPackage.model_validate(
        {"name": name, "version": version, "file": f"pool/{name}_{version}_amd64.deb", "size": 1,
         "sha256": "ab" * 32, "stage": stage}
    )  # fmt: skip


def wheel(project: str, layer: str = "dependencies", version: str = "1.0") -> PythonFile:
    return PythonFile(
        project=project,
        version=version,
        file=f"{project}-{version}-py3-none-any.whl",
        sha256="cd" * 32,
        layer=layer,
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "images").mkdir()
    return Workspace(root=tmp_path)


def add(workspace: Workspace, name: str, base: str, more: str = "") -> None:
    path = workspace.recipe(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD.format(name=name) + more + base)


def lock(workspace: Workspace, name: str, *debs: DebianPackage, wheels: tuple[PythonFile, ...] = ()) -> None:
    recipe = load_recipe(workspace, name)
    below = images_below(workspace, recipe)
    made = Lock.model_validate(
        {
            "schema": 1, "image": name, "epoch": 1, "asked": asked(recipe), "deb": debs, "python": wheels,
            "base": {base: LockedBase(provides=provided_hash(each.offered)) for base, each in below.items()},
        }
    )  # fmt: skip
    workspace.lock(name).write_text(dump_lock(made))


@pytest.fixture
def three(workspace: Workspace) -> Workspace:
    """Return a project with `bottom` on Debian, `middle` on it and `top` on that."""
    add(workspace, "bottom", ON_DEBIAN)
    lock(workspace, "bottom", package("bash", "base"), package("python3", "runtime"), package("gcc", "build"))
    add(workspace, "middle", on("bottom"))
    lock(workspace, "middle", package("ninja-build", "runtime"), wheels=(wheel("numpy"),))
    add(workspace, "top", on("middle"))
    lock(workspace, "top")
    return workspace


def test_an_image_offers_what_it_and_those_below_it_ship(three: Workspace) -> None:
    middle = images_below(three, load_recipe(three, "top"))["middle"]
    assert middle.offered == {
        "deb bash": "1.0-1",
        "deb python3": "1.0-1",
        "deb ninja-build": "1.0-1",
        "python numpy": "1.0",
    }
    assert middle.distributions == {"numpy": "1.0"}
    assert sorted(package.name for package in middle.packages) == ["bash", "ninja-build", "python3"]
    assert middle.debian is not None
    assert middle.debian.suite == "trixie"


def test_an_image_on_a_published_one_knows_no_packages(workspace: Workspace) -> None:
    published = 'image = "docker.io/rocm/dev:7.2@sha256:' + "a" * 64 + '"\n'
    add(workspace, "bottom", f"\n[base.build]\n{published}[base.runtime]\n{published}")
    lock(workspace, "bottom")
    add(workspace, "top", on("bottom"))
    bottom = images_below(workspace, load_recipe(workspace, "top"))["bottom"]
    assert (bottom.debian, bottom.packages) == (None, ())


def test_images_come_after_those_they_are_built_on(three: Workspace) -> None:
    assert in_order(three, ("top", "bottom", "middle")) == ("bottom", "middle", "top")
    assert in_order(three, ("top",)) == ("top",)


def test_a_circle_of_images_is_named(workspace: Workspace) -> None:
    add(workspace, "one", on("two"))
    add(workspace, "two", on("three"))
    add(workspace, "three", on("one"))
    with pytest.raises(RecipeError) as failure:
        prepare(workspace, "one")
    assert failure.value.message == (
        "images/three/recipe.toml: base.runtime.recipe: a circle: one -> two -> three -> one"
    )


def test_a_base_that_is_not_there_is_named_with_those_that_are(three: Workspace) -> None:
    add(three, "top", on("midle"))
    with pytest.raises(RecipeError) as failure:
        prepare(three, "top")
    assert failure.value.message == (
        "images/top/recipe.toml: base.runtime.recipe: there is no image called 'midle'; known: bottom, middle, top"
    )


def test_a_base_with_other_packages_makes_the_lock_above_stale(three: Workspace) -> None:
    lock(three, "middle", package("ninja-build", "runtime", "2.0-1"), wheels=(wheel("numpy"),))
    with pytest.raises(LockError) as failure:
        prepare(three, "top")
    assert failure.value.message == (
        "images/top/recipe.lock: base.middle: the packages of that image changed since this lock was made"
    )
    assert failure.value.hint == "rocm-images lock top"
    assert failure.value.exit_code == 3


def test_what_the_bottom_ships_moves_every_key_above_it(three: Workspace) -> None:
    before = prepare(three, "top").content_key
    path = three.recipe("bottom")
    path.write_text(path.read_text() + '\n[image]\nworkdir = "/srv/engine"\n')
    after = prepare(three, "top")
    assert after.content_key != before
    assert prepare(three, "top").content_key == after.content_key
    path.write_text(path.read_text().replace("An image", "The image"))
    assert prepare(three, "top").content_key == after.content_key


def test_the_user_is_the_bases_or_another_one(three: Workspace) -> None:
    rendered = prepare(three, "top").rendered().dockerfile
    assert '["sh", "/media/adopt-user.sh", "1", "engine", "1000", "/home/engine", "/srv", "/tmp"]' in rendered
    path = three.recipe("top")
    text = path.read_text()
    path.write_text(text + '\n[image]\nuser = "server"\nuid = 1001\n')
    assert '"server", "1001"' in prepare(three, "top").rendered().dockerfile
    path.write_text(text + "\n[image]\nuid = 1001\n")
    with pytest.raises(RecipeError) as failure:
        prepare(three, "top")
    assert failure.value.message == (
        "images/top/recipe.toml: image.user: image middle has user 'engine' with uid 1000, this one has 'engine' "
        "with uid 1001"
    )


def test_stages_on_an_image_work_as_root_and_drop_its_entrypoint(three: Workspace) -> None:
    path = three.recipe("middle")
    path.write_text(path.read_text() + '\n[image]\nentrypoint = ["/usr/bin/serve"]\n')
    rendered = prepare(three, "top").rendered().dockerfile
    assert rendered.count("USER 0:0\n") == 2
    assert "ENTRYPOINT []\n" in rendered
    assert 'rocm-images.devices=""' in rendered


def test_the_engine_of_the_base_counts_in_the_fingerprint(three: Workspace) -> None:
    before = prepare(three, "top").fingerprint
    add(
        three,
        "bottom",
        ON_DEBIAN,
        'engine = "sglang"\n[[component]]\nname = "sglang"\nwheel = "sglang"\nversion = "1.0"\n',
    )
    debs = (package("bash", "base"), package("python3", "runtime"), package("gcc", "build"))
    lock(three, "bottom", *debs, wheels=(wheel("sglang", "sglang"),))
    lock(three, "middle", package("ninja-build", "runtime"), wheels=(wheel("numpy"),))
    lock(three, "top")
    assert prepare(three, "top").fingerprint != before


def test_the_fingerprint_of_the_base_counts_and_nothing_else_of_it(three: Workspace) -> None:
    before = prepare(three, "top")
    assert before.fingerprint_inputs == {"base": {"fingerprint": prepare(three, "middle").fingerprint}}
    lock(three, "bottom", package("bash", "base", "2.0-1"), package("python3", "runtime"), package("gcc", "build"))
    lock(three, "middle", package("ninja-build", "runtime"), wheels=(wheel("numpy"),))
    lock(three, "top")
    after = prepare(three, "top")
    assert after.content_key != before.content_key
    assert after.fingerprint == before.fingerprint


def test_an_engine_that_the_base_has_without_knowing_it_as_one_counts_with_all_of_that_base(
    workspace: Workspace,
) -> None:
    add(workspace, "bottom", ON_DEBIAN, '[[component]]\nname = "sglang"\nwheel = "sglang"\nversion = "1.0"\n')
    debs = (package("bash", "base"), package("python3", "runtime"))
    engine = '[[component]]\nname = "sglang"\nbase = "sglang"\nversion = "1.0"\n'

    def top(sha256: str) -> str:
        made = wheel("sglang", "sglang").model_copy(update={"sha256": sha256})
        lock(workspace, "bottom", *debs, wheels=(made,))
        add(workspace, "top", on("bottom"), f'engine = "sglang"\n{engine}')
        lock(workspace, "top")
        return prepare(workspace, "top").fingerprint

    before = top("cd" * 32)
    key = prepare(workspace, "bottom").content_key
    assert prepare(workspace, "top").fingerprint_inputs["component.sglang"] == {
        "distribution": "sglang", "version": "1.0", "base": key,
    }  # fmt: skip
    assert top("ef" * 32) != before


def test_an_engine_that_the_base_knows_as_one_counts_with_its_fingerprint_alone(workspace: Workspace) -> None:
    engine = 'engine = "sglang"\n[[component]]\nname = "sglang"\n%s = "sglang"\nversion = "1.0"\n'
    add(workspace, "bottom", ON_DEBIAN, engine % "wheel")
    wheels = (wheel("sglang", "sglang"),)
    lock(workspace, "bottom", package("bash", "base"), package("python3", "runtime"), wheels=wheels)
    add(workspace, "top", on("bottom"), engine % "base")
    lock(workspace, "top")
    before = prepare(workspace, "top").fingerprint
    lock(workspace, "bottom", package("bash", "base", "9-1"), package("python3", "runtime"), wheels=wheels)
    lock(workspace, "top")
    assert prepare(workspace, "top").fingerprint == before
