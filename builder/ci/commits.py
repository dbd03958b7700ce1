"""Commits files of this project and pushes them to a branch, as one known author. Knows git, and no forge.

Whoever pushes is told to git by its environment alone: a token is in no command line, no file and no message.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from builder import process
from builder.errors import EngineError, RecipeError
from builder.story import Story

# Renovate goes on with a branch that only authors it ignores have added to: `gitIgnoredAuthors` in default.json.
AUTHOR = "rocm-images"
EMAIL = "rocm-images@users.noreply.github.com"


def commit(root: Path, paths: Sequence[str], *, message: str) -> str | None:
    """Commit what has changed below `paths`, new files too, and return the commit; None where nothing has."""
    _git(root, "add", "--all", "--", *paths)
    if not _git(root, "diff", "--cached", "--name-only", "--", *paths):
        return None
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
           for key, value in (("NAME", AUTHOR), ("EMAIL", EMAIL))}  # fmt: skip
    _git(root, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", message, "--", *paths, env=who)
    return _git(root, "rev-parse", "HEAD")


def push(root: Path, branch: str, *, token: str | None, story: Story) -> bool:
    """Push HEAD to a branch of `origin`; tell whether it took it. Never forces.

    A branch that went on meanwhile is left alone, with a warning: whoever moved it has a run of its own coming.
    """
    origin = _git(root, "remote", "get-url", "origin")
    done = process.run(
        ["git", "-C", root, "push", "--porcelain", "origin", f"HEAD:refs/heads/{branch}"],
        env={"GIT_TERMINAL_PROMPT": "0", **(_login(origin, token) if token else {})},
    )
    if done.status == 0:
        return True
    if any(word in done.stdout + done.stderr for word in ("[rejected]", "fetch first", "non-fast-forward")):
        story.warn(f"{branch}: the branch went on meanwhile; nothing was pushed, the run of its new head does it")
        return False
    raise EngineError(
        f"{branch}: git could not push", details=done.tail,
        hint="the job needs the permission contents: write, or a token that has it",
    )  # fmt: skip


def _login(origin: str, token: str) -> Mapping[str, str]:
    scheme, _, rest = origin.partition("://")
    server = f"{scheme}://{rest.partition('/')[0]}/"
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"http.{server}.extraheader",
        "GIT_CONFIG_VALUE_0": f"AUTHORIZATION: basic {basic}",
    }  # fmt: skip


def _git(root: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    done = process.run(["git", "-C", root, *words], env=env)
    if done.status != 0:
        raise RecipeError(f"{root}: git {words[0]} failed", details=done.tail)
    return done.stdout.strip()
