"""Reads revisions of the repository that a project lies in: which there are, and their files, into other folders.

The work tree, the index and the refs of that repository are left alone. What the files mean is not known here.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from builder.errors import LockError, RecipeError
from builder.process import Completed, run
from builder.sources.repository import said_by
from builder.workspace import Workspace

_RANGE = re.compile(r"(?P<base>[^\s.-]\S*?)(?P<dots>\.{2,3})(?P<head>(?:[^\s.-]\S*)?)")  # no ref has two dots
_MOST = 1000  # revisions that are looked at for a lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Revisions:
    """Two commits of a repository, in full; `base` comes first."""

    base: str
    head: str


@contextmanager
def as_of(workspace: Workspace, commit: str) -> Iterator[Workspace]:
    """Give the project as it was at a commit, in a folder that goes away. Raises `RecipeError`."""
    with tempfile.TemporaryDirectory(prefix="rocm-images-revision.") as folder:
        past = Workspace(root=Path(folder) / "project")
        Repository(workspace.root).export(commit, past.root)
        if not past.images.is_dir():
            raise RecipeError(f"{commit[:12]}: there is no images/ in the project at this revision")
        yield past


class Repository:
    """The git repository around a project; `project` is the project's folder."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._folder = self._said("rev-parse", "--show-prefix")

    def revisions(self, text: str) -> Revisions:
        """Return the commits that `BASE..HEAD` names; with three dots from where HEAD left BASE.

        Without a right side it is what is checked out. Raises `RecipeError`.
        """
        parts = _RANGE.fullmatch(text)
        if parts is None:
            raise RecipeError(
                f"expected two revisions as BASE..HEAD, got {text!r}",
                hint="rocm-images bump-check origin/main..HEAD",
            )
        base, head = self._commit(parts["base"]), self._commit(parts["head"] or "HEAD")
        if parts["dots"] == "...":
            base = self._said("merge-base", base, head, why=f"{text}: the two have no commit in common")
        return Revisions(base=base, head=head)

    def changed(self, revisions: Revisions) -> tuple[str, ...]:
        """Return the project's files that differ between two commits, by path in the project, sorted."""
        listed = self._said(
            "diff-tree", "-r", "-z", "--no-renames", "--name-only", "--relative", revisions.base, revisions.head
        )
        return tuple(sorted(name for name in listed.split("\0") if name))

    def export(self, commit: str, into: Path) -> None:
        """Write the project's files of a commit to the new folder `into`, as a checkout would."""
        into.mkdir(parents=True)
        env = {"GIT_INDEX_FILE": str(into.with_name(f"{into.name}.index")), "GIT_WORK_TREE": str(into)}
        tree = f"{commit}:{self._folder.rstrip('/')}"
        folder = self._said("rev-parse", "--absolute-git-dir")
        for words in (("read-tree", tree), ("checkout-index", "--all", "--quiet")):
            done = self._git("--git-dir", folder, *words, env=env, cwd=into)
            if done.status != 0:
                raise self._failure(f"{commit[:12]}: cannot be read", done)

    def commit(self, name: str) -> str | None:
        """Return the commit that a revision names, None where it names none."""
        if not name or name.startswith("-"):
            return None
        done = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return done.stdout.strip() if done.status == 0 else None

    def commit_with_lock(self, image: str, sha256: str) -> str:
        """Return the latest commit at which the lock of an image had this hash. Raises `LockError` without one."""
        place = f"images/{image}/recipe.lock"
        for commit in self._said("log", f"--max-count={_MOST}", "--format=%H", "--", place).split():
            done = self._git("show", f"{commit}:./{place}")
            if done.status == 0 and hashlib.sha256(done.stdout.encode()).hexdigest() == sha256:
                return commit
        raise LockError(
            f"{place}: no revision of this project has the lock of sha256:{sha256[:12]}…",
            hint="commit locks together with the records of what was built from them",
        )

    def _commit(self, name: str) -> str:
        found = self.commit(name)
        if found is None:
            raise RecipeError(
                f"there is no commit {name!r} in this repository",
                hint=f"git fetch origin {name}; in CI, check out with the whole history (fetch-depth: 0)",
            )
        return found

    def _said(self, *words: str, why: str = "") -> str:
        done = self._git(*words)
        if done.status != 0:
            raise self._failure(why or f"{self._project}: git cannot read this repository", done)
        return done.stdout.strip()

    def _failure(self, message: str, done: Completed) -> RecipeError:
        return RecipeError(message, details=said_by(done))

    def _git(self, *words: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Completed:
        quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        return run(
            ["git", "-c", "core.quotePath=false", *words], cwd=cwd or self._project, env=quiet | (env or {})
        )
