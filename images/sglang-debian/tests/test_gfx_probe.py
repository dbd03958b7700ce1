"""Tests of the parts that only this image has."""

import pytest
from testinfra.host import Host


@pytest.mark.hint("link gfx-probe against the HIP runtime of the runtime stage")
def test_the_probe_says_that_there_is_no_card(host: Host) -> None:
    """On a node with a broken driver, the first thing people run would not even start."""
    said = host.run("gfx-probe")
    assert said.rc == 2
    assert "gfx-probe: " in said.stderr
