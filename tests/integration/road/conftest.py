"""The smallest image that goes the whole road, locked once for all tests."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from ..conftest import MakeProject, removed_afterwards
from ..project import REPOSITORY, Ended, Project, Running, make_project

TINY = REPOSITORY / "tests/data/images/tiny"
Tiny = Callable[..., Project]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="session")
def locked(
    namespace: Callable[[], str], shared: dict[str, Path], engine: docker.DockerClient
) -> Iterator[Project]:
    """A project whose image `tiny` was locked and published, so that its files are there and its base is made.

    It has a file of its own in every session, so that no other session's containers are taken for this one's.
    """
    with removed_afterwards(engine) as projects:
        project = make_project(namespace(), shared)
        projects.append(project)
        project.add("tiny", TINY)
        (project.workspace.images / "tiny/marker/marker").write_text(secrets.token_hex(16))
        project.done("lock", "tiny")
        project.done("build", "tiny", "--publish", project.publish)
        yield project


@pytest.fixture(scope="session")
def rebuild(
    sglang_debian: tuple[Project, Ended], namespace: Callable[[], str], store: Path, engine: docker.DockerClient
) -> Iterator[tuple[Project, Running]]:
    """A build of the shipped image in another place, from the base on, past every cache; it is under way."""
    first, _ = sglang_debian
    with removed_afterwards(engine) as projects:
        project = make_project(namespace(), {"store": store})
        projects.append(project)
        shutil.copytree(first.workspace.images / "sglang-debian", project.workspace.images / "sglang-debian")
        run = project.start("build", "sglang-debian", "--publish", project.publish, "--no-cache")
        try:
            yield project, run
        finally:
            run.stop()


@pytest.fixture
def tiny(locked: Project, make: MakeProject) -> Tiny:
    """Make a project with the image `tiny`, changed by `change` and locked as far as that needs it.

    With `fresh`, one of its files has a content of its own, so that no build cache holds the step that brings it.
    """

    def project(
        change: Change | None = None, *, fresh: bool = False, relock: bool = False, own: Collection[str] = ()
    ) -> Project:
        new = make(own=own)
        new.add("tiny", locked.workspace.images / "tiny", change)
        if fresh:
            (new.workspace.images / "tiny/marker/marker").write_text(secrets.token_hex(16))
        if relock:
            new.done("lock", "tiny")
        elif fresh:
            new.done("lock", "tiny", "--update", "marker")
        return new

    return project


def copy_objects(origin: Path, target: Path, wanted: set[str]) -> None:
    """Copy objects from one store to another, by hard links where the file system allows it."""
    for sha256 in wanted:
        place = target / "sha256" / sha256[:2] / sha256
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            place.hardlink_to(origin / "sha256" / sha256[:2] / sha256)
        except OSError:
            shutil.copyfile(origin / "sha256" / sha256[:2] / sha256, place)
