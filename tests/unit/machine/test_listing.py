"""The engine's list of images, over its own API: one that fails because an image went meanwhile is asked anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import docker
import docker.errors
import pytest

from builder.engine.images import listed

from ..smoke.engine import answering

IMAGES = [{"Id": "sha256:1", "RepoTags": ["a:1"]}]


@contextmanager
def client(failures: int) -> Iterator[docker.DockerClient]:
    with answering() as engine:
        engine.images, engine.failures = IMAGES, failures
        asking = docker.DockerClient(base_url=engine.url, version="1.45")
        try:
            yield asking
        finally:
            asking.close()


@pytest.mark.parametrize("failures", [0, 1, 5])
def test_an_image_that_goes_meanwhile_does_not_hide_the_others(failures: int) -> None:
    with client(failures) as asking:
        assert listed(asking, filters={"reference": "a"}) == IMAGES


def test_an_engine_that_never_has_a_list_is_told_of() -> None:
    with client(1000) as asking, pytest.raises(docker.errors.NotFound, match="calculate size"):
        listed(asking, whole=True)
