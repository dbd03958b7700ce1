"""Knows which Debian packages bring what the program needs from a machine, as values; reads and changes nothing.

Debian 12's own engine (20.10) is too old for these builds. There the engine, its command line and buildx come
from Debian 13, from the mirror the machine already uses, pinned so low that nothing else moves to that release;
containerd and runc stay those of Debian 12, which the newer engine accepts. cosign, which Debian 12 does not have,
comes the same way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import EngineError

_NEWER = "trixie"
_SOURCES = Path("/etc/apt/sources.list.d/rocm-images-trixie.sources")
_PREFERENCES = Path("/etc/apt/preferences.d/rocm-images-trixie")
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What hosted runners lack. The engine and its command line are other packages there, and are on those runners.
_ALSO_IN_UBUNTU = frozenset({"mmdebstrap", "debian-archive-keyring", "git", "docker-registry"})
_FROM_NEWER_ON_12 = frozenset({"docker.io", "docker-cli", "docker-buildx", "cosign"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """A part of the machine: what it is called in messages, what it is for, which packages bring it."""

    name: str
    purpose: str
    packages: tuple[str, ...]


DOCKERD = Need(
    name="engine program",
    purpose="start a container engine on this machine",
    # The two that Debian 12 has itself are named, or apt takes them from where the engine comes from.
    packages=("containerd", "runc", "docker.io"),
)
DOCKER = Need(name="docker", purpose="talk to the engine", packages=("docker-cli",))
BUILDX = Need(name="buildx", purpose="build images", packages=("docker-buildx",))
REGISTRY = Need(
    name="registry program",
    purpose="serve images on loopback, as the embedded registry",
    packages=("docker-registry",),
)
MMDEBSTRAP = Need(name="mmdebstrap", purpose="bootstrap Debian bases without a registry", packages=("mmdebstrap",))
KEYRING = Need(
    name="Debian keyring", purpose="check what a Debian mirror delivers", packages=("debian-archive-keyring",)
)
GIT = Need(name="git", purpose="fetch and patch sources", packages=("git",))
COSIGN = Need(name="cosign", purpose="sign images, and verify signatures", packages=("cosign",))
APPARMOR = Need(
    name="AppArmor parser", purpose="start containers under a kernel with AppArmor", packages=("apparmor",)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """What /etc/os-release says. `version` is the major number, None where a release has none (testing, sid)."""

    id: str
    version: int | None
    codename: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexTarget:
    """One package index of apt's sources. Codename and origin are known only after its lists were fetched."""

    release: str
    component: str
    uri: str
    codename: str | None
    origin: str | None

    def serves(self, codename: str) -> bool:
        """Tell whether this is the main part of that Debian release, as far as apt knows."""
        return (
            self.component == "main"
            and codename in (self.release, self.codename)
            and self.origin in (None, "Debian")
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineFile:
    """A file to be written outside the project, and why."""

    path: Path
    content: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """What apt is asked for, in apt's own words, and the files it needs first."""

    packages: tuple[str, ...]
    files: tuple[MachineFile, ...]


def parse_os_release(text: str) -> Distribution:
    """Read the text of /etc/os-release (os-release(5): shell assignments, one a line)."""
    held: dict[str, str] = {}
    for line in text.splitlines():
        if found := re.fullmatch(r"""([A-Z0-9_]+)=(["']?)(.*?)\2\s*""", line):
            held[found[1]] = found[3]
    number = re.match(r"\d+", held.get("VERSION_ID", ""))
    return Distribution(
        id=held.get("ID", "linux"),
        version=int(number[0]) if number else None,
        codename=held.get("VERSION_CODENAME", ""),
        title=held.get("PRETTY_NAME", held.get("NAME", "an unnamed system")),
    )


def parse_indextargets(text: str) -> tuple[IndexTarget, ...]:
    """Read what `apt-get indextargets` prints: paragraphs of `Key: value` lines, one for each index."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        held = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line)
        if held.get("Created-By") != "Packages" or "Repo-URI" not in held:
            continue
        found.append(
            IndexTarget(
                release=held.get("Release", ""),
                component=held.get("Component", ""),
                uri=held["Repo-URI"],
                codename=held.get("Codename"),
                origin=held.get("Origin"),
            )
        )
    return tuple(found)


def debian_mirrors(targets: Sequence[IndexTarget], codename: str) -> tuple[str, ...]:
    """Return the mirrors that apt knows for a Debian release, in apt's order, each once.

    Mirrors that apt has fetched from and knows to be Debian's leave no room for those it only might be.
    """
    serving = [target for target in targets if target.serves(codename)]
    known = [target for target in serving if target.origin == "Debian"]
    return tuple(dict.fromkeys(target.uri for target in known or serving))


def plan_installation(
    distribution: Distribution, targets: Sequence[IndexTarget], needs: Sequence[Need]
) -> Installation:
    """Return what brings `needs` to a machine with this distribution and these apt sources.

    Raises `EngineError` where this program does not know the distribution's packages, or finds no mirror.
    """
    wanted = tuple(dict.fromkeys(package for need in needs for package in need.packages))
    if distribution.id == "ubuntu" and _ALSO_IN_UBUNTU.issuperset(wanted):
        return Installation(packages=wanted, files=())
    if distribution.id != "debian" or (distribution.version is not None and distribution.version < 12):
        raise EngineError(
            f"installing packages is known for Debian 12 and newer, this machine runs {distribution.title}",
            hint=by_hand(needs),
        )
    if distribution.version != 12 or not _FROM_NEWER_ON_12.intersection(wanted):
        return Installation(packages=wanted, files=())
    packages = tuple(f"{name}/{_NEWER}" if name in _FROM_NEWER_ON_12 else name for name in wanted)
    if any(target.serves(_NEWER) for target in targets):
        return Installation(packages=packages, files=())
    mirrors = debian_mirrors(targets, distribution.codename)
    if not mirrors:
        raise EngineError(
            f"apt's sources name no Debian mirror for {distribution.codename}, so there is none to take"
            f" {'cosign' if set(wanted) == {'cosign'} else 'the engine'} of Debian 13 ({_NEWER}) from",
            hint=f"add a source for {_NEWER} to /etc/apt/sources.list.d, or {by_hand(needs)}",
        )
    return Installation(packages=packages, files=_newer_release(mirrors[0]))


def by_hand(needs: Sequence[Need]) -> str:
    """Return, in words, what a person has to install where this program cannot."""
    what = {
        DOCKERD.name: "a Docker Engine 23 or newer",
        DOCKER.name: "its command line",
        BUILDX.name: "its buildx plugin 0.13 or newer",
        REGISTRY.name: "a registry (or name one with --registry)",
    }
    listed = [what.get(need.name, need.packages[0]) for need in needs]
    return f"install by hand: {', '.join(listed)}; then run: rocm-images doctor"


def _newer_release(mirror: str) -> tuple[MachineFile, ...]:
    return (
        MachineFile(
            path=_SOURCES,
            content=(
                "# Written by rocm-images: the container engine and cosign of Debian 13.\n"
                f"# {_PREFERENCES} keeps everything else at the installed release.\n"
                "Types: deb\n"
                f"URIs: {mirror}\n"
                f"Suites: {_NEWER}\n"
                "Components: main\n"
                f"Signed-By: {_KEYRING}\n"
            ),
            reason=f"Debian 13 ({_NEWER}) from {mirror}, the mirror this machine already uses",
        ),
        MachineFile(
            path=_PREFERENCES,
            content=(
                f"# Written by rocm-images: nothing comes from {_NEWER} unless it is asked for by name.\n"
                "Package: *\n"
                f"Pin: release n={_NEWER}\n"
                "Pin-Priority: 100\n"
            ),
            reason=f"priority 100 for {_NEWER}, so that no other package moves to it",
        ),
    )
