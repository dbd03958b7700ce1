"""Asks an image which versions of what it holds, and imports what it must be able to import."""

from __future__ import annotations

import importlib
import importlib.metadata
import time
from typing import Any

from builder.smoke.inside.evidence import run


def probe(
    components: list[tuple[str, str | None, str | None]], imports: list[str], absent: list[str]
) -> dict[str, Any]:
    """Look at components (name, distribution, Debian package), modules to import and distributions to miss.

    Returns `versions` (per component the version found or None), `imports` (per module its file and seconds,
    or the exception chain) and `present` (what should be absent and is not, with its version).
    """
    return {
        "versions": {name: _version(distribution, apt) for name, distribution, apt in components},
        "imports": {module: _import(module) for module in imports},
        "present": {name: found for name, found in ((name, _distribution(name)) for name in absent) if found},
    }


def _version(distribution: str | None, apt: str | None) -> str | None:
    if distribution is not None:
        return _distribution(distribution)
    if apt is not None:
        status, said = run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", apt])
        state, _, version = said.strip().partition(" ")
        return version if status == 0 and state == "installed" else None
    return None


def _distribution(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _import(module: str) -> dict[str, Any]:
    from builder.smoke.inside.evidence import chain, compiler_lines

    begun = time.monotonic()
    try:
        loaded = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        return {"chain": chain(error), "compiler": compiler_lines(error)}
    return {"file": getattr(loaded, "__file__", None), "seconds": round(time.monotonic() - begun, 3)}
