"""A registry for the checks that ask one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from builder.host import registry_service
from builder.host.registry_service import RegistrySettings
from builder.story import Silent


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a registry: the one in the environment, else one that runs as long as these tests do."""
    if given := os.environ.get("ROCM_IMAGES_TEST_REGISTRY"):
        yield given
        return
    settings = RegistrySettings(folder=tmp_path_factory.mktemp("registry"), port=15510)
    yield registry_service.up(settings, Silent())
    registry_service.down(settings, Silent())
