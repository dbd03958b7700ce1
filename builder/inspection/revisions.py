"""Reads a project as it was at a revision of its own git repository; changes nothing in it."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.errors import LockError, RecipeError
from builder.process import Completed, run
from builder.workspace import Workspace

_READ = ("images", "patches", "mirrors.toml")  # what of a project decides what its images are made of
_MOST = 1000  # revisions that are looked at for a lock


def commit_of(workspace: Workspace, revision: str) -> str | None:
    """Return the commit that a revision names, None where it names none, or the project is in no repository."""
    if not revision or revision.startswith("-"):
        return None
    done = _git(workspace, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return done.stdout.strip() if done.status == 0 else None


@contextmanager
def as_of(workspace: Workspace, commit: str) -> Iterator[Workspace]:
    """Give the project as it was at a commit, in a folder that goes away. Raises `RecipeError`."""
    listed = _said(workspace, "ls-tree", "--name-only", commit, "--", *_READ).splitlines()
    if "images" not in listed:
        raise RecipeError(f"{commit[:12]}: there is no images/ in the project at this revision")
    with tempfile.TemporaryDirectory(prefix="rocm-images-revision.") as folder:
        archive, root = Path(folder) / "project.tar", Path(folder) / "project"
        root.mkdir()
        _said(workspace, "archive", "--format=tar", f"--output={archive}", commit, "--", *listed)
        with tarfile.open(archive) as opened:
            opened.extractall(root, filter="data")
        archive.unlink()
        yield Workspace(root=root)


def commit_with_lock(workspace: Workspace, image: str, sha256: str) -> str:
    """Return the latest commit at which the lock of an image had this hash. Raises `LockError` without one."""
    place = f"images/{image}/recipe.lock"
    listed = _said(workspace, "log", f"--max-count={_MOST}", "--format=%H", "--", place).split()
    for commit in listed:
        done = _git(workspace, "show", f"{commit}:./{place}")
        if done.status == 0 and hashlib.sha256(done.stdout.encode()).hexdigest() == sha256:
            return commit
    raise LockError(
        f"{place}: no revision of this project has the lock of sha256:{sha256[:12]}…",
        hint="commit locks together with the records of what was built from them",
    )


def _said(workspace: Workspace, *words: str) -> str:
    done = _git(workspace, *words)
    if done.status != 0:
        raise RecipeError(
            f"{workspace.root}: git cannot be asked: {' '.join(words[:1])} failed", details=done.tail
        )
    return done.stdout


def _git(workspace: Workspace, *words: str) -> Completed:
    return run(["git", *words], cwd=workspace.root, env={"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"})
