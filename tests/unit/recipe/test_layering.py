"""Layers of what is no component: the large ones alone, the rest in groups that no other distribution moves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.layering import GROUPS, LARGE, MOST_ALONE, dependency_layers, layer_of, part_of
from builder.lockfile import Lock, PythonFile
from builder.plan import content_inputs, layers

from .samples import TOOLING, lock, recipe, wheel

SMALL = LARGE // 4
PROJECTS = st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)?", fullmatch=True)
SIZES = st.none() | st.integers(0, 3 * LARGE)


def sized(project: str, size: int | None) -> PythonFile:
    return wheel(project, "dependencies").model_copy(update={"size": size})


def locked(sizes: Mapping[str, int | None], *others: PythonFile) -> Lock:
    files = tuple(sized(project, size) for project, size in sizes.items())
    return lock(recipe()).model_copy(update={"python": (*files, *others)})


def divided(sizes: Mapping[str, int | None]) -> dict[str, list[str]]:
    found = dependency_layers(locked(sizes))
    return {name: [each.project for each in wheels] for name, wheels in found.items()}


def test_a_large_distribution_is_alone_and_few_small_ones_are_together() -> None:
    sizes = {"attrs": 1000, "scipy": LARGE, "tqdm": None, "zipp": LARGE - 2000}
    assert divided(sizes) == {"dependencies": ["attrs", "tqdm", "zipp"], "dependencies.scipy": ["scipy"]}


def test_many_small_ones_are_in_groups() -> None:
    found = divided({f"small-{number}": SMALL for number in range(200)})
    assert list(found) == [f"dependencies.{number}" for number in range(1, GROUPS + 1)]
    assert all(200 / GROUPS / 2 < len(group) < 200 / GROUPS * 2 for group in found.values())


def test_no_distribution_moves_another_one_to_another_group() -> None:
    many = {f"small-{number}": SMALL for number in range(40)}
    before, after = divided(many), divided(many | {"one-more": SMALL})
    group = next(name for name, projects in after.items() if "one-more" in projects)
    assert [name for name in after if before.get(name) != after[name]] == [group]


def test_the_largest_are_alone_where_more_are_large_than_an_image_has_room_for() -> None:
    sizes = {f"large-{number:02}": LARGE + number for number in range(MOST_ALONE + 3)}
    found = divided(sizes)
    alone = [name for name, projects in found.items() if f"dependencies.{projects[0]}" == name]
    assert alone == [f"dependencies.large-{number:02}" for number in range(3, MOST_ALONE + 3)]
    assert sorted(project for projects in found.values() for project in projects) == sorted(sizes)


def test_an_image_has_no_more_layers_of_dependencies_than_its_budget() -> None:
    sizes = {f"project-{number}": LARGE * (number % 2) + 1000 * number for number in range(1000)}
    assert len(divided(sizes)) == MOST_ALONE + GROUPS


def test_a_project_called_by_a_number_takes_the_name_of_no_group() -> None:
    many = {f"small-{number}": SMALL for number in range(40)}
    found = divided(many | {"3": 2 * LARGE})
    assert sum(map(len, found.values())) == len(many) + 1
    assert set(found) <= {f"dependencies.{number}" for number in range(1, GROUPS + 1)}


@given(st.dictionaries(PROJECTS, SIZES, max_size=40))
def test_every_wheel_is_in_one_layer(sizes: dict[str, int | None]) -> None:
    own, build = wheel("triton", "triton"), wheel("cmake", "kernels.build")
    of = locked(sizes, own, build)
    found = layer_of(of)
    assert list(found) == list(of.python)
    assert (found[own], found[build]) == ("triton", "kernels.build")
    assert {name for name in found.values() if part_of(name) == "dependencies"} == set(dependency_layers(of))
    assert all(found[each] == name for name, wheels in dependency_layers(of).items() for each in wheels)


def test_layers_of_dependencies_lie_below_those_of_components() -> None:
    of = locked({"scipy": LARGE, "tqdm": 1000}, wheel("triton", "triton"), wheel("sglang", "sglang"))
    assert layers(recipe(), of) == ("dependencies", "dependencies.scipy", "triton", "kernels", "sglang")


def test_the_content_key_knows_the_layer() -> None:
    """An index that tells sizes and one that does not give the same files and two images."""
    told, untold = locked({"scipy": LARGE}), locked({"scipy": None})
    one, other = (content_inputs(recipe(), each, TOOLING) for each in (told, untold))
    assert {key for key in one if one[key] != other[key]} == {"wheel.scipy"}


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        ("dependencies", "dependencies"), ("dependencies.3", "dependencies"),
        ("dependencies.hf-xet", "dependencies"), ("dependencies-of-mine", "dependencies-of-mine"),
        ("triton", "triton"), ("manifest", "manifest"),
    ],
)  # fmt: skip
def test_a_layer_belongs_to_a_part(layer: str, part: str) -> None:
    assert part_of(layer) == part
