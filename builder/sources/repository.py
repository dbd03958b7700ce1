"""Runs git against one remote, with a bare copy of what was fetched from it, free of anyone's configuration.

It says what git could not do and why. Whether a tag or branch may stand where it does is decided elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from builder.errors import EngineError, LockError, RecipeError
from builder.mirrors import Mirrors
from builder.process import Completed, run
from builder.sources.download import LOCK_HINT, NETWORK_HINT
from builder.sources.gitoutput import Malformed, refs_in
from builder.sources.transport import Patience, shown
from builder.visible import without_logins
from builder.workspace import write_atomic

REMOTE = "pinned"
_PROTOCOLS = ("https", "http", "ssh", "git")
# Whatever a repository asks for, its files come out byte for byte as they were committed.
_ATTRIBUTES = "* -text -eol -crlf -filter -ident -working-tree-encoding -export-ignore -export-subst\n"
_CONFIG = """\
[safe]
\tdirectory = *
[core]
\thooksPath = /dev/null
\tautocrlf = false
\tlooseCompression = 1
[gc]
\tauto = 0
[maintenance]
\tauto = false
[protocol]
\tversion = 2
[fetch]
\trecurseSubmodules = false
[advice]
\tdetachedHead = false
"""
_GONE = re.compile(
    r"repository .*not found|repository not found|does not appear to be a git repository"
    r"|returned error: 4(04|10)|not exported|project you were looking for could not be found",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"could not read (Username|Password)|terminal prompts disabled|Authentication failed"
    r"|Permission denied|returned error: 40[13]|Host key verification failed",
    re.IGNORECASE,
)
_NETWORK = re.compile(
    r"could not resolve|connection (refused|reset|timed out|closed)|failed to connect|couldn't connect"
    r"|timed? ?out|early EOF|RPC failed|unexpected disconnect|returned error: (429|5\d\d)|hung up|transfer closed"
    r"|empty reply|recv failure|network is unreachable|no route to host|fetch-pack: invalid index-pack",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"Please make sure you have the correct access rights|and the repository exists")
_ABSENT = re.compile(r"not our ref|no such remote ref|couldn't find remote ref", re.IGNORECASE)


class Absent(LockError):
    """The remote is there and does not have the asked for object or ref."""


class Unfit(EngineError):
    """The remote, or a copy of it, cannot be asked in this way; the details are what git said."""


class Remote:
    """One repository somewhere: the address a recipe gives it and the one it is fetched from."""

    def __init__(self, url: str, *, mirrors: Mirrors, cache: Path, patience: Patience | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _PROTOCOLS or not parts.netloc or parts.netloc.rpartition("@")[2].startswith("-"):
            raise RecipeError(
                f"{url!r}: expected the address of a git repository that starts with {'://, '.join(_PROTOCOLS)}://"
            )
        if ".." in parts.path.split("/") or not url.isprintable():
            raise RecipeError(
                f"{url!r}: expected the address of a git repository without '..' and invisible characters"
            )
        self.url = url
        self.name = shown(url)
        self.address = mirrors.git(url)
        self._mirrors = mirrors
        self._cache = cache.absolute()
        self._patience = patience or Patience()
        self._local = self.address != url and urlsplit(self.address).scheme == "file"

    def refs(self, *names: str) -> dict[str, str]:
        """Ask for refs by full name; return those that are there, annotated tags also peeled as `NAME^{}`."""
        patterns = [pattern for name in names for pattern in (name, f"{name}^{{}}")]
        listed = self.network("ls-remote", "--quiet", REMOTE, *patterns)
        try:
            return refs_in(listed.stdout, patterns)
        except Malformed as error:
            raise EngineError(f"{self.name}: {error}") from error

    def network(self, *words: str) -> Completed:
        """Run git against the remote, again when the network fails in passing.

        Raises `LockError` when the repository or, as `Absent`, an object is gone, `EngineError` when the remote
        cannot be reached or, as `Unfit`, cannot be asked in this way.
        """
        for failed in range(1, self._patience.attempts + 1):
            done = self.git(*words)
            if done.status == 0:
                return done
            said = said_by(done)
            if not _NETWORK.search(done.stderr) or any(p.search(done.stderr) for p in (_ABSENT, _GONE, _LOGIN)):
                raise self._refusal(done.stderr, said)
            if failed < self._patience.attempts:
                time.sleep(self._patience.pause(failed, None))
        reason = next((line for line in said if _NETWORK.search(line)), said[-1])
        others = tuple(line for line in said if line != reason)
        raise EngineError(
            f"{self.name}: cannot be reached{self._via()}: {reason}", details=others, hint=NETWORK_HINT
        )

    def _refusal(self, stderr: str, said: tuple[str, ...]) -> Exception:
        if _ABSENT.search(stderr):
            return Absent(f"{self.name}: {said[-1]}", details=said[:-1], hint=LOCK_HINT)
        if _GONE.search(stderr):
            return LockError(
                f"{self.name}: there is no such repository{self._via()}", details=said, hint=LOCK_HINT
            )
        if _LOGIN.search(stderr):
            return LockError(
                f"{self.name}: cannot be read without a login{self._via()}: it is private, or it is gone",
                details=said,
                hint="give git access by an ssh key or ~/.netrc, or name a mirror: docs/mirrors.md",
            )
        return self.unfit(said)

    def unfit(self, said: tuple[str, ...]) -> Unfit:
        """Return what to raise when git failed for no reason known here."""
        return Unfit(f"{self.name}: git failed{self._via()}: {said[-1]}", details=said[:-1])

    def _via(self) -> str:
        return "" if self.address == self.url else f" at {shown(self.address)}"

    def git(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        repository: Path | None = None,
    ) -> Completed:
        """Run git with nobody's configuration and return what it did."""
        config = self._cache / "gitconfig"
        if not config.is_file() or config.read_text() != _CONFIG:
            write_atomic(config, _CONFIG)
        settings = {
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(config),
            # The address may have a password: on a command line, and in a file of the cache, others would see it.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"remote.{REMOTE}.url",
            "GIT_CONFIG_VALUE_0": self.address,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
            "GIT_ALLOW_PROTOCOL": ":".join((*_PROTOCOLS, "file") if self._local else _PROTOCOLS),
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_LFS_SKIP_SMUDGE": "1",
            # The cache may lie in someone's working copy, whose configuration is none of ours either.
            "GIT_CEILING_DIRECTORIES": str(self._cache.parent),
        }
        bundle = None if "GIT_SSL_CAINFO" in os.environ else self._mirrors.ca_bundle()
        if bundle is not None:
            settings["GIT_SSL_CAINFO"] = str(bundle)
        if "SSH_AUTH_SOCK" in os.environ:
            settings["SSH_AUTH_SOCK"] = os.environ["SSH_AUTH_SOCK"]
        where = ("--git-dir", str(repository)) if repository is not None else ()
        return run(["git", *where, *words], env={**settings, **(env or {})}, cwd=cwd or self._cache)


class Copy:
    """A bare repository in the cache that holds what was fetched from a remote."""

    def __init__(self, remote: Remote, cache: Path, *, purpose: str) -> None:
        last = re.sub(r"[^A-Za-z0-9_.-]", "-", remote.name.rstrip("/").rpartition("/")[2]).removesuffix(".git")
        key = hashlib.sha256(remote.url.encode()).hexdigest()[:16]
        self.remote = remote
        self.folder = cache.absolute() / purpose / f"{last}-{key}.git"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes and threads away from this copy."""
        with locked(self.folder.with_suffix(".lock")):
            yield

    def git(self, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Completed:
        """Run git in this copy."""
        return self.remote.git(*words, env=env, cwd=cwd, repository=self.folder)

    def said(self, *words: str) -> str:
        """Run git in this copy and return what it prints. Raises `Unfit`."""
        done = self.git(*words)
        if done.status != 0:
            raise self.remote.unfit(said_by(done))
        return done.stdout

    def fetch(self, *words: str) -> None:
        """Fetch into this copy, which is made if it is not there. Raises as `Remote.network`."""
        if not (self.folder / "info" / "attributes").is_file():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            made = self.remote.git("init", "--quiet", "--bare", "--template=", str(self.folder))
            if made.status != 0:
                raise EngineError(f"{self.folder}: git cannot make a repository here", details=said_by(made))
            (self.folder / "info").mkdir(exist_ok=True)
            (self.folder / "info" / "attributes").write_text(_ATTRIBUTES)
        self.remote.network("--git-dir", str(self.folder), "fetch", "--quiet", "--no-tags", "--force", *words)

    def has(self, commit: str) -> bool:
        """Whether the copy holds this object and all git needs to read it."""
        return self.folder.is_dir() and self.git("cat-file", "-e", commit).status == 0

    def remove(self) -> None:
        """Forget everything fetched."""
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a lock file for as long as the context lasts."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def said_by(done: Completed) -> tuple[str, ...]:
    """Return what git said, without its prefixes and without passwords in addresses; at least one line."""
    lines = (re.sub(r"^(fatal|error|remote): *", "", line.strip()) for line in done.stderr.splitlines())
    told = tuple(without_logins(line) for line in lines if line and not _ADVICE.match(line))
    return told[-8:] or (f"git ended with status {done.status} without a word",)
