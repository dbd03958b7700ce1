"""Renovate sees what `rocm-images pins` lists of recipes, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from builder.pins import Pin, pins
from builder.recipe import parse_recipe
from builder.variants import origin_of

from ..project import REPOSITORY
from .conftest import EVERY, MADE_UP, OWN, RECIPES, Scene, every_recipe

pytestmark = pytest.mark.network

Seen = tuple[str | None, ...]
_DATASOURCES = {
    "image": "docker", "untagged-image": "docker", "tag": "git-tags", "branch": "git-refs",
    "release-file": "github-release-attachments", "archive": "custom.archive",
}  # fmt: skip
_OF_ORIGINS = {
    "registry": "docker", "git": "git-tags", "index": "pypi", "flat-index": "custom.flat-index",
    "github": "github-releases",
}  # fmt: skip


def as_seen(file: str, pin: Pin) -> Seen:
    """Return a pin as a robot sees it."""
    datasource = _DATASOURCES.get(pin.kind) or _OF_ORIGINS[pin.origin]
    index = pin.index.rstrip("/") if pin.index is not None else None
    name = f"{pin.name} ({pin.key})" if pin.kind == "version" else pin.name
    return file, pin.kind, name, datasource, pin.source, pin.value, pin.digest, index


def as_extracted(file: str, dependency: Mapping[str, Any]) -> Seen:
    """Return what Renovate's manager has of a dependency."""
    index = next((address.rstrip("/") for address in dependency.get("registryUrls", ())), None)
    return (
        file, dependency["depType"], dependency["depName"], dependency["datasource"], dependency["packageName"],
        dependency.get("currentValue"), dependency.get("currentDigest"), index,
    )  # fmt: skip


def extracted(scene: Scene, repository: str) -> Counter[Seen]:
    found = scene.first.dependencies(repository)
    return Counter(as_extracted(file, each) for manager, file, each in found if manager == "jsonata")


def pinned(file: str, text: str) -> Counter[Seen]:
    if origin_of(text) is not None:  # a variant has the pins of another recipe, in that one's file
        return Counter()
    return Counter(as_seen(file, pin) for pin in pins(parse_recipe(text, file=file)))


def test_every_pin_of_every_shipped_recipe_is_seen_and_nothing_else_of_this_repository(scene: Scene) -> None:
    expected: Counter[Seen] = Counter()
    for path in sorted((REPOSITORY / "images").glob("*/recipe.toml")):
        expected += pinned(str(path.relative_to(REPOSITORY)), path.read_text(encoding="utf-8"))
    assert extracted(scene, OWN) == expected
    others = {(manager, file) for manager, file, _ in scene.first.dependencies(OWN) if manager != "jsonata"}
    assert {manager for manager, _ in others} == {"github-actions"}
    assert all(file.startswith(".github/") for _, file in others)


def test_every_kind_of_pin_is_seen_and_nothing_else_of_a_repository_of_recipes(scene: Scene) -> None:
    expected: Counter[Seen] = Counter()
    for path in sorted(MADE_UP.glob("images/*/recipe.toml")):
        text = scene.filled(path.read_text(encoding="utf-8"))
        expected += pinned(str(path.relative_to(MADE_UP)), text)
    assert extracted(scene, RECIPES) == expected
    assert {kind for _, kind, *_ in expected} == {*_DATASOURCES, "sdist", "wheel", "version", "requirement"}


def test_recipes_of_other_tests_are_seen_as_the_program_sees_them(scene: Scene) -> None:
    expected: Counter[Seen] = Counter()
    for folder in every_recipe():
        name = f"images/{folder.parent.name}-{folder.name}/recipe.toml"
        expected += pinned(name, (folder / "recipe.toml").read_text(encoding="utf-8"))
    assert extracted(scene, EVERY) == expected
    assert scene.first.branches(EVERY) == {}
