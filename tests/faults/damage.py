"""Damages what a project keeps and what people write in it, as a crash, a bad disk or a hand would."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from builder.lockfile import parse_lock

from ..integration.road.conftest import copy_objects
from .survive import Scene


def keep(scene: Scene) -> tuple[Path, Path]:
    """Give the project a store of its own with all it needs; return a package and a wheel in it."""
    project = scene.project
    lock = parse_lock(project.workspace.lock("tiny").read_text(), file="recipe.lock")
    package = min(lock.deb, key=lambda package: package.size)
    (wheel,) = lock.python
    copy_objects(scene.rig.store, project.workspace.store, {each.sha256 for each in (*lock.deb, *lock.python)})
    places = []
    for sha256 in (package.sha256, wheel.sha256):
        place = project.workspace.store / "sha256" / sha256[:2] / sha256
        content = place.read_bytes()
        place.unlink()
        place.write_bytes(content)
        places.append(place)
    return places[0], places[1]


def own_bases(scene: Scene) -> Path:
    """Give the project a base of its own; return its folder."""
    bases = scene.project.workspace.state / "bases"
    if not bases.is_symlink():
        shutil.copytree(scene.rig.folder / "bases", bases, dirs_exist_ok=True)
    return next(path for path in bases.iterdir() if path.is_dir())


def largest(folder: Path) -> Path:
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    """Flip a bit in the middle; size and times stay."""
    seen = path.stat()
    with path.open("r+b") as file:
        file.seek(seen.st_size // 2)
        (byte,) = file.read(1)
        file.seek(seen.st_size // 2)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def half_a_context(scene: Scene) -> None:
    context = scene.project.workspace.state / "contexts/tiny"
    (context / "debs/build").mkdir(parents=True)
    (context / "debs/build/half.deb").write_bytes(b"!<arch>\n")
    (context / "Dockerfile").write_text("FROM ")


# What is written.


def truncated_mirrors(scene: Scene) -> None:
    (scene.project.workspace.root / "mirrors.toml").write_text('[debian]\nmirror = "http://deb')
