"""What differs between two published images of the shipped engine, and what a node really pulls for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from ..conftest import removed_afterwards
from ..project import Ended, Project, make_project
from .node import Counting, node

pytestmark = pytest.mark.engine

IMAGE = "sglang-debian"
BEFORE, AFTER = "3.6.0", "3.5.1"


def _other_triton(recipe: dict[str, Any]) -> None:
    (triton,) = (each for each in recipe["component"] if each["name"] == "triton")
    assert triton["version"] == BEFORE
    triton["version"] = AFTER
    recipe["smoke"] = {}  # no part of what is built; the shipped image has passed its tests already


def test_an_image_in_a_registry_is_looked_into_without_its_large_layers(
    sglang_debian: tuple[Project, Ended], registry: str
) -> None:
    project, _ = sglang_debian
    record = json.loads(project.workspace.pin(IMAGE).read_text())
    proxy = Counting(registry)
    try:
        reference = f"{proxy.address}{record['reference'].removeprefix(registry)}"
        found = json.loads(project.done("inspect", reference, "--json").stdout)
    finally:
        proxy.close()
    assert found["made-by-rocm-images"] is True
    assert [(each["name"], each["version"]) for each in found["components"]] == [
        (each["name"], each["version"]) for each in record["components"]
    ]
    assert [(each["owner"], each["digest"], each["size"]) for each in found["layers"]] == [
        (each["owner"], each["digest"], each["size"]) for each in record["layers"]
    ]
    assert found["size"] == record["size"]
    assert (found["fingerprint"], found["gfx"]) == (record["fingerprint"], record["gfx"])
    assert sum(proxy.sent.values()) < 1_000_000

    by_engine = json.loads(project.done("inspect", IMAGE, "--json").stdout)
    assert by_engine["read-from"] == "engine"
    for key in ("components", "patches", "contract", "layers", "size", "digest", "bases"):
        assert by_engine[key] == found[key], key


@pytest.fixture(scope="module")
def bumped(
    sglang_debian: tuple[Project, Ended], namespace: Callable[[], str], shared: dict[str, Path],
    engine: docker.DockerClient,
) -> Iterator[Project]:  # fmt: skip
    """The shipped image with nothing but another Triton, built and published."""
    first, _ = sglang_debian
    with removed_afterwards(engine) as projects:
        project = make_project(namespace(), shared)
        projects.append(project)
        shutil.copytree(first.workspace.images / IMAGE, project.workspace.images / IMAGE)
        project.edit(IMAGE, _other_triton)
        project.done("lock", IMAGE, "--update", "triton")
        ended = project.build(IMAGE)
        assert ended.status == 0, ended.stderr
        yield project


@pytest.fixture(scope="module")
def difference(sglang_debian: tuple[Project, Ended], bumped: Project) -> dict[str, Any]:
    records = [str(each.workspace.pin(IMAGE)) for each in (sglang_debian[0], bumped)]
    found: dict[str, Any] = json.loads(bumped.done("diff", *records, "--json").stdout)
    return found


def test_a_bump_of_the_triton_pin_names_triton_alone(
    sglang_debian: tuple[Project, Ended], bumped: Project, difference: dict[str, Any]
) -> None:
    changed = [each for each in difference["components"] if each["status"] != "same"]
    assert [(each["name"], each["old"], each["new"]) for each in changed] == [("triton", BEFORE, AFTER)]
    for group in ("patches", "bases", "packages", "build-packages", "distributions", "contract"):
        assert difference[group] == [], group
    assert difference["fingerprint"]["moved"] is True
    assert [layer["owner"] for layer in difference["pull"]["layers"]] == ["triton", "manifest"]

    records = [str(each.workspace.pin(IMAGE)) for each in (sglang_debian[0], bumped)]
    told = bumped.done("diff", *records).stdout
    assert f"component     triton {BEFORE} -> {AFTER}\n" in told
    assert f"to pull       {difference['pull']['size']} bytes" in told


def test_references_differ_as_their_records_do(
    sglang_debian: tuple[Project, Ended], bumped: Project, difference: dict[str, Any]
) -> None:
    references = [
        json.loads(each.workspace.pin(IMAGE).read_text())["reference"] for each in (sglang_debian[0], bumped)
    ]
    of_images = json.loads(bumped.done("diff", *references, "--json").stdout)
    for group in (
        "components",
        "patches",
        "packages",
        "distributions",
        "contract",
        "pull",
        "fingerprint",
        "digest",
    ):
        assert of_images[group] == difference[group], group


def test_a_node_that_has_the_one_pulls_the_new_layers_of_the_other_and_no_byte_more(
    sglang_debian: tuple[Project, Ended],
    bumped: Project,
    registry: str,
    difference: dict[str, Any],
    tmp_path: Path,
) -> None:
    proxy = Counting(registry)
    try:
        with node(tmp_path) as pulling:
            for project in (sglang_debian[0], bumped):
                proxy.sent.clear()
                record = json.loads(project.workspace.pin(IMAGE).read_text())
                name = record["reference"].removeprefix(registry)
                pulling.pull(f"{proxy.address}{name}")
                layers = {layer["digest"] for layer in record["layers"]}
                if project is not bumped:
                    assert layers <= proxy.sent.keys()
    finally:
        proxy.close()
    pulled = {digest: count for digest, count in proxy.sent.items() if digest in layers}
    promised = {layer["digest"]: layer["size"] for layer in difference["pull"]["layers"]}
    assert pulled == promised
    assert sum(pulled.values()) == difference["pull"]["size"]
    config = bumped.served(IMAGE, record["digest"]).json()["config"]
    assert {d: n for d, n in proxy.sent.items() if d not in layers} == {config["digest"]: config["size"]}
