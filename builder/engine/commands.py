"""Runs an image's own command to its end, as production starts it. What the outcome means is not its business."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import docker
import docker.errors
import requests
from docker.types import LogConfig
from requests.exceptions import ReadTimeout

from builder.engine.client import START_HINT, connect
from builder.engine.containers import Identity, container_labels, remove, tmpfs_options
from builder.errors import EngineError

_MOST_LINES = 200
_NOT_FOUND = 127
_LOG = {"max-size": "16m", "max-file": "2"}  # a program that writes without end must not fill the disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of a command. `status` is None when it did not end in time; `lines` are the last it wrote."""

    status: int | None
    lines: tuple[str, ...]
    seconds: float


def run_to_end(
    image: str,
    *,
    run: str,
    entrypoint: Sequence[str] | None,
    command: Sequence[str],
    owner: Identity,
    user: str | None = None,
    writable: Sequence[str] = (),
    read_only: bool = True,
    shm: str | None = None,
    limit_seconds: float,
) -> Ended:
    """Start a container with a command, wait until it ends, and remove it whatever happens.

    `entrypoint` None keeps the image's own, an empty one starts `command` alone. There is no network, and only
    `writable` takes files where `read_only`. Raises `EngineError` when the engine is at fault; a program that
    is not in the image ends with status 127, as a shell says it.
    """
    settings: dict[str, Any] = {
        "image": image,
        "name": f"rocm-images-{run[:12]}-{secrets.token_hex(4)}",
        "command": list(command),
        "labels": dict(container_labels(run, int(limit_seconds))),
        "network_mode": "none",
        "read_only": read_only,
        "tmpfs": {path: tmpfs_options(path, owner) for path in writable},
        "healthcheck": {"test": ["NONE"]},
        "log_config": LogConfig(type=LogConfig.types.JSON, config=_LOG),
        "use_config_proxy": False,  # it may have a password, and the image is to be as it is
    }
    given: Mapping[str, Any] = {"user": user, "shm_size": shm}
    settings |= {key: value for key, value in given.items() if value is not None}
    if entrypoint is not None:
        # An empty list would be taken for "as the image says".
        argv = [*entrypoint, *command]
        settings |= {"entrypoint": argv[:1], "command": argv[1:]}
    begun = time.monotonic()
    client = connect()
    try:
        client.containers.create(**settings)
        return _ended(client, settings["name"], limit_seconds, begun)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise EngineError(
            "the container engine went away", hint=START_HINT, details=(f"{type(error).__name__}: {error}",)
        ) from error
    except docker.errors.APIError as error:
        raise EngineError(f"the container engine refuses: {error.explanation or error}") from error
    finally:
        remove(settings["name"])
        client.close()


def _ended(client: docker.DockerClient, name: str, limit_seconds: float, begun: float) -> Ended:
    container = client.containers.get(name)
    try:
        container.start()
    except docker.errors.APIError as error:
        said = str(error.explanation or error)
        if "OCI runtime" not in said and "unable to start container process" not in said:
            raise
        return Ended(status=_NOT_FOUND, lines=(said.strip(),), seconds=_since(begun))
    status: int | None
    try:
        status = int(container.wait(timeout=limit_seconds)["StatusCode"])
    except (ReadTimeout, requests.ConnectionError) as error:
        if not isinstance(error, ReadTimeout) and "timed out" not in str(error):
            raise
        status = None
    tail = deque(container.logs(tail=_MOST_LINES).decode("utf-8", "replace").splitlines(), maxlen=_MOST_LINES)
    return Ended(status=status, lines=tuple(line.rstrip() for line in tail if line.strip()), seconds=_since(begun))


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 3)
