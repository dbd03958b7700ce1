"""Logins for registries, as docker and its credential helpers keep them. Reads; never writes, never tells them.

The format is that of docker's `config.json`; helpers speak the protocol of docker-credential-helpers.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.errors import EngineError
from builder.process import run

# How docker calls Docker Hub in its configuration, for historical reasons.
_HUB = "https://index.docker.io/v1/"
_HUB_HOSTS = ("docker.io", "index.docker.io", "registry-1.docker.io")
_NOBODY = "credentials not found"


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """A name and password, or a token to get access tokens with. It does not show itself."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str | None:
        """The value of an Authorization header, None without a password."""
        if not self.password:
            return None
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def login_for(host: str) -> Login | None:
    """Return the login for a registry, None where nobody logged in.

    Raises `EngineError` for a configuration or a helper that cannot be used.
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    path = folder / "config.json"
    if not path.is_file():
        return None
    try:
        config = json.loads(path.read_text())
        auths, helpers = dict(config.get("auths") or {}), dict(config.get("credHelpers") or {})
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise EngineError(f"{path}: not a configuration of docker: {error}") from error
    names = _names(host)
    helper = next((helpers[name] for name in names if name in helpers), config.get("credsStore"))
    if helper:
        return _from_helper(str(helper), names)
    entries = {_host(key): entry for key, entry in auths.items() if isinstance(entry, dict)}
    entry = next((entries[_host(name)] for name in names if _host(name) in entries), None)
    return _from_entry(entry, path) if entry is not None else None


def _names(host: str) -> tuple[str, ...]:
    return (_HUB, *_HUB_HOSTS) if host in _HUB_HOSTS else (host, f"https://{host}")


def _host(name: str) -> str:
    return name.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _from_entry(entry: Mapping[str, object], path: Path) -> Login | None:
    try:
        user, _, password = base64.b64decode(str(entry.get("auth", "")), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise EngineError(f"{path}: a login in it is damaged", hint="docker login") from error
    token = str(entry.get("identitytoken", ""))
    login = Login(
        user=str(entry.get("username", "")) or user,
        password=str(entry.get("password", "")) or password.rstrip("\0"),
        identity_token=token,
    )
    return login if login.password or login.identity_token else None


def _from_helper(helper: str, names: tuple[str, ...]) -> Login | None:
    program = f"docker-credential-{helper}"
    for name in names:
        done = run([program, "get"], stdin=name)
        if done.status:
            if _NOBODY in done.stdout + done.stderr:
                continue
            raise EngineError(f"{program} gave no login for {name}", details=done.tail, hint="docker login")
        try:
            table = json.loads(done.stdout)
            user, secret = str(table["Username"]), str(table["Secret"])
        except (ValueError, KeyError, TypeError) as error:
            raise EngineError(f"{program} did not answer as a credential helper") from error
        return Login(identity_token=secret) if user == "<token>" else Login(user=user, password=secret)
    return None
