"""Trees on disk and patches that the real git makes of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from builder import process
from builder.patches.diff import PatchFile, parse_patch
from builder.patches.tree import FILE, LINK, PROGRAM, Entry

Files = Mapping[str, bytes | Entry]
_OUTSIDE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": "/"}
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "1700000000 +0000"))
}


def lay_out(folder: Path, files: Files) -> Path:
    """Write files to a new folder."""
    folder.mkdir(parents=True)
    for path, what in files.items():
        entry = what if isinstance(what, Entry) else Entry(mode=FILE, data=what)
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == LINK:
            place.symlink_to(os.fsdecode(entry.data))
        else:
            place.write_bytes(entry.data)
            place.chmod(entry.mode & 0o777)
    return folder


def entries(folder: Path) -> dict[str, Entry]:
    """Return what is in a folder."""
    found = {}
    for path in folder.rglob("*"):
        short = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[short] = Entry(mode=LINK, data=os.fsencode(path.readlink()))
        elif path.is_file():
            found[short] = Entry(mode=PROGRAM if path.stat().st_mode & 0o100 else FILE, data=path.read_bytes())
    return found


def git_diff(place: Path, before: Files, after: Files, *options: str) -> bytes:
    """Return the patch that git makes of two trees."""
    repository = lay_out(place / "repository", before)
    git(repository, "init", "--quiet")
    git(repository, "config", "core.autocrlf", "false")
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--allow-empty", "--message=before")
    for path in repository.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    staged = lay_out(place / "staged", after)
    shutil.copytree(staged, repository, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(staged)
    git(repository, "add", "--all", "--force")
    out = place / "patch"
    git(repository, "diff", "--cached", "--binary", "--full-index", f"--output={out}", *options)
    shutil.rmtree(repository)
    return out.read_bytes()


def git(folder: Path, *words: str) -> str:
    """Run git and return what it says."""
    done = process.run(["git", *words], cwd=folder, env=_OUTSIDE | _AUTHOR)
    assert done.status == 0, done.stderr
    return done.stdout


def git_apply(folder: Path, patch: bytes) -> bool:
    """Apply a patch to a folder by `git apply`; return whether it did."""
    file = folder.parent / f"{folder.name}.patch"
    file.write_bytes(patch)
    done = process.run(["git", "apply", "--whitespace=nowarn", file], cwd=folder, env=_OUTSIDE)
    return done.status == 0


def parsed(text: str | bytes) -> PatchFile:
    """Read a patch called 'p'."""
    return parse_patch(text if isinstance(text, bytes) else text.encode(), name="p")


def hunk(path: str, *lines: str, at: int = 1) -> str:
    """Return a patch of one hunk, its header right for its lines; `at` is the line it starts at on both sides."""
    old = sum(line[0] in " -" for line in lines)
    new = sum(line[0] in " +" for line in lines)
    body = "".join(f"{line}\n" for line in lines)
    return f"--- a/{path}\n+++ b/{path}\n@@ -{at},{old} +{at},{new} @@\n{body}"
