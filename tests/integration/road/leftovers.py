"""What a run can leave behind on a machine: processes, containers, mounts."""

from __future__ import annotations

import os
from pathlib import Path

import docker

from builder.engine.containers import RUN_LABEL
from builder.engine.images import listed
from builder.project import LOCAL

from ..project import Project


def started_by(project: Project) -> dict[int, str]:
    """Return the processes of a run, and their words: they have this project's TMPDIR, or their root is in it."""
    wanted = f"TMPDIR={project.scratch}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                within = (entry / "root").readlink().is_relative_to(project.scratch)
                if within or wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def containers_of(project: Project, engine: docker.DockerClient) -> list[str]:
    """Return the containers of smoke runs of this project's images."""
    own = tuple(f"{LOCAL}/{path.name}:" for path in project.workspace.images.iterdir())
    ids = {
        image["Id"] for image in listed(engine) if any(name.startswith(own) for name in image["RepoTags"] or ())
    }
    found = engine.api.containers(all=True, filters={"label": RUN_LABEL})
    return [entry["Names"][0] for entry in found if entry["ImageID"] in ids]


def mounts_below(folder: Path) -> list[str]:
    return mounts_seen_by("self", folder)


def mounts_seen_by(pid: int | str, folder: Path) -> list[str]:
    """Return what is mounted below a folder as a process sees it; nothing where it has ended."""
    try:
        text = Path(f"/proc/{pid}/mountinfo").read_text()
    except OSError:
        return []
    places = [Path(line.split()[4]) for line in text.splitlines()]
    return [str(place) for place in places if place.is_relative_to(folder)]
