"""Whatever happens on the way to a registry, a version tag names tested bytes or is not there; a rerun succeeds.

The engine and the registry are real, a proxy between them and this program makes the faults. The image is a file
of two megabytes, so that a connection can break in the middle of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import docker.errors
import pytest
import requests

from builder.engine.build import build_image
from builder.errors import EngineError, PublishError
from builder.host import registry_service
from builder.host.registry_service import RegistrySettings
from builder.mirrors import Mirrors
from builder.reference import Digest, parse_reference
from builder.registries.referrers import referrers
from builder.story import Silent

from ..project import MANIFEST, REPOSITORY, SAFETY_SECONDS
from .loopback import Relay
from .proxy import Fault, Proxy, cut, proxied, status, wrong_digest
from .publish_one import publish_one

pytestmark = pytest.mark.engine

TAG = "1.0-0123456789ab"
ALWAYS = 1 << 30
LOGIN = {"WWW_Authenticate": 'Basic realm="here"'}
LAYER = r"(?:PUT|PATCH) .*/blobs/uploads/"
# What can go wrong once, or go on going wrong, by where: the layer, the candidate, the documents, the version tag.
FAULTS: dict[str, tuple[str, Callable[..., None]]] = {
    "a connection cut in the middle of a blob": (LAYER, cut),
    "500 to a blob": (LAYER, status(500)),
    "500 to the beginning of an upload": (r"POST ", status(500)),
    "500 to the candidate": (r"PUT .*/manifests/candidate", status(500)),
    "500 to a document": (r"PUT .*/manifests/sha256:", status(500)),
    "500 to the version tag": (rf"PUT .*/manifests/{TAG}", status(500)),
    "a connection cut in the version tag": (rf"PUT .*/manifests/{TAG}", cut),
    "429 to a blob": (LAYER, status(429, Retry_After="0")),
    "429 to the version tag": (rf"PUT .*/manifests/{TAG}", status(429, Retry_After="0")),
    "429 to any question": (r"HEAD ", status(429, Retry_After="0")),
    "401 to a blob": (LAYER, status(401, **LOGIN)),
    "401 to the version tag": (rf"PUT .*/manifests/{TAG}", status(401, **LOGIN)),
    "another digest of the candidate": (r"GET .*/manifests/sha256:", wrong_digest),
    "another digest of the version tag": (rf"(?:PUT|GET) .*/manifests/{TAG}", wrong_digest),
}
# What is not tried again: somebody else has to do something about it.
FINAL = {"401 to a blob", "another digest of the version tag"}

Image = Callable[[], str]


@pytest.fixture(scope="module")
def image(engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Make images of one file, of random content, and remove them and what was pushed of them."""
    made: list[str] = []

    def make() -> str:
        folder = tmp_path_factory.mktemp("image")
        (folder / "context").mkdir()
        (folder / "context/file").write_bytes(secrets.token_bytes(2 << 20))
        (folder / "Dockerfile").write_text("FROM scratch\nCOPY file /file\n")
        tag = f"rocm-images.local/published-{secrets.token_hex(6)}:1"
        built = build_image(
            folder / "context", dockerfile=folder / "Dockerfile", contexts={}, tag=tag, epoch=1, cache=True,
            story=Silent(), containerd_store=True, log=folder / "log",
        )  # fmt: skip
        made.append(built.id)
        return built.id

    yield make
    for each in made:
        attrs = engine.images.get(each).attrs
        for name in (*attrs["RepoTags"], *attrs["RepoDigests"]):
            with contextlib.suppress(docker.errors.ImageNotFound):  # one name may take another with it
                engine.images.remove(name)


@pytest.fixture
def proxy(registry: str) -> Iterator[Proxy]:
    with proxied(registry) as running:
        yield running


def named(registry: str, repository: str, tag: str = TAG) -> str | None:
    """Return what the registry itself says that a tag names."""
    url = f"http://{registry}/v2/{repository}/manifests/{tag}"
    answer = requests.head(url, headers={"Accept": MANIFEST}, timeout=30)
    return answer.headers["Docker-Content-Digest"] if answer.status_code == 200 else None


def whole(registry: str, repository: str, image: str) -> bool:
    """Tell whether the registry serves every part of an image."""
    manifest = requests.get(
        f"http://{registry}/v2/{repository}/manifests/{image}", headers={"Accept": MANIFEST}, timeout=30
    ).json()
    parts = [manifest["config"], *manifest["layers"]]
    answers = [requests.head(f"http://{registry}/v2/{repository}/blobs/{e['digest']}", timeout=30) for e in parts]
    return [int(each.headers["Content-Length"]) for each in answers] == [part["size"] for part in parts]


def settled(registry: str, repository: str, image: str) -> None:
    """A publication that came to its end: tag, parts and document are there, and the candidate's tag is gone."""
    assert named(registry, repository) == image
    assert whole(registry, repository, image)
    subject = parse_reference(f"{registry}/{repository}").at(digest=Digest(image))
    assert len(referrers(subject, mirrors=Mirrors())) == 1
    assert named(registry, repository, "candidate") is None


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_does_not_stop_a_publication_and_one_that_stays_leaves_no_untested_tag(
    fault: str, image: Image, proxy: Proxy, registry: str
) -> None:
    at, do = FAULTS[fault]
    for times in (1, ALWAYS):
        built, repository = image(), f"test-{secrets.token_hex(6)}/image"
        proxy.faults = [Fault(at, do, times)]
        failed = None
        try:
            assert publish_one(built, f"{proxy.address}/{repository}", TAG) == built
        except (PublishError, EngineError) as failure:
            failed = failure
        assert proxy.faults[0].times < times, "the fault never happened"
        assert (failed is not None) == (times == ALWAYS or fault in FINAL), (times, failed)
        assert named(registry, repository) in (built, None)

        proxy.faults = []
        assert publish_one(built, f"{proxy.address}/{repository}", TAG) == built
        settled(registry, repository, built)


@pytest.mark.parametrize("moment", ["candidate", "document", "tag"])
def test_a_run_that_is_killed_leaves_no_untested_tag_and_the_next_one_ends_it(
    moment: str, image: Image, registry: str
) -> None:
    built, repository = image(), f"test-{secrets.token_hex(6)}/image"
    at = {"candidate": "candidate", "document": "sha256:", "tag": TAG}[moment]
    relay = Relay(registry, at=rf"PUT /v2/[^ ]*/manifests/{at}".encode())
    words = [built, f"{relay.address}/{repository}", TAG]
    package = f"{__package__}.publish_one" if __package__ else None
    run = subprocess.Popen([sys.executable, "-m", package or "publish_one", *words], cwd=REPOSITORY)
    assert relay.gate.reached.wait(timeout=SAFETY_SECONDS)
    run.send_signal(signal.SIGKILL)
    run.wait(timeout=SAFETY_SECONDS)
    relay.close()
    assert named(registry, repository) is None
    assert named(registry, repository, "candidate") == (None if moment == "candidate" else built)

    assert publish_one(built, f"{registry}/{repository}", TAG) == built
    settled(registry, repository, built)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_registry_whose_disk_is_full_gets_no_tag_and_takes_the_image_when_there_is_room(
    image: Image, tmp_path: Path
) -> None:
    built, repository = image(), "team/image"
    settings = RegistrySettings(folder=tmp_path / "registry", port=16500)
    settings.data.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", settings.data], check=True)
    try:
        address = registry_service.up(settings, Silent())
        with pytest.raises((PublishError, EngineError)):
            publish_one(built, f"{address}/{repository}", TAG)
        assert named(address, repository) is None
        subprocess.run(["mount", "-o", "remount,size=16m", settings.data], check=True)
        assert publish_one(built, f"{address}/{repository}", TAG) == built
        settled(address, repository, built)
    finally:
        registry_service.down(settings, Silent())
        subprocess.run(["umount", settings.data], check=True)


def test_publishers_of_one_repository_at_the_same_time_do_not_harm_each_other(image: Image, registry: str) -> None:
    repository = f"test-{secrets.token_hex(6)}/image"
    built = [image() for _ in range(3)]
    tags = [f"{number}.0-0123456789ab" for number in range(3)]
    package = f"{__package__}.publish_one"
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", package, each, f"{registry}/{repository}", tag], cwd=REPOSITORY
        )
        for each, tag in zip(built, tags, strict=True)
    ]  # fmt: skip
    assert [run.wait(timeout=SAFETY_SECONDS) for run in runs] == [0, 0, 0]
    assert [named(registry, repository, tag) for tag in tags] == built
    assert all(whole(registry, repository, each) for each in built)


def test_two_images_under_one_tag_are_refused_with_both_digests_unless_it_may_move(
    image: Image, registry: str
) -> None:
    place = f"{registry}/test-{secrets.token_hex(6)}/image"
    first, second = image(), image()
    publish_one(first, place, TAG)
    with pytest.raises(PublishError, match="the tag names other bytes already") as failure:
        publish_one(second, place, TAG)
    assert failure.value.details == (f"published {first}", f"tested    {second}")
    assert failure.value.hint is not None
    assert "--move-tag" in failure.value.hint
    assert named(registry, place.partition("/")[2]) == first
    assert publish_one(second, place, TAG, move_tag=True) == second
    assert named(registry, place.partition("/")[2]) == second
    assert whole(registry, place.partition("/")[2], first)
