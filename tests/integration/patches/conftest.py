"""An image with every kind of patch, and one without any that another is built on; locked and built once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest

from ..conftest import MakeProject, removed_afterwards
from ..project import REPOSITORY, Ended, Project, make_project

PATCHED = REPOSITORY / "tests/data/images/patched"
SERIES = REPOSITORY / "tests/data/patches/toy"
WORDS = {"reason": "tried", "upstream": "https://git.example/toy/issues/2", "drop-when": "never"}
Recipe = dict[str, Any]
Change = Callable[[Recipe], None]


@dataclass(frozen=True, kw_only=True)
class Patches:
    """The patches of an image on another, and files beside its recipe by name."""

    patches: tuple[dict[str, Any], ...]
    files: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(scope="session")
def built(
    namespace: Callable[[], str], shared: dict[str, Path], engine: docker.DockerClient
) -> Iterator[tuple[Project, Ended]]:
    """The image `patched`, published, and `plain`, the same without patches; and what building the first said."""
    with removed_afterwards(engine) as projects:
        project = make_project(namespace(), shared)
        projects.append(project)
        project.add("patched", PATCHED)
        project.add("plain", PATCHED, lambda recipe: recipe.pop("patch"))
        shutil.copytree(SERIES, project.workspace.root / "patches/toy")
        project.done("lock", "patched", "plain")
        ended = project.build("patched")
        assert ended.status == 0, ended.stderr
        project.done("build", "plain")
        yield project, ended


@pytest.fixture
def variant(built: tuple[Project, Ended], make: MakeProject) -> Callable[[Change], Project]:
    """Make a project with the image `patched`, changed, with the lock of the first."""

    def made(change: Change) -> Project:
        project, (first, _) = make(), built
        project.add("patched", first.workspace.images / "patched", change)
        shutil.copytree(SERIES, project.workspace.root / "patches/toy")
        return project

    return made


@pytest.fixture
def above(built: tuple[Project, Ended], make: MakeProject) -> Callable[[Patches], Project]:
    """Make a project with the image `plain` and one on it, `above`, with patches of what it has installed."""

    def made(wanted: Patches) -> Project:
        project, (first, _) = make(), built
        project.add("plain", first.workspace.images / "plain")

        def on_plain(recipe: Recipe) -> None:
            recipe["base"] = {stage: {"recipe": "plain"} for stage in ("build", "runtime")}
            recipe["component"] = [{"name": "toy", "base": "toy", "version": "1.0"}]
            recipe["patch"] = [{"target": "toy", **WORDS, **patch} for patch in wanted.patches]
            recipe["smoke"]["imports"] = ["toy"]
            del recipe["source"]

        project.add("above", PATCHED, on_plain)
        for name, text in wanted.files.items():
            path = project.workspace.images / "above" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        project.done("lock", "above")
        return project

    return made


def patch_of(recipe: Recipe, name: str) -> dict[str, Any]:
    """Return a patch of a recipe."""
    return next(patch for patch in recipe["patch"] if patch["name"] == name)


def said_in(engine: docker.DockerClient, image: str, program: str) -> Any:
    """Return what a program says in an image, as its user, read-only and without a network, as JSON."""
    out = engine.containers.run(
        image, ["python3", "-c", program], read_only=True, network_mode="none", remove=True, tmpfs={"/tmp": ""}
    )
    return json.loads(out)


def local(engine: docker.DockerClient, project: Project, image: str) -> str:
    """Return the id of the image that a project's last build made."""
    state = json.loads((project.workspace.dist / image / "state.json").read_text())
    return str(state["digest"])
