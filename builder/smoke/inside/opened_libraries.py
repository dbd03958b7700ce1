"""Opens libraries by name, as code does that has no link to them, each in a process of its own."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Any

from builder.elf import cache

_MOST_TOLD = 2000


def probe(names: list[str]) -> dict[str, Any]:
    """Return, by name, why it does not open (None when it does), and what of nearly that name the cache has."""
    return {
        "libraries": {
            name: {"error": (said := _open(name)), "near": _near(name) if said else []} for name in names
        }
    }


def _open(name: str) -> str | None:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            ctypes.CDLL(name)
        except OSError as error:
            said = str(error)
        finally:
            os.write(theirs, said.encode()[:_MOST_TOLD])
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        said = answer.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"the process died of {signal.Signals(os.WTERMSIG(status)).name}"
    return said or None


def _near(name: str) -> list[str]:
    stem = name.rpartition("/")[2].partition(".so")[0]
    try:
        known = {entry for entry, _ in cache.entries(Path("/etc/ld.so.cache").read_bytes())}
    except OSError:
        return []
    return sorted(entry for entry in known if entry.partition(".so")[0] == stem)[:3]
