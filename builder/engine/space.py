"""The room that an engine's data takes on this machine's disks: how much is left, and giving some of it back.

What it removes are images of this program and build cache, and nothing else.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import docker.errors
import requests
import tomli

from builder import process
from builder.engine.builders import Builder
from builder.engine.client import EngineInfo, connect
from builder.engine.images import listed
from builder.errors import EngineError

_CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")
_CONTAINERD_CONFIGURATION = Path("/etc/containerd/config.toml")
_CONTAINERD_ROOT = Path("/var/lib/containerd")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """The file system that holds a folder, in bytes."""

    folder: Path
    free: int
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnImage:
    """An image of this program in an engine's store: its names, what it is an image of, and its content key."""

    id: str
    names: tuple[str, ...]
    title: str
    content_key: str


def room(folder: Path) -> Room:
    """Measure the file system that holds `folder`, or would if it were there. Raises `OSError`."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    usage = shutil.disk_usage(existing)
    return Room(folder=folder, free=usage.free, total=usage.total)


def data_folder(engine: EngineInfo) -> Path | None:
    """Return the folder with an engine's layers and build cache; None of an engine on another machine.

    The containerd image store keeps them with containerd: below the engine's own folder where the engine has
    started its containerd itself, else where the machine's containerd keeps its data.
    """
    if not engine.is_here:
        return None
    root = Path(engine.data_root)
    if not engine.containerd_store or _starts_its_own(engine):
        return root
    return _containerd_root(_CONTAINERD_CONFIGURATION)


def build_folder(engine: EngineInfo, builder: Builder) -> Path | None:
    """Return the folder with what a builder keeps while it builds; None where that is on another machine."""
    if builder.in_engine:
        return data_folder(engine)
    # Its container keeps it in a volume, and those are always below the engine's own folder.
    return Path(engine.data_root) if builder.driver == "docker-container" and engine.is_here else None


def _starts_its_own(engine: EngineInfo) -> bool:
    if engine.containerd is not None:
        return not Path(engine.containerd).is_relative_to(_CONTAINERD_SOCKET.parent)
    # Engines before 27 do not say it. They take the machine's containerd where its socket is.
    return not _CONTAINERD_SOCKET.exists()


def _containerd_root(configuration: Path) -> Path:
    try:
        root = tomli.loads(configuration.read_text(encoding="utf-8")).get("root")
    except (OSError, ValueError):
        return _CONTAINERD_ROOT
    return Path(root) if isinstance(root, str) and root else _CONTAINERD_ROOT


def build_cache(builder: str) -> int:
    """Return the size of a builder's cache in bytes, 0 where it does not tell."""
    done = process.run(["docker", "buildx", "du", "--builder", builder])
    found = re.search(r"^Total:\s+([0-9.]+)(\w+)", done.stdout, re.MULTILINE)
    return int(float(found[1]) * _UNITS.get(found[2], 0)) if done.status == 0 and found else 0


def prune_cache(builder: str, *, unused_hours: int) -> int:
    """Give back the build cache that was not used for so many hours (0: all of it); return its size in bytes."""
    limits = ["--filter", f"until={unused_hours}h"] if unused_hours else ["--all"]
    done = process.run(["docker", "buildx", "prune", "--force", "--builder", builder, *limits])
    if done.status != 0:
        raise EngineError("the build cache could not be pruned", details=done.tail, hint="rocm-images doctor")
    found = re.search(r"^Total:\s+([0-9.]+)(\w+)", done.stdout, re.MULTILINE)
    return int(float(found[1]) * _UNITS.get(found[2], 0)) if found else 0


def own_images(label: str) -> tuple[OwnImage, ...]:
    """Return the images in the engine's store that carry `label`.content-key, by name."""
    client = connect()
    try:
        found = listed(client, filters={"label": f"{label}.content-key"})
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise EngineError("the container engine stopped answering", details=(str(error),)) from error
    finally:
        client.close()
    images = (
        OwnImage(
            id=str(image["Id"]),
            names=tuple(sorted(image["RepoTags"] or image["RepoDigests"] or ())),
            title=str((image["Labels"] or {}).get("org.opencontainers.image.title", "")),
            content_key=str((image["Labels"] or {}).get(f"{label}.content-key", "")),
        )
        for image in found
    )
    return tuple(sorted(images, key=lambda image: (image.title, image.names)))


def remove_image(image: OwnImage) -> bool:
    """Remove an image under all its names, and tell whether it is gone. One that a container uses stays."""
    client = connect()
    try:
        for name in image.names or (image.id,):
            client.images.remove(name)
    except docker.errors.ImageNotFound:
        return True
    except docker.errors.APIError as error:
        if error.status_code == requests.codes.conflict:
            return False
        raise EngineError(f"{image.id}: cannot be removed", details=(str(error.explanation),)) from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise EngineError("the container engine stopped answering", details=(str(error),)) from error
    finally:
        client.close()
    return True
