"""The same lock gives the same image, bit for bit."""

from __future__ import annotations

import json
import re

import pytest

from ..project import Ended, Project, Running
from .conftest import Tiny

pytestmark = pytest.mark.engine


def test_from_the_base_on_and_past_every_cache_the_same_lock_gives_the_same_digest_again(
    sglang_debian: tuple[Project, Ended], rebuild: tuple[Project, Running]
) -> None:
    (first, built), (second, run) = sglang_debian, rebuild
    again = run.wait()
    assert again.status == 0, again.stderr
    assert "==> bootstrapping the Debian trixie base" in again.stderr
    assert not re.search(r"\.(sh|py) unchanged, from the cache", again.stderr)
    assert again.result.removeprefix(second.publish) == built.result.removeprefix(first.publish)

    one, other = (each.workspace.pin("sglang-debian").read_bytes() for each in (first, second))
    assert one.count(first.publish.encode()) == 1  # where it was published, in the reference
    assert one.replace(first.publish.encode(), second.publish.encode()) == other


def test_another_epoch_gives_the_same_component_layers_and_one_digest_with_and_without_cache(tiny: Tiny) -> None:
    """BuildKit compares what it copies without times: a layer that it kept from another epoch must be the same."""
    earlier, project = tiny(), tiny()
    earlier.build("tiny")
    lock = project.workspace.lock("tiny")
    lock.write_text(re.sub(r"^epoch = \d+$", "epoch = 1700000000", lock.read_text(), flags=re.MULTILINE))

    cached = project.build("tiny")
    assert cached.status == 0, cached.stderr
    layers = _layers(project)
    again = project.build("tiny", "--no-cache")
    assert again.status == 0, again.stderr
    assert again.result == cached.result

    before = _layers(earlier)
    assert {owner for owner in layers if layers[owner] == before[owner]} >= {"packaging", "marker"}
    assert layers["base"] != before["base"]


def _layers(project: Project) -> dict[str, str]:
    pin = json.loads(project.workspace.pin("tiny").read_text())
    return {layer["owner"]: layer["digest"] for layer in pin["layers"]}
