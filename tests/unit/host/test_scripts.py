"""What the shell scripts refuse and promise before they do anything, and what they rely on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ROOT / argv[0]), *argv[1:]], capture_output=True, text=True, check=False)


def _pins(name: str) -> dict[str, str]:
    """Return what a requirement file pins: name and marker -> version."""
    text = (ROOT / "requirements" / name).read_text()
    found = re.findall(r"^([a-z0-9._-]+)==(\S+)( ; [^\\]+)?", text, re.MULTILINE)
    return {f"{distribution}{marker.rstrip()}": version for distribution, version, marker in found}


@pytest.mark.parametrize("script", ["quickstart", "check"])
def test_help_is_the_result_and_goes_to_standard_output(script):
    told = _run(script, "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith(f"./{script}")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["quickstart", "--registry"], "error: --registry: expected HOST/NAMESPACE, got ''\n"),
        (["quickstart", "--registry", "host"], "error: --registry: expected HOST/NAMESPACE, got 'host'\n"),
        (["quickstart", "--registry=/space"], "error: --registry: expected HOST/NAMESPACE, got '/space'\n"),
        (["quickstart", "--fast"], "error: unknown argument --fast\n"),
    ],
)
def test_wrong_words_end_with_2_before_anything_is_installed(argv, message):
    told = _run(*argv)
    assert told.returncode == 2
    assert told.stdout == ""
    assert told.stderr.startswith(message)


@pytest.mark.parametrize("argv", [["check", "fast"], ["requirements/install"], ["requirements/install", "all"]])
def test_scripts_without_such_an_argument_end_with_2(argv):
    assert _run(*argv).returncode == 2


def test_the_development_set_holds_the_runtime_set_version_for_version():
    runtime, dev = _pins("runtime.txt"), _pins("dev.txt")
    assert len(runtime) > 30
    assert {name: dev.get(name) for name in runtime} == runtime


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt"])
def test_requirement_files_name_no_place_and_a_hash_for_every_pin(name):
    text = (ROOT / "requirements" / name).read_text()
    assert "://" not in text
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in block for block in blocks)
