"""The same lock gives the same image, bit for bit."""

from __future__ import annotations

import json
import re

import pytest

from ..project import Ended, Project, Running

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

    pins = [json.loads((each.workspace.dist / "sglang-debian/pin.json").read_text()) for each in (first, second)]
    for pin, project in zip(pins, (first, second), strict=True):
        assert pin.pop("reference").startswith(f"{project.publish}/sglang-debian:")
    assert pins[0] == pins[1]
