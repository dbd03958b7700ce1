"""Where a project keeps recipes, results and state, and how files are written so that none is ever half there."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from builder.errors import RecipeError


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """The folders of one recipe repository. `root` holds `images/`.

    `kept_in` is where its state is, for a copy of a repository that shares the state of another.
    """

    root: Path
    kept_in: Path | None = None

    @property
    def images(self) -> Path:
        """One folder per image, with its `recipe.toml`."""
        return self.root / "images"

    @property
    def state(self) -> Path:
        """Caches, the embedded registry, logs of services: never committed, safe to delete."""
        return self.kept_in or self.root / ".rocm-images"

    @property
    def store(self) -> Path:
        """Fetched objects by content."""
        return self.state / "store"

    @property
    def dist(self) -> Path:
        """Results of builds: reports, logs, states, one folder per image; never committed."""
        return self.root / "dist"

    @property
    def pins(self) -> Path:
        """The records of published, tested images, one file per image; to be committed."""
        return self.root / "pins"

    def recipe(self, image: str) -> Path:
        """Path of an image's recipe; the file need not exist."""
        return self.images / image / "recipe.toml"

    def lock(self, image: str) -> Path:
        """Path of an image's lock; the file need not exist."""
        return self.images / image / "recipe.lock"

    def pin(self, image: str) -> Path:
        """Path of an image's record; the file need not exist."""
        return self.pins / f"{image}.json"

    def shown(self, path: Path) -> str:
        """Return a path as messages show it: relative to the root where it lies below it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def find_workspace(start: Path) -> Workspace:
    """Return the workspace that holds `start`: the nearest folder upwards with `images/` in it."""
    for folder in (start, *start.parents):
        if (folder / "images").is_dir():
            return Workspace(root=folder)
    raise RecipeError(
        f"{start}: no images/ folder here or above",
        hint="change into a recipe repository, or name it with --root",
    )


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Let an error of writing name the file: what fails on an open one, as on a full disk, has no name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write a whole file or nothing: readers see the old content or the new, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    part = Path(name)
    try:
        with named(path), os.fdopen(handle, "wb") as sink:
            sink.write(data.encode() if isinstance(data, str) else data)
            sink.flush()
            os.fsync(sink.fileno())
        part.chmod(0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def rewrite_all(files: Mapping[Path, bytes]) -> None:
    """Write new content into files that are there, owner and mode stay; a link goes on to lead where it leads.

    All of it is on the disk before the first file is replaced, so that a full disk or a folder that nothing may be
    written to changes none of them.
    """
    parts: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            target = path.resolve(strict=True)
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            parts[target] = Path(name)
            with os.fdopen(handle, "wb") as sink:
                there = target.stat()
                if (there.st_uid, there.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(sink.fileno(), there.st_uid, there.st_gid)
                os.fchmod(sink.fileno(), stat.S_IMODE(there.st_mode))
                sink.write(data)
                sink.flush()
                os.fsync(sink.fileno())
        for target, part in parts.items():
            part.replace(target)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
