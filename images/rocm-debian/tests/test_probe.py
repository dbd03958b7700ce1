"""Tests of the parts that only this image has."""

import pytest
from testinfra.host import Host

ASK = (
    "import rocm_images_probe as probe\n"
    "print(probe.devices())\n"
    "for ask in (lambda: probe.vector_add(0, 1), lambda: probe.lds(0), lambda: probe.vector_add(0, 0)):\n"
    "    try: print(ask())\n"
    "    except (RuntimeError, ValueError) as error: print(type(error).__name__, error, sep=': ')"
)


@pytest.mark.hint("link the probe extension against the HIP runtime of the runtime stage")
def test_the_probe_extension_says_that_there_is_no_card(host: Host) -> None:
    """On a node with a broken driver, the first thing people run would not even start."""
    said = host.run(f'python3 -c "{ASK}"')
    lines = said.stdout.splitlines()
    assert (said.rc, lines[0]) == (0, "[]"), said.stderr
    assert [line.partition(": ")[0] for line in lines[1:]] == ["RuntimeError", "RuntimeError", "ValueError"]
    assert lines[1] == "RuntimeError: choose the device: no ROCm-capable device is detected"
    assert lines[3] == "ValueError: expected a count from 1 to 268435456, got 0"
