"""What resolving decides without asking anybody: versions, wheels, and the words for what changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tomli
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename

from builder.errors import LockError
from builder.knownbases import glibc
from builder.lockfile import parse_lock
from builder.mirrors import Mirrors
from builder.recipe import Recipe
from builder.resolve import _pin, glibc_minor, told, upstream_version
from builder.solve import Offer, Question, Solved, _chosen, _tags, project_file

from ..recipe import samples

FILE = "images/probe/recipe.toml"
HASH = "ab" * 32


@pytest.mark.parametrize(
    ("debian", "upstream"),
    [
        ("2.6.0+dfsg-7", "2.6.0"),
        ("0.21.0-3", "0.21.0"),
        ("1:2.2.4+ds-1", "2.2.4"),
        ("2.2.4+ds1-1+b1", "2.2.4"),
        ("4:14.2.0-1", "14.2.0"),
        ("5.7.1-6+deb13u1", "5.7.1"),
        ("5.2.37-2+b10", "5.2.37"),
        ("1.12.1-2~bpo12+1", "1.12.1"),
        ("3.13.5-2+deb13u1", "3.13.5"),
        ("1.0~rc1-1", "1.0~rc1"),
        ("1.0~beta2-1", "1.0~beta2"),
        ("1.0~b2-1", "1.0~b2"),
        ("1.0+beta2-1", "1.0+beta2"),
        ("0.0+git20240101-1", "0.0+git20240101"),
        ("1.0+really0.9-1", "0.9"),
        ("1:1.0+dfsg+really0.9+dfsg-2", "0.9"),
        ("2.0~dfsg1-1", "2.0"),
        ("2.0+repack-1", "2.0"),
        ("2024b-0+deb12u1", "2024b"),
        ("12.4+deb12u13", "12.4"),
        ("1.0+nmu1", "1.0"),
        ("1.0+b2", "1.0"),
        ("1.0-rc1-2", "1.0-rc1"),
        ("6.4.3", "6.4.3"),
    ],
)
def test_the_upstream_part_of_a_debian_version(debian: str, upstream: str) -> None:
    assert upstream_version(debian) == upstream


def test_wheels_of_the_interpreter_come_before_stable_abi_and_plain_python() -> None:
    tags = _tags("3.13", 41)
    order = [
        Tag("cp313", "cp313", "manylinux_2_41_x86_64"),
        Tag("cp313", "cp313", "manylinux_2_28_x86_64"),
        Tag("cp313", "cp313", "manylinux2014_x86_64"),
        Tag("cp313", "cp313", "linux_x86_64"),
        Tag("cp313", "abi3", "manylinux_2_28_x86_64"),
        Tag("cp312", "abi3", "manylinux_2_28_x86_64"),
        Tag("py3", "none", "manylinux_2_28_x86_64"),
        Tag("py3", "none", "any"),
    ]
    places = [tags.index(tag) for tag in order]
    assert places == sorted(places)
    assert len(tags) == len(set(tags))


@pytest.mark.parametrize(
    "tag",
    [
        Tag("cp313", "cp313", "manylinux_2_42_x86_64"),
        Tag("cp313", "cp313", "musllinux_1_2_x86_64"),
        Tag("cp313", "cp313", "manylinux_2_28_aarch64"),
        Tag("cp313", "cp313t", "manylinux_2_28_x86_64"),
        Tag("cp312", "cp312", "manylinux_2_28_x86_64"),
        Tag("cp313", "cp313", "win_amd64"),
    ],
)
def test_wheels_that_the_image_cannot_run_are_none(tag: Tag) -> None:
    assert tag not in _tags("3.13", 41)


def wheel(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "hashes": {"sha256": HASH}, **more}


def package(project: str, version: str, *wheels: dict[str, Any]) -> dict[str, object]:
    return {"name": project, "version": version, "wheels": list(wheels)}


def question(recipe: Recipe, **more: Any) -> Question:
    pins = tuple(_pin(component) for component in recipe.wheels)
    return Question(where=FILE, python=recipe.python, glibc=41, pins=pins, **more)


def chosen(found: dict[str, object], text: str = samples.FULL) -> Solved:
    return _chosen(found, question(samples.recipe(text)))


@pytest.mark.parametrize(
    ("names", "best"),
    [
        (["a-1-py3-none-any.whl", "a-1-cp313-cp313-manylinux_2_28_x86_64.whl"], 1),
        (["a-1-cp312-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "a-1-py3-none-any.whl"], 0),
        (["a-1-cp313-cp313-manylinux_2_17_x86_64.whl", "a-1-cp313-cp313-manylinux_2_40_x86_64.whl"], 1),
        (["a-1-cp313-cp313-manylinux_2_99_x86_64.whl", "a-1-cp313-cp313-manylinux_2_17_x86_64.whl"], 1),
        (
            ["a-1-cp314-cp314-manylinux_2_28_x86_64.whl", "a-1-cp313-cp313-win_amd64.whl", "a-1-py3-none-any.whl"],
            2,
        ),
        (["a-1-9-py3-none-any.whl", "a-1-10-py3-none-any.whl", "a-1-py3-none-any.whl"], 1),
        (["no wheel at all", "a-1-py2.py3-none-any.whl"], 1),
    ],
)
def test_the_wheel_that_suits_the_image_best_is_chosen_whatever_the_order(names: list[str], best: int) -> None:
    for order in (names, list(reversed(names))):
        assert chosen(package("a", "1", *map(wheel, order))).file == names[best]


def test_a_distribution_without_a_fitting_wheel_is_an_error_that_says_for_what() -> None:
    found = package(
        "a", "1", wheel("a-1-cp312-cp312-manylinux_2_28_x86_64.whl"), wheel("a-1-cp313-cp313-win_amd64.whl")
    )
    with pytest.raises(LockError) as failure:
        chosen(found)
    assert failure.value.message == f"{FILE}: a 1 has no wheel for Python 3.13 on glibc 2.41"
    assert failure.value.details == tuple(sorted(str(each["name"]) for each in found["wheels"]))  # type: ignore[attr-defined]
    with pytest.raises(LockError):
        chosen({"name": "a", "version": "1"})


def test_a_chosen_wheel_belongs_to_its_component_or_to_the_dependencies() -> None:
    triton = chosen(
        package("triton", "3.6.0", wheel("triton-3.6.0-cp313-cp313-manylinux_2_27_x86_64.whl", size=7))
    )
    assert triton.pin is not None
    assert (triton.pin.key, triton.size, triton.sha256, triton.pin.index) == ("component.triton", 7, HASH, None)
    numpy = chosen(package("numpy", "2.2.4", wheel("numpy-2.2.4-cp313-cp313-manylinux_2_27_x86_64.whl")))
    assert (numpy.pin, numpy.size) == (None, None)


def test_a_wheel_without_a_name_is_named_by_its_address() -> None:
    address = "https://wheels.example.org/a/torch-2.11.0%2Brocm7.2-cp313-cp313-linux_x86_64.whl?x=1#y"
    found = chosen(package("torch", "2.11.0+rocm7.2", {"url": address, "hashes": {"sha256": HASH}}))
    assert found.file == "torch-2.11.0+rocm7.2-cp313-cp313-linux_x86_64.whl"


PINNED = samples.FULL.replace(
    'version = "3.6.0"', 'version = "3.6.0+rocm7.2"\nindex = "https://wheels.example.org/rocm"'
)


def test_a_pin_with_a_local_version_keeps_it_and_its_index() -> None:
    name = "triton-3.6.0+rocm7.2-cp313-cp313-linux_x86_64.whl"
    found = chosen(package("triton", "3.6.0+rocm7.2", wheel(name)), PINNED)
    assert found.pin is not None
    assert (found.version, found.file, found.pin.index) == (
        "3.6.0+rocm7.2", name, "https://wheels.example.org/rocm"
    )  # fmt: skip


@pytest.mark.parametrize(("text", "pinned"), [(samples.FULL, "3.6.0"), (PINNED, "3.6.0+rocm7.2")])
def test_another_local_version_than_the_pinned_one_is_refused(text: str, pinned: str) -> None:
    found = package("triton", "3.6.0+cpu", wheel("triton-3.6.0+cpu-cp313-cp313-linux_x86_64.whl"))
    with pytest.raises(LockError) as failure:
        chosen(found, text)
    assert failure.value.message == (
        f"{FILE}: component.triton.version: the recipe pins {pinned}, its index has 3.6.0+cpu"
    )
    assert (
        failure.value.hint == "set version = '3.6.0+cpu' if that is wanted, or name the index that has the other"
    )


def test_the_question_to_the_resolver_pins_exactly_and_offers_what_the_base_brings(tmp_path: Path) -> None:
    offers = (Offer(name="torch", version="2.6.0"),)
    asked: Any = project_file(
        question(samples.recipe(PINNED), offers=offers, fixed={"numpy": "2.2.4"}), Mirrors(), tmp_path
    )
    assert asked["project"]["dependencies"] == ["triton==3.6.0+rocm7.2", "sglang==0.5.16"]
    assert asked["project"]["requires-python"] == "==3.13.*"
    uv = asked["tool"]["uv"]
    assert uv["constraint-dependencies"] == ["torch==2.6.0", "numpy==2.2.4"]
    assert uv["index"] == [{"name": "index-0", "url": "https://wheels.example.org/rocm", "explicit": True}]
    assert uv["sources"] == {"triton": {"index": "index-0"}}
    assert {"name": "sglang", "version": "0.5.16", "requires-dist": ["numpy"]} in uv["dependency-metadata"]
    assert {"name": "torch", "version": "2.6.0", "requires-dist": []} in uv["dependency-metadata"]


@pytest.mark.parametrize("version", ["3.7.0.dev20260901", "3.7.0.dev20260901+rocm7.2", "2.0rc1", "0.1.21.post1"])
def test_a_nightly_or_other_odd_pin_is_asked_for_exactly(version: str, tmp_path: Path) -> None:
    recipe = samples.recipe(samples.FULL.replace('version = "3.6.0"', f'version = "{version}"'))
    asked: Any = project_file(question(recipe), Mirrors(), tmp_path)
    assert f"triton=={version}" in asked["project"]["dependencies"]
    assert recipe.wheels[0].version == version


@pytest.mark.parametrize(("libc", "minor"), [("2.41-12", 41), ("2.36-9+deb12u10", 36), ("", None)])
def test_the_libc_of_the_base_decides_which_wheels_run(libc: str, minor: int | None) -> None:
    assert glibc_minor(libc) == minor


@pytest.mark.parametrize(
    ("image", "minor"),
    [
        ("docker.io/rocm/dev-ubuntu-24.04:7.2.4", 39),
        ("docker.io/rocm/dev-ubuntu-22.04:7.2.4-complete", 35),
        ("docker.io/library/debian:trixie-slim", 41),
        ("docker.io/library/debian:12", 36),
        ("registry.example.org/engine:1", None),
    ],
)
def test_the_libc_of_a_published_base_is_what_its_name_tells(image: str, minor: int | None) -> None:
    assert glibc(f"{image}@sha256:{HASH}") == minor


def test_what_a_new_lock_changes_is_told_in_words() -> None:
    recipe = samples.recipe()
    old = samples.lock(recipe)
    changed = [
        file.model_copy(update={"version": "3.7.0"}) if file.project == "triton" else file for file in old.python
    ]
    new = old.model_copy(
        update={
            "deb": tuple(deb for deb in old.deb if deb.name != "hipcc"),
            "python": (*changed, samples.wheel("orjson", "dependencies", "3.0")),
        }
    )
    assert told(old, new) == (
        "deb hipcc: 1.0-1 -> gone",
        "orjson: not there -> 3.0",
        "triton: 3.6.0 -> 3.7.0",
    )
    assert told(old, old) == ("nothing changed",)
    assert told(None, old) == (
        f"{len(old.deb)} Debian packages and {len(old.python)} Python distributions locked",
    )


def test_a_new_lock_tells_of_patches_and_of_the_trees_they_change() -> None:
    root = Path(__file__).resolve().parents[3]
    text = (root / "images/vllm-debian-patched/recipe.lock").read_text()
    new = parse_lock(text, file="recipe.lock")
    source = new.source["vllm"]
    assert source.patched is not None
    plain = new.model_copy(
        update={"patch": new.patch[1:], "source": {"vllm": source.model_copy(update={"patched": None})}}
    )
    (file,) = new.patch[1].file
    other = new.patch[1].model_copy(update={"file": (file.model_copy(update={"sha256": HASH}),)})
    added, tree = told(plain, new)
    assert re.fullmatch(r"patch kv-connector: not there -> [0-9a-f]{12} \(applies\)", added)
    assert tree == f"source vllm, patched: not there -> {source.patched[:12]}"
    (changed,) = told(new, new.model_copy(update={"patch": (new.patch[0], other)}))
    assert re.fullmatch(r"patch skinny-gate: [0-9a-f]{12} \(applies\) -> [0-9a-f]{12} \(applies\)", changed)


def test_the_shipped_lock_holds_what_this_choice_would_take_again() -> None:
    root = Path(__file__).resolve().parents[3]
    lock = tomli.loads((root / "images/sglang-debian/recipe.lock").read_text())
    tags = set(_tags("3.13", 41))
    for file in lock["python"]:
        name, _, _, of = parse_wheel_filename(file["file"])
        assert canonicalize_name(name) == file["project"]
        assert of & tags, file["file"]
