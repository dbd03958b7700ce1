"""What integration tests share: a registry, fetched files, a built engine image, a proof that nothing is left."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
import docker.errors
import pytest

from builder.engine.client import connect
from builder.engine.containers import RUN_LABEL
from builder.engine.images import listed
from builder.host import registry_service
from builder.host.registry_service import RegistrySettings
from builder.project import LOCAL
from builder.story import Silent

from .bridge import own_bridge
from .project import REPOSITORY, Ended, Project, make_project

REGISTRY_VARIABLE = "ROCM_IMAGES_TEST_REGISTRY"
MakeProject = Callable[..., Project]


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="session", autouse=True)
def engine_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """The engine holds after the tests what it held before; only its build cache may have grown."""
    if not any(item.get_closest_marker("engine") for item in request.session.items):
        yield
        return
    client: docker.DockerClient = request.getfixturevalue("engine")
    before = _holds(client)
    yield
    assert _holds(client) == before


def _holds(client: docker.DockerClient) -> dict[str, set[str]]:
    """Return what an engine holds that these tests could have left there; it may be busy for somebody else."""
    images, keys = listed(client, whole=True), ("RepoTags", "RepoDigests")
    references = {name for image in images for key in keys for name in image[key] or ()}
    return {
        "containers": {each["Id"] for each in client.api.containers(all=True, filters={"label": RUN_LABEL})},
        "images": {
            name for name in references if name.startswith((f"{LOCAL}/", "127.0.0.1:", "rocm-images-forged"))
        },
        "volumes": {volume.name for volume in client.volumes.list()},
        "networks": {network.name for network in client.networks.list()},
        # What they stand on, as far as this machine has it: another engine may take it away.
        "bridges": {
            name
            for network in client.networks.list()
            if (name := (network.attrs["Options"] or {}).get("com.docker.network.bridge.name"))
            and Path("/sys/class/net", name).exists()
        },
    }


@pytest.fixture
def bridge() -> Iterator[str]:
    """A network bridge for an engine of the test's own. Needs root."""
    with own_bridge() as name:
        yield name


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a registry: the one in the environment, else one that runs as long as the tests do."""
    if given := os.environ.get(REGISTRY_VARIABLE):
        yield given
        return
    settings = RegistrySettings(folder=tmp_path_factory.mktemp("registry"), port=15500)
    yield registry_service.up(settings, Silent())
    registry_service.down(settings, Silent())
    shutil.rmtree(settings.data)


@pytest.fixture(scope="session")
def store() -> Path:
    """The project's own fetched files, so that nothing is downloaded twice."""
    return REPOSITORY / ".rocm-images/store"


@pytest.fixture(scope="session")
def shared(store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of their state that projects share: fetched files, and what the first that needs it makes."""
    store.mkdir(parents=True, exist_ok=True)
    return {"store": store} | {name: tmp_path_factory.mktemp(name) for name in ("bases", "inventories")}


@contextmanager
def removed_afterwards(engine: docker.DockerClient) -> Iterator[list[Project]]:
    """Take projects, and remove them and what they left in the engine's store; images that were there stay."""
    before = _local_images(engine)
    projects: list[Project] = []
    try:
        yield projects
    finally:
        for project in projects:
            own = tuple(f"{LOCAL}/{path.name}:" for path in project.workspace.images.iterdir())
            namespace = project.publish.partition("/")[2]
            for image in listed(engine, whole=True):
                for name in (*(image["RepoTags"] or ()), *(image["RepoDigests"] or ())):
                    if f"/{namespace}/" in name or (name.startswith(own) and name not in before):
                        with suppress(docker.errors.ImageNotFound):
                            engine.images.remove(name)
            shutil.rmtree(project.folder)


def forget(engine: docker.DockerClient, start: str) -> None:
    """Remove every image from the engine's store whose name begins so."""
    for image in listed(engine, whole=True):
        for name in (*(image["RepoTags"] or ()), *(image["RepoDigests"] or ())):
            if name.startswith(start):
                with suppress(docker.errors.ImageNotFound):
                    engine.images.remove(name)


@pytest.fixture(scope="session")
def namespace(registry: str) -> Callable[[], str]:
    """Return a HOST/NAMESPACE that nobody published to yet."""
    return lambda: f"{registry}/test-{secrets.token_hex(6)}"


@pytest.fixture
def make(
    namespace: Callable[[], str], shared: dict[str, Path], engine: docker.DockerClient
) -> Iterator[MakeProject]:
    """Make projects that share what all tests share but for the folders named by `own`."""
    with removed_afterwards(engine) as projects:

        def project(*, own: Collection[str] = ()) -> Project:
            new = make_project(namespace(), {name: place for name, place in shared.items() if name not in own})
            projects.append(new)
            return new

        yield project


@pytest.fixture
def project(make: MakeProject) -> Project:
    """An empty project of this test's own, with the files and bases of all."""
    return make()


def _local_images(engine: docker.DockerClient) -> set[str]:
    return {name for image in listed(engine) for name in image["RepoTags"] or () if name.startswith(LOCAL)}


@pytest.fixture(scope="session")
def sglang_debian(
    namespace: Callable[[], str], shared: dict[str, Path], engine: docker.DockerClient
) -> Iterator[tuple[Project, Ended]]:
    """The shipped engine image, built, tested and published by the command line; and what that run said."""
    with removed_afterwards(engine) as projects:
        project = make_project(namespace(), shared)
        projects.append(project)
        shutil.copytree(REPOSITORY / "images/sglang-debian", project.workspace.images / "sglang-debian")
        ended = project.build("sglang-debian")
        assert ended.status == 0, ended.stderr
        yield project, ended
