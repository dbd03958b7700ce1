"""Knows where the host's programs are and which of the needed ones are missing or too old. Changes nothing."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from builder import process
from builder.engine import client
from builder.errors import EngineError
from builder.host import packages
from builder.host.packages import Need

KEYRING_FILE = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_APPARMOR = Path("/sys/module/apparmor/parameters/enabled")


def search_path() -> str:
    """Return PATH with the folders of system programs, which a user's own PATH may lack."""
    named = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([*named, *_SYSTEM_FOLDERS]))


def find(program: str) -> Path | None:
    """Return where a program is on this machine."""
    found = shutil.which(program, path=search_path())
    return Path(found) if found else None


def dockerd_version() -> str | None:
    """Return the version of the engine program on this machine, whether it runs or not."""
    program = find("dockerd")
    if program is None:
        return None
    try:
        asked = process.run([program, "--version"])
    except EngineError:
        return None
    found = re.search(r"version (\d\S*?),", asked.stdout)  # Docker version 26.1.5+dfsg1, build 411e817
    return found[1] if found else None


def missing_for_engine(*, answers: bool) -> tuple[Need, ...]:
    """Return what is missing to build with an engine; where one answers already, none has to be started."""
    lacking: list[Need] = []
    if not answers:
        version = dockerd_version()
        if version is None or not client.is_engine_new_enough(version):
            lacking.append(packages.DOCKERD)
        if needs_apparmor_parser():
            lacking.append(packages.APPARMOR)
    if find("docker") is None:
        lacking.append(packages.DOCKER)
    buildx = client.buildx_version()
    if buildx is None or not client.is_new_enough(buildx):
        lacking.append(packages.BUILDX)
    return tuple(lacking)


def missing_for_registry() -> tuple[Need, ...]:
    """Return what is missing to serve the embedded registry."""
    return () if find("docker-registry") else (packages.REGISTRY,)


def missing_for_sources() -> tuple[Need, ...]:
    """Return what is missing to fetch sources and to bootstrap bases."""
    lacking = []
    if find("mmdebstrap") is None:
        lacking.append(packages.MMDEBSTRAP)
    if not KEYRING_FILE.exists():
        lacking.append(packages.KEYRING)
    if find("git") is None:
        lacking.append(packages.GIT)
    return tuple(lacking)


def missing_for_signing() -> tuple[Need, ...]:
    """Return what is missing to sign images and to verify signatures."""
    return () if find("cosign") else (packages.COSIGN,)


def needs_apparmor_parser() -> bool:
    """Tell whether the kernel enforces AppArmor profiles that nothing here could load for a container."""
    try:
        enabled = _APPARMOR.read_text(encoding="ascii").strip() == "Y"
    except OSError:
        return False
    return enabled and find("apparmor_parser") is None


def systemd_runs() -> bool:
    """Tell whether systemd is this machine's init (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()
