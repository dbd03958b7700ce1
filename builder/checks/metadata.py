"""What the metadata of locked wheels asks for, read from the files where they are on this machine."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from builder.checks.trees import locked_tree
from builder.lockfile import Lock
from builder.recipe import Recipe
from builder.sources.store import Store
from builder.workspace import Workspace, write_atomic


def asks(workspace: Workspace, recipe: Recipe, lock: Lock, names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return what the wheels of some components ask for: component -> distribution -> versions, '' for any.

    What a recipe says instead of the metadata does not count here: the files are what was tested together.
    A component whose file is not here, or that is no wheel, is left out.
    """
    found = {}
    for name in names:
        tree = locked_tree(workspace, recipe, lock, name)
        if tree is None or tree.component.wheel is None:
            continue
        lines = _lines(workspace, tree.identity, partial(tree.place, None))
        if lines is not None:
            found[name] = _versions(lines, recipe.python)
    return found


def requirements_of(workspace: Workspace, sha256: str) -> list[str] | None:
    """Return the requirement lines of a wheel, None where that file is not on this machine."""
    return _lines(workspace, sha256, lambda: Store(workspace.store).get(sha256))


def _lines(workspace: Workspace, identity: str, place: Callable[[], Path | None]) -> list[str] | None:
    known = workspace.state / "metadata" / f"{identity}.json"
    lines = _kept(known)
    if lines is None:
        path = place()
        if path is None:
            return None
        lines = _requirements(path)
        write_atomic(known, json.dumps(lines))
    return lines


def _requirements(path: Path) -> list[str]:
    """Return the requirement lines of a wheel."""
    try:
        with zipfile.ZipFile(path) as wheel:
            entries = [n for n in wheel.namelist() if n.count("/") == 1 and n.endswith(".dist-info/METADATA")]
            if not entries:
                return []
            raw, _ = parse_email(wheel.read(entries[0]))
    except (OSError, zipfile.BadZipFile):
        return []
    return list(raw.get("requires_dist", []))


def _versions(lines: list[str], python: str) -> dict[str, str]:
    environment: Mapping[str, str] = {
        "python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython",
        "platform_python_implementation": "CPython", "os_name": "posix", "sys_platform": "linux",
        "platform_system": "Linux", "platform_machine": "x86_64", "extra": "",
    }  # fmt: skip
    found: dict[str, str] = {}
    for line in lines:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            continue
        if wanted.marker is None or wanted.marker.evaluate(dict(environment)):
            found[canonicalize_name(wanted.name)] = str(wanted.specifier)
    return found


def _kept(path: Path) -> list[str] | None:
    try:
        lines = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return lines if isinstance(lines, list) and all(isinstance(line, str) for line in lines) else None
