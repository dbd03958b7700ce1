"""Looks at everything the program needs from this machine and says what is missing and how to get it.

Starts, installs and changes nothing, and finishes whatever it meets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import uv

from builder import process
from builder.engine import client, space
from builder.engine.client import EngineInfo
from builder.errors import Failure
from builder.grammar import in_bytes
from builder.host import packages, programs
from builder.host.checks import Check, check
from builder.host.disk import ELSEWHERE, FREE_COMMAND, GIB
from builder.mirrors import load_mirrors
from builder.project import is_open, load_recipe, names
from builder.workspace import Workspace

_OLDEST_PYTHON = (3, 11)
# Where no recipe says more: an engine image with its bases, caches and a second build beside it; sources, wheels
# and the registry's copy.
_ENGINE_GIB = 20
_PROJECT_GIB = 10
_ASKING_SECONDS = 10
_INSTALL = "rocm-images install"


def examine(root: Path) -> tuple[Check, ...]:
    """Return all checks for the project at `root`. Raises nothing because something is missing."""
    try:
        engine, why_not = client.info(timeout_seconds=_ASKING_SECONDS), ""
    except Failure as failure:
        engine, why_not = None, "; ".join((failure.message, *failure.details))
    return (
        _engine(engine, why_not),
        *_programs(engine),
        *_sources(root),
        *_disks(engine, root),
        _python(),
    )


def examine_signing() -> tuple[Check, ...]:
    """Return what signing and verifying signatures needs. Raises nothing because something is missing."""
    return (_program(packages.COSIGN, "cosign", remedy="rocm-images install --signing"),)


def _engine(engine: EngineInfo | None, why_not: str) -> Check:
    needed_for = "build images and run their smoke tests"
    if engine is None:
        startable = programs.find("dockerd") is not None and not programs.missing_for_engine(answers=False)
        remedy = "rocm-images engine up" if startable else client.START_HINT
        return Check(name="engine", found=False, state=why_not, needed_for=needed_for, remedy=remedy)
    store = "containerd" if engine.containerd_store else "older"
    state = f"{engine.version} at {engine.host}, {engine.platform}, {store} image store"
    if engine.driver is not None:
        state += f", {engine.driver} driver"
    if not client.is_engine_new_enough(engine.version):
        state += "; too old"
    return check("engine", found=client.is_engine_new_enough(engine.version), state=state,
                  needed_for=needed_for, remedy=f"stop it, then: {client.START_HINT}")  # fmt: skip


def _programs(engine: EngineInfo | None) -> Iterator[Check]:
    yield _program(packages.DOCKER, "docker")
    version = engine.buildx_version if engine is not None else client.buildx_version()
    enough = version is not None and client.is_new_enough(version)
    yield check(
        packages.BUILDX.name, found=enough, needed_for=packages.BUILDX.purpose, remedy=_INSTALL,
        state="no such plugin" if version is None else version if enough else f"{version}, too old",
    )  # fmt: skip
    yield _program(packages.REGISTRY, "docker-registry")
    yield _program(packages.MMDEBSTRAP, "mmdebstrap")
    yield _program(packages.GIT, "git")


def _sources(root: Path) -> Iterator[Check]:
    keyring = programs.KEYRING_FILE
    yield check(
        packages.KEYRING.name, found=keyring.exists(), needed_for=packages.KEYRING.purpose, remedy=_INSTALL,
        state=str(keyring) if keyring.exists() else f"no {keyring}",
    )  # fmt: skip
    apt = programs.find("apt-get")
    yield check(
        "apt", found=apt is not None, state=str(apt or "not found"), remedy="use a Debian machine for such bases",
        needed_for="resolve the packages of Debian bases",
    )  # fmt: skip
    try:
        mirror = load_mirrors(root).debian_mirror()
        found, state, remedy = True, f"{mirror.url}, {mirror.origin}", None
    except Failure as failure:
        found, state, remedy = False, failure.message, failure.hint
    yield Check(
        name="Debian mirror", found=found, state=state, needed_for="fetch the packages of Debian bases",
        remedy=remedy,
    )  # fmt: skip
    yield _uv()


def _uv() -> Check:
    try:
        program = uv.find_uv_bin()
        told = process.run([program, "--version"])
        found, state = told.status == 0, told.stdout.strip() or "does not start"
    except (FileNotFoundError, Failure) as error:
        found, state = False, str(error)
    return check(
        "uv", found=found, state=state, needed_for="resolve and fetch Python packages",
        remedy="install the project's requirements again: requirements/install runtime",
    )  # fmt: skip


def _disks(engine: EngineInfo | None, root: Path) -> Iterator[Check]:
    name, needed_for = "free disk of the engine", "keep images and the build cache"
    folder = space.data_folder(engine) if engine is not None else Path("/var/lib/docker")
    if folder is not None:
        least, why = _most_declared(root)
        yield _disk(name, folder, least, needed_for, f"{FREE_COMMAND}; or {ELSEWHERE}", why)
    else:
        yield Check(
            name=name, found=True, state="the engine is on another machine; not looked at",
            needed_for=needed_for, remedy=None,
        )  # fmt: skip
    yield _disk(
        "free disk of the project", root, _PROJECT_GIB * GIB, "keep sources, wheels and the embedded registry",
        f"free some on the file system of {root}",
    )  # fmt: skip


def _most_declared(root: Path) -> tuple[int, str]:
    """Return what the build of one of the project's images takes at most, and which image that is."""
    least, why = _ENGINE_GIB * GIB, ""
    workspace = Workspace(root=root)
    for name in names(workspace):
        try:
            recipe = load_recipe(workspace, name)
        except Failure:  # `check` says what is wrong with it
            continue
        disk = recipe.build.disk
        if disk is not None and not is_open(workspace, recipe) and in_bytes(disk) > least:
            least, why = in_bytes(disk), f" by {name}"
    return least, why


def _disk(name: str, folder: Path, least: int, needed_for: str, remedy: str, why: str = "") -> Check:
    try:
        room = space.room(folder)
    except OSError as error:
        return Check(name=name, found=False, state=str(error), needed_for=needed_for, remedy=remedy)
    return check(
        name, found=room.free >= least, needed_for=needed_for, remedy=remedy,
        state=f"{room.free / GIB:.0f} GiB at {folder}, at least {least / GIB:.0f} wanted{why}",
    )  # fmt: skip


def _python() -> Check:
    return check(
        "Python", found=sys.version_info >= _OLDEST_PYTHON, needed_for="run this program",
        state=f"{'.'.join(map(str, sys.version_info[:3]))} at {os.path.realpath(sys.executable)}",
        remedy="use a Debian 12 or newer, or another Python from 3.11 on",
    )  # fmt: skip


def _program(need: packages.Need, program: str, *, remedy: str = _INSTALL) -> Check:
    path = programs.find(program)
    return check(
        need.name, found=path is not None, state=str(path or "not found"), needed_for=need.purpose,
        remedy=remedy,
    )  # fmt: skip
