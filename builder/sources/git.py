"""Fetches pinned trees from git: the commit named in full, proven to be on its tag or branch, byte for byte.

A pin that does not hold is an error with both values. Nothing is ever taken from another ref instead.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import nullcontext
from pathlib import Path

from builder.errors import EngineError, LockError, RecipeError
from builder.mirrors import Mirrors
from builder.sources.download import LOCK_HINT
from builder.sources.gitexport import GitTree, Submodule, ensure, export_tree, proof, remember
from builder.sources.repository import REMOTE, Copy, Remote, Unfit, locked
from builder.sources.transport import Patience
from builder.story import Silent, Story

__all__ = ["GitTree", "Submodule", "check_pin", "current_commit", "fetch_commit"]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"(?!-)(?!.*(\.\.|//|@\{|\.lock(/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![./])")


def fetch_commit(
    url: str,
    commit: str,
    *,
    tag: str | None = None,
    branch: str | None = None,
    submodules: bool = True,
    mirrors: Mirrors,
    cache: Path,
    story: Story | None = None,
    patience: Patience | None = None,
) -> GitTree:
    """Return the tree of a commit, from the cache or fetched into it, verified either way.

    `tag` must point at the commit, `branch` must contain it. Where neither is given and the commit was fetched
    before, no network is needed; where one is and the remote cannot be reached, an earlier proof counts, with a
    warning. The tree lies in the cache; who changes it gets a fresh one next time. Raises `LockError` for a pin
    that does not hold, `EngineError` for a remote that cannot be asked, `RecipeError` for impossible input.
    """
    told = story or Silent()
    cache = cache.absolute()
    _require_form(url, commit, tag=tag, branch=branch)
    remote = Remote(url, mirrors=mirrors, cache=cache, patience=patience)
    copy = Copy(remote, cache, purpose="git")
    with copy.held():
        _prove(copy, commit, tag=tag, branch=branch, cache=cache, story=told)
        new = not copy.has(commit)
        with told.step(f"fetch {remote.name} at {tag or branch or commit[:12]}") if new else nullcontext():
            ensure(copy, commit, _refs(tag, branch))
        remember(copy, commit, *_refs(tag, branch))
    key = commit if submodules else f"{commit}-alone"
    with locked(cache / "trees" / f"{key}.lock"):
        return export_tree(
            copy, commit, cache / "trees" / key, submodules=submodules, mirrors=mirrors, patience=patience
        )


def check_pin(
    url: str,
    commit: str,
    *,
    tag: str | None = None,
    branch: str | None = None,
    mirrors: Mirrors,
    cache: Path,
    patience: Patience | None = None,
) -> None:
    """Ask the remote whether a pin still holds, without fetching its files. Raises as `fetch_commit`."""
    _require_form(url, commit, tag=tag, branch=branch)
    remote = Remote(url, mirrors=mirrors, cache=cache, patience=patience)
    if tag is not None or branch is not None:
        _require_refs(remote, commit, tag=tag, branch=branch, cache=cache)
        return
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".probe-") as name:
        probe = Copy(remote, Path(name), purpose="git")  # what the cache has says nothing about the remote
        try:
            probe.fetch("--depth=1", "--filter=tree:0", REMOTE, commit)
        except Unfit:
            ensure(probe, commit, [])


def current_commit(
    url: str,
    *,
    tag: str | None = None,
    branch: str | None = None,
    mirrors: Mirrors,
    cache: Path,
    patience: Patience | None = None,
) -> str:
    """Return the commit a tag, peeled, or a branch points at now. Raises `LockError` when there is none."""
    _require_form(url, "0" * 40, tag=tag, branch=branch)
    remote = Remote(url, mirrors=mirrors, cache=cache, patience=patience)
    name = f"refs/tags/{tag}" if tag is not None else f"refs/heads/{branch}"
    found = remote.refs(name)
    if name not in found:
        raise _no_ref(remote, "tag" if tag is not None else "branch", tag or branch or "")
    return found.get(f"{name}^{{}}", found[name])


def _require_form(url: str, commit: str, *, tag: str | None, branch: str | None) -> None:
    if not _COMMIT.fullmatch(commit):
        raise RecipeError(f"{url}: expected a commit of 40 hex digits, got {commit!r}")
    for kind, name in (("tag", tag), ("branch", branch)):
        if name is not None and not _REF.fullmatch(name):
            raise RecipeError(f"{url}: expected the name of a {kind}, got {name!r}")


def _refs(tag: str | None, branch: str | None) -> list[str]:
    return ([f"refs/tags/{tag}"] if tag else []) + ([f"refs/heads/{branch}"] if branch else [])


def _prove(copy: Copy, commit: str, *, tag: str | None, branch: str | None, cache: Path, story: Story) -> None:
    """Make sure that tag and branch agree with the commit."""
    if tag is None and branch is None:
        return
    try:
        _require_refs(copy.remote, commit, tag=tag, branch=branch, cache=cache)
    except EngineError as down:
        if not copy.has(commit) or any(_points_at(copy, proof(ref)) != commit for ref in _refs(tag, branch)):
            raise
        story.warn(f"{down.message}; the pin was last proven when it was fetched")


def _require_refs(remote: Remote, commit: str, *, tag: str | None, branch: str | None, cache: Path) -> None:
    found = remote.refs(*_refs(tag, branch))
    if tag is not None:
        _require_tag(remote, commit, tag, found)
    if branch is not None:
        tip = found.get(f"refs/heads/{branch}")
        if tip is None:
            raise _no_ref(remote, "branch", branch)
        if tip != commit and not _contains(remote, branch, commit, cache):
            raise LockError(
                f"{remote.name}: commit {commit} is not on branch {branch!r}, which is at {tip}", hint=LOCK_HINT
            )


def _require_tag(remote: Remote, commit: str, tag: str, found: dict[str, str]) -> None:
    direct = found.get(f"refs/tags/{tag}")
    if direct is None:
        raise _no_ref(remote, "tag", tag)
    peeled = found.get(f"refs/tags/{tag}^{{}}", direct)
    if peeled == commit:
        return
    if direct == commit:
        raise LockError(
            f"{remote.name}: {commit} is the object of tag {tag!r}, not its commit",
            hint=f"use commit = {peeled!r}",
        )
    raise LockError(
        f"{remote.name}: tag {tag!r} has moved: pinned is {commit}, it is now at {peeled}",
        hint="find out why before you follow it; " + LOCK_HINT,
    )


def _no_ref(remote: Remote, kind: str, name: str) -> LockError:
    return LockError(f"{remote.name}: there is no {kind} {name!r}", hint=LOCK_HINT)


def _contains(remote: Remote, branch: str, commit: str, cache: Path) -> bool:
    """Whether a branch contains a commit; fetches the branch's commits, without files where the server can."""
    history = Copy(remote, cache, purpose="history")
    tip = proof(f"refs/heads/{branch}")
    refspec = f"+refs/heads/{branch}:{tip}"
    with history.held():
        try:
            # A depth without end asks for all commits. It is there because a server of plain files refuses it at
            # once; asked with the filter alone, git calls itself without end to fetch what it left out.
            history.fetch("--depth=2147483647", "--filter=tree:0", REMOTE, refspec)
        except Unfit:
            history.remove()
            history.fetch(REMOTE, refspec)
        return commit in history.said("rev-list", tip).split()


def _points_at(copy: Copy, ref: str) -> str:
    return copy.git("rev-parse", "--verify", "--quiet", ref).stdout.strip()
