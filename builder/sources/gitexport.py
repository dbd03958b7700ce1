"""Writes the tree of a fetched commit to a folder, with its submodules, and proves it by its id.

What the repository asks for, line endings, keyword expansion, filters, large file storage, is not done. Which
commit it has to be is decided elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import Failure, LockError
from builder.mirrors import Mirrors
from builder.sources.download import LOCK_HINT
from builder.sources.githash import DEEPEST, tree_id
from builder.sources.gitoutput import Malformed, addresses_in, listing_in, resolved
from builder.sources.repository import REMOTE, Absent, Copy, Remote, Unfit, said_by
from builder.sources.transport import Patience

_MOST_SUBMODULES = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Submodule:
    """A repository inside another: its path in the outermost tree, its address, its commit."""

    path: str
    url: str
    commit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GitTree:
    """A clean tree on disk, without `.git`. `tree` is git's id of it, `date` the commit's, seconds since 1970."""

    path: Path
    commit: str
    tree: str
    date: int
    submodules: tuple[Submodule, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """One repository of a tree and its submodules. `links` maps paths of its own submodules to commits."""

    path: str
    copy: Copy
    commit: str
    tree: str
    date: int
    links: dict[str, str]


def export_tree(
    copy: Copy, commit: str, folder: Path, *, submodules: bool, mirrors: Mirrors, patience: Patience | None
) -> GitTree:
    """Return the exported tree of a fetched commit; a copy that turns out damaged is fetched once more."""
    for last in (False, True):
        modules: list[Submodule] = []
        read: list[Copy] = []
        try:
            parts = _parts(copy, commit, modules, read, submodules=submodules, mirrors=mirrors, patience=patience)
            if not _intact(folder, parts):
                _export(folder, parts)
        except (Unfit, _Damaged) as error:
            if last:
                raise LockError(f"{copy.remote.name}: commit {commit} cannot be read: {error}") from error
            for damaged in read:
                with damaged.held():
                    damaged.remove()
            with copy.held():
                ensure(copy, commit, [])
            continue
        found = tuple(sorted(modules, key=lambda module: module.path))
        return GitTree(path=folder, commit=commit, tree=parts[0].tree, date=parts[0].date, submodules=found)
    raise AssertionError("unreachable")


def ensure(copy: Copy, commit: str, refs: Sequence[str]) -> None:
    """Fetch a commit: alone where the server allows that, with its ref, with everything."""
    if not copy.has(commit):
        ways: list[tuple[str, ...]] = [("--depth=1", REMOTE, commit)]
        ways += [(REMOTE, *refs)] if refs else []
        ways += [("--prune", REMOTE, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")]
        said: tuple[str, ...] = ()
        for way in ways:
            try:
                copy.fetch(*way)
            except Unfit as error:
                said = (*error.details, error.message)
                continue
            except Absent as error:
                raise _no_commit(copy.remote, commit, ()) from error
            if copy.has(commit):
                break
        else:
            raise _no_commit(copy.remote, commit, said)
    kind = copy.said("cat-file", "-t", commit).strip()
    if kind != "commit":
        raise LockError(f"{copy.remote.name}: {commit} is a {kind}, not a commit", hint=LOCK_HINT)


def _no_commit(remote: Remote, commit: str, said: tuple[str, ...]) -> LockError:
    return LockError(f"{remote.name}: there is no commit {commit}", details=said, hint=LOCK_HINT)


def remember(copy: Copy, commit: str, *proven: str) -> None:
    """Keep a commit in the copy, and that these refs of the remote were proven to agree with it."""
    for name in (commit, *proven):
        copy.said("update-ref", proof(name), commit)


def proof(name: str) -> str:
    """Return the ref of a copy that remembers a proven ref; hashed, as `a` and `a/b` cannot both be refs."""
    return f"refs/proven/{hashlib.sha256(name.encode()).hexdigest()}"


class _Damaged(Exception):
    """Files that came out of a copy are not what their commit names."""


def _parts(
    copy: Copy,
    commit: str,
    modules: list[Submodule],
    read: list[Copy],
    *,
    submodules: bool,
    mirrors: Mirrors,
    patience: Patience | None,
    path: str = "",
) -> list[_Part]:
    """Return a commit and, with `submodules`, everything nested in it, which is fetched.

    Adds to `modules` what is nested, and to `read` every copy that was read.
    """
    read.append(copy)
    tree, date = copy.said("log", "-1", "--no-show-signature", "--format=%T %ct", commit).split()
    if copy.said("rev-parse", "--verify", f"{commit}^{{tree}}").strip() != tree:
        raise _Damaged(f"it does not name tree {tree}")
    try:
        listing = listing_in(copy.said("ls-tree", "-r", "-z", "--full-tree", commit))
    except Malformed as error:
        raise LockError(f"{copy.remote.name}: commit {commit} cannot be read: {error}") from error
    if listing.depth > DEEPEST:
        raise LockError(f"{copy.remote.name}: commit {commit} has folders more than {DEEPEST} deep")
    links = listing.submodules
    parts = [_Part(path=path, copy=copy, commit=commit, tree=tree, date=int(date), links=links)]
    if not submodules or not links:
        return parts
    cache = copy.folder.parent.parent
    said = copy.git("config", "--no-includes", "--blob", f"{commit}:.gitmodules", "--null", "--list")
    urls = addresses_in(said.stdout)
    for name, inner in sorted(links.items()):
        where = f"{path}/{name}".lstrip("/")
        if len(modules) == _MOST_SUBMODULES:
            raise LockError(f"{copy.remote.name}: more than {_MOST_SUBMODULES} submodules in submodules")
        if name not in urls:
            raise LockError(
                f"{copy.remote.name}: submodule {where!r} of {commit} has no address in .gitmodules",
                hint="set submodules = false for this source if it is not needed",
            )
        url = resolved(urls[name], copy.remote.url)
        try:
            nested = Copy(Remote(url, mirrors=mirrors, cache=cache, patience=patience), cache, purpose="git")
            with nested.held():
                ensure(nested, inner, [])
                remember(nested, inner)
        except Failure as error:
            raise type(error)(
                f"submodule {where!r} of {copy.remote.name}: {error.message}",
                details=error.details,
                hint=error.hint,
            ) from error
        modules.append(Submodule(path=where, url=url, commit=inner))
        parts += _parts(
            nested, inner, modules, read, submodules=True, mirrors=mirrors, patience=patience, path=where
        )
    return parts


def _intact(folder: Path, parts: Sequence[_Part]) -> bool:
    return folder.is_dir() and all(tree_id(folder / part.path, part.links) == part.tree for part in parts)


def _export(folder: Path, parts: Sequence[_Part]) -> None:
    """Write the files of all parts to a folder, whole or not at all, and compare them with their commits."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as name:
        partial = Path(name) / "tree"
        for part in parts:
            place = partial / part.path
            place.mkdir(parents=True, exist_ok=True)
            env = {"GIT_INDEX_FILE": str(Path(name) / "index"), "GIT_WORK_TREE": str(place)}
            for words in (("read-tree", part.commit), ("checkout-index", "--all", "--quiet")):
                done = part.copy.git(*words, env=env, cwd=place)
                if done.status != 0:
                    raise part.copy.remote.unfit(said_by(done))
            if tree_id(place, part.links) != part.tree:
                raise _Damaged(f"its files are not those of tree {part.tree}")
        _normalize(partial, parts[0].date)
        shutil.rmtree(folder, ignore_errors=True)
        partial.replace(folder)


def _normalize(folder: Path, date: int) -> None:
    """Give every file the mode git knows and the commit's date, whatever the umask and the clock say."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = Path(place, name)
            if not path.is_symlink():
                executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
                path.chmod(0o755 if executable else 0o644)
            os.utime(path, (date, date), follow_symlinks=False)
    folder.chmod(0o755)
    os.utime(folder, (date, date))
