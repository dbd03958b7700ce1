"""Projects in git repositories of their own, with wheels at hand that say what they require."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from builder.workspace import Workspace

from ..recipe import samples
from ..recipe.on_disk import OnDisk, component, on_disk, wheel

_STAMP = (1980, 1, 1, 0, 0, 0)


def git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=Test", "-c", "user.email=test@example.org", *words],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def committed(root: Path, *, under: str = "", text: str = samples.FULL) -> OnDisk:
    """Make a project, in the folder `under` of a repository, and commit it."""
    project = on_disk(root / under, text)
    project.prepared()
    (root / ".gitignore").write_text("dist\n.rocm-images\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root)
    return project


def commit(root: Path) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=state")
    return git(root, "rev-parse", "HEAD")


def bump(project: OnDisk, name: str, version: str, requires: tuple[str, ...] = ()) -> None:
    """Take another version of a component from a wheel, which is put into the store."""
    component(project, name)["version"] = version
    project_name = component(project, name)["wheel"]
    entry = wheel(project, project_name)
    data = _wheel(project_name, version, requires)
    entry |= {
        "version": version, "file": f"{project_name}-{version}-py3-none-any.whl", "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip
    place = Workspace(root=project.root).store / "sha256" / entry["sha256"][:2] / entry["sha256"]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)


def _wheel(name: str, version: str, requires: tuple[str, ...]) -> bytes:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        entry = zipfile.ZipInfo(f"{name}-{version}.dist-info/METADATA", date_time=_STAMP)
        archive.writestr(entry, "\n".join(lines) + "\n")
    return sink.getvalue()


def files(root: Path) -> Mapping[str, bytes]:
    """Return every file below a folder by its path, links aside."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }
