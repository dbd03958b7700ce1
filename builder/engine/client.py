"""Knows how to reach the container engine and what kind of engine it is. Starts none, changes nothing in it.

The engine is the one the docker command line would use: DOCKER_HOST, else the current docker context, else the
default socket.
"""

from __future__ import annotations

import binascii
import os
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import docker
import docker.errors
import requests
from docker.context import ContextAPI
from docker.context.config import get_current_context_name

from builder import process
from builder.errors import EngineError

OLDEST_BUILDX = (0, 13)
OLDEST_ENGINE = (23, 0)  # the first whose BuildKit knows COPY --link and heredocs
START_HINT = "rocm-images engine up --install"
_PLUGIN_HINT = "rocm-images install"
_CONTAINERD_DRIVER = "io.containerd.snapshotter.v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineInfo:
    """An engine that answers. `server_os` and `arch` are written as in a platform: linux, amd64.

    `containerd_store` tells the image store: with it a local image's digest is the registry's digest.
    `data_root` is a folder of the machine the engine runs on, `containerd` the socket of the containerd it uses
    where it says so. `buildx_version` is None without the plugin, `driver` is the driver of the builder that
    buildx would use, None when that cannot be told.
    """

    host: str
    version: str
    containerd_store: bool
    data_root: PurePosixPath
    server_os: str
    arch: str
    buildx_version: str | None
    driver: str | None
    containerd: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine, as far as its address tells."""
        return self.host.startswith("unix://")

    @property
    def platform(self) -> str:
        """The engine's own platform, for example linux/amd64."""
        return f"{self.server_os}/{self.arch}"


def connect(host: str | None = None, *, timeout_seconds: int = 60) -> docker.DockerClient:
    """Return a client of the engine at `host` (an URL as in DOCKER_HOST; None: the one the command line uses).

    The client's requests give up after `timeout_seconds`. Raises `EngineError` when no engine answers.
    """
    where = host or endpoint()
    try:
        if host is None:
            return docker.from_env(timeout=timeout_seconds, use_ssh_client=True)
        return docker.DockerClient(base_url=host, timeout=timeout_seconds, use_ssh_client=True)
    except (docker.errors.InvalidConfigFile, binascii.Error, UnicodeDecodeError) as error:
        raise EngineError(f"docker's configuration cannot be used: {error}", hint="docker login") from error
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as error:
        raise _unreachable(where, error) from error


def info(host: str | None = None, *, timeout_seconds: int = 60) -> EngineInfo:
    """Ask the engine, and the buildx plugin, what they are. Raises `EngineError` when no engine answers."""
    client = connect(host, timeout_seconds=timeout_seconds)
    try:
        told: dict[str, Any] = client.info()
        version: dict[str, Any] = client.version()
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _unreachable(host or endpoint(), error) from error
    finally:
        client.close()
    buildx = buildx_version()
    return EngineInfo(
        host=host or endpoint(),
        version=version["Version"],
        containerd_store=["driver-type", _CONTAINERD_DRIVER] in (told.get("DriverStatus") or []),
        data_root=PurePosixPath(told["DockerRootDir"]),
        server_os=version["Os"],
        arch=version["Arch"],
        buildx_version=buildx,
        driver=_driver(host) if buildx is not None else None,
        containerd=(told.get("Containerd") or {}).get("Address"),
    )


def buildx_version() -> str | None:
    """Return the version of the buildx plugin, or None when the docker command line or the plugin is missing."""
    try:
        asked = process.run(["docker", "buildx", "version"])
    except EngineError:
        return None
    # github.com/docker/buildx v0.14.0 171fcbe
    found = re.match(r"\S+buildx v?(\d\S*)", asked.stdout)
    return found[1] if asked.status == 0 and found else None


def is_new_enough(version: str) -> bool:
    """Tell whether a buildx of this version has everything that builds here use."""
    return _at_least(version, OLDEST_BUILDX)


def is_engine_new_enough(version: str) -> bool:
    """Tell whether an engine of this version can run the builds made here."""
    return _at_least(version, OLDEST_ENGINE)


def require_usable(engine: EngineInfo) -> None:
    """Raise `EngineError` when the engine, or the buildx plugin, is too old or the plugin is missing."""
    if not is_engine_new_enough(engine.version):
        raise EngineError(
            f"the engine at {engine.host} is {engine.version}, at least {_shown(OLDEST_ENGINE)} is needed",
            hint="stop it and run: rocm-images engine up --install; or name another engine with DOCKER_HOST",
        )
    if engine.buildx_version is None:
        raise EngineError("docker has no buildx plugin on this machine", hint=_PLUGIN_HINT)
    if not is_new_enough(engine.buildx_version):
        raise EngineError(
            f"docker's buildx plugin is {engine.buildx_version}, at least {_shown(OLDEST_BUILDX)} is needed",
            hint=_PLUGIN_HINT,
        )


def _at_least(version: str, least: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= least


def _shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _driver(host: str | None) -> str | None:
    asked = process.run(["docker", "buildx", "inspect"], env={} if host is None else {"DOCKER_HOST": host})
    found = re.search(r"^Driver:\s+(\S+)", asked.stdout, re.MULTILINE)
    return found[1] if found else None


def endpoint() -> str:
    """Return where the engine is that the docker command line would use, whether it answers or not.

    Raises `EngineError` when the chosen docker context does not exist.
    """
    if named := os.environ.get("DOCKER_HOST"):
        return named
    try:
        context: Any = ContextAPI.get_context(os.environ.get("DOCKER_CONTEXT"))
    except Exception as error:  # the SDK raises the bare class for a context file that it cannot read
        raise EngineError(str(error), hint="docker context ls") from error
    if context is None:
        name = os.environ.get("DOCKER_CONTEXT") or get_current_context_name()
        raise EngineError(f"there is no docker context {name!r}", hint="docker context ls")
    return str(context.Host)


def _unreachable(where: str, error: BaseException) -> EngineError:
    reason: BaseException = error
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and not isinstance(seen, requests.RequestException):
            reason = seen
        seen = seen.__cause__ or seen.__context__
    hint = START_HINT
    if isinstance(reason, PermissionError):
        hint = "run as root, or as a user that is in the group of the engine's socket"
    return EngineError(f"no container engine answers at {where}", hint=hint, details=(str(reason),))
