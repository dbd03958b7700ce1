"""docs/privileges.md is about the commands that there are, and what it says of addresses and steps is so."""

from __future__ import annotations

import re
from pathlib import Path

from builder.host.registry_service import RegistrySettings, _configuration

from ..feel.commands import leaves

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/privileges.md"


def named() -> list[str]:
    """Return the commands of the page's first table, in the order of their rows."""
    rows = re.findall(r"^\| (`rocm-images [^|]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [name.removeprefix("rocm-images ") for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_the_page_says_of_every_command_once_what_it_needs() -> None:
    assert sorted(named()) == sorted(" ".join(path) for path, _ in leaves())


def test_the_embedded_registry_is_told_to_listen_on_loopback_and_nowhere_else(tmp_path: Path) -> None:
    told = _configuration(RegistrySettings(folder=tmp_path), 5000, "stamp")
    assert told["http"].keys() == {"addr", "headers"}  # no second address, such as that of `debug`
    assert told["http"]["addr"] == "127.0.0.1:5000"
