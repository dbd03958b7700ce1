"""Runs containers as production would, for as long as somebody looks at them, and leaves none behind.

Knows the engine's container API. What happens inside a container is not its business.
"""

from __future__ import annotations

import io
import logging
import secrets
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import docker
import docker.errors
import requests

from builder import owner as owners
from builder.engine.client import START_HINT, connect
from builder.errors import EngineError, SmokeError

RUN_LABEL = "rocm-images.run"
UNTIL_LABEL = "rocm-images.until"
OWNER_LABEL = "rocm-images.owner"
_NAME_PREFIX = "rocm-images-"
_ANONYMOUS = "com.docker.volume.anonymous"  # a label of the engine's own
_GONE_SECONDS = 15.0
_LARGEST_FILE = 64 << 20  # of an image that is read as a whole: accounts, metadata
_SWEEP_MARGIN_SECONDS = 600
# What the engine says when the image is at fault and not the engine.
_IMAGE_FAULTS = ("OCI runtime", "unable to find user", "unable to start container process", "no matching entries")
# How the engine calls it that the ids of containers are those of a range that somebody was given.
_ID_RANGES = ("name=rootless", "name=userns")
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a container runs as: numeric ids, and the name and home of its passwd entry where it has one."""

    uid: int
    gid: int
    name: str | None = None
    home: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A started container: its name, the image it is of, and who owns its writable directories."""

    name: str
    image: str
    owner: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the engine knows of a container. `exit_code` counts only when it is not running."""

    running: bool
    exit_code: int
    out_of_memory: bool


@contextmanager
def running(
    image: str,
    *,
    run: str,
    user: str | None = None,
    owner: Identity | None = None,
    writable: Sequence[str] = (),
    network: str = "none",
    read_only: bool = True,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    shm: str | None = None,
    devices: Sequence[str] = (),
    groups: Sequence[str] = (),
    binds: Mapping[str, str] | None = None,
    lifetime_seconds: int = 900,
) -> Iterator[Running]:
    """Start a container that waits, give it to the caller, and remove it whatever happens.

    It runs as the image says unless `user` says otherwise, gets no variables but `env`, and writes only to
    `writable`, each an empty tmpfs that allows execution and belongs to `owner` (default: who it runs as).
    `command` replaces the image's entrypoint and arguments; the default waits for `lifetime_seconds`, after
    which the container ends and goes even when nobody is left to remove it. `run` labels everything started
    for one purpose. `devices` of the host and folders of it (`binds`, to where in the container, read-only) are
    handed in, `groups` are further groups, as ids.

    Raises `EngineError` when the engine is at fault, `SmokeError` when the image is.
    """
    name = f"{_NAME_PREFIX}{run[:12]}-{secrets.token_hex(4)}"
    argv = list(command) if command is not None else ["/bin/sleep", str(lifetime_seconds)]
    owner = owner or identity(image, user)
    settings: dict[str, Any] = {
        "image": image,
        "name": name,
        "entrypoint": argv[:1],
        "command": argv[1:],
        "environment": dict(env or {}),
        "labels": container_labels(run, lifetime_seconds) | dict(labels or {}),
        "network_mode": network,
        "read_only": read_only,
        "tmpfs": {path: tmpfs_options(path, owner) for path in writable},
        "healthcheck": {"test": ["NONE"]},
        "auto_remove": True,
        "use_config_proxy": False,  # it may have a password, and the image is to be as it is
    }
    if devices:
        settings["devices"] = [f"{device}:{device}:rwm" for device in devices]
    if groups:
        settings["group_add"] = list(groups)
    if binds:
        settings["volumes"] = {source: {"bind": to, "mode": "ro"} for source, to in binds.items()}
    if user is not None:
        settings["user"] = user
    if shm is not None:
        settings["shm_size"] = shm
    try:
        _to_its_end(partial(_start, image, settings))
        yield Running(name=name, image=image, owner=owner)
    except BaseException:
        try:
            _to_its_end(partial(remove, name))
        except EngineError as error:
            _log.debug("container %s could not be removed: %s", name, error)
        raise
    _to_its_end(partial(remove, name))


def identity(image: str, user: str | None = None) -> Identity:
    """Return who a container of `image` runs as, for `user` as in USER (None: as the image says).

    Names are looked up in the image's own /etc/passwd and /etc/group.
    """
    if user is None:
        user = _to_its_end(partial(_user_of, image))
    who, _, group = (user or "0").partition(":")
    if who.isdecimal() and group.isdecimal():
        return Identity(uid=int(who), gid=int(group))
    passwd, groups = _to_its_end(partial(_accounts, image))
    entry = next((fields for fields in passwd if who == (fields[2] if who.isdecimal() else fields[0])), None)
    if entry is None and not who.isdecimal():
        raise SmokeError(f"{image}: its user {who!r} is not in its /etc/passwd", hint="let the image create it")
    gid = int(entry[3]) if entry is not None else 0
    if group:
        listed = next((fields for fields in groups if fields[0] == group), None)
        if listed is None and not group.isdecimal():
            raise SmokeError(
                f"{image}: its group {group!r} is not in its /etc/group", hint="let the image create it"
            )
        gid = int(listed[2]) if listed is not None else int(group)
    if entry is None:
        return Identity(uid=int(who), gid=gid)
    return Identity(uid=int(entry[2]), gid=gid, name=entry[0], home=entry[5])


def ids_are_of_a_range() -> bool:
    """Tell whether containers have the ids of a range: with a rootless engine, or one that remaps users.

    A range has 65,536 of them as a rule, and no container runs as, or has a directory of, one beyond.
    """
    options = _to_its_end(_security_options)
    return any(option.partition(",")[0] in _ID_RANGES for option in options)


def _security_options() -> list[str]:
    with _engine() as client:
        told: dict[str, Any] = client.info()
    return list(told.get("SecurityOptions") or [])


def output(name: str, argv: Sequence[str]) -> Iterator[bytes]:
    """Run a program in a container and yield what it writes to standard output, piece by piece.

    Raises `SmokeError` when it ends with another status than 0, with the last it wrote to standard error.
    """
    words = b""
    with _engine() as client:
        started = client.api.exec_create(name, list(argv))["Id"]
        for out, err in client.api.exec_start(started, stream=True, demux=True):
            if out:
                yield out
            words = (words + (err or b""))[-4096:]
        status = client.api.exec_inspect(started)["ExitCode"]
    if status != 0:
        lines = words.decode("utf-8", "replace").splitlines()
        raise SmokeError(f"a program in the container ended with status {status}", details=tuple(lines[-10:]))


def state(name: str) -> State | None:
    """Return what the engine knows of a container; None when it is gone. Raises `EngineError` without engine."""
    with _engine() as client:
        try:
            told: dict[str, Any] = client.api.inspect_container(name)["State"]
        except docker.errors.NotFound:
            return None
    return State(
        running=bool(told["Running"]), exit_code=int(told["ExitCode"]), out_of_memory=bool(told["OOMKilled"])
    )


def remove(name: str) -> None:
    """Remove a container with its anonymous volumes, whatever it does, and wait until all are really gone."""
    deadline = time.monotonic() + _GONE_SECONDS
    with _engine() as client:
        volumes = _anonymous_volumes(client, name)
        while _still_there(partial(client.api.remove_container, name, force=True, v=True), deadline):
            time.sleep(0.05)
        # The engine drops a container before its volumes, and leaves them where it removed it by itself just now.
        for volume in volumes:
            while _still_there(partial(client.api.remove_volume, volume, force=True), deadline):
                time.sleep(0.05)


def _still_there(remove_once: Callable[[], object], deadline: float) -> bool:
    """Ask the engine to remove something; return whether to ask again."""
    try:
        remove_once()
    except docker.errors.NotFound:
        return False
    except docker.errors.APIError as error:
        # 409: the engine is removing it already, because it ended by itself, or it is still in use by what does.
        if error.status_code != HTTPStatus.CONFLICT or time.monotonic() > deadline:
            raise
    return True


def _anonymous_volumes(client: docker.DockerClient, name: str) -> list[str]:
    """Return the volumes that the engine made for a container because its image declares them."""
    try:
        mounts = client.api.inspect_container(name)["Mounts"]
        found = [client.api.inspect_volume(mount["Name"]) for mount in mounts if mount["Type"] == "volume"]
    except docker.errors.NotFound:
        return []
    return [volume["Name"] for volume in found if _ANONYMOUS in (volume.get("Labels") or {})]


def remove_all(run: str) -> int:
    """Remove what is left of a run and return how many containers that were."""
    found = _to_its_end(partial(_labelled, f"{RUN_LABEL}={run}"))
    for entry in found:
        _to_its_end(partial(remove, str(entry["Id"])))
    return len(found)


def sweep() -> int:
    """Remove containers of runs that were killed.

    Those whose owner is gone, and those that outlived the time they gave themselves: an engine may be used from
    where the owner cannot be seen.
    """
    now = time.time()
    found = [
        entry
        for entry in _to_its_end(partial(_labelled, UNTIL_LABEL))
        if float(entry["Labels"][UNTIL_LABEL]) + _SWEEP_MARGIN_SECONDS < now
        or owners.is_gone(entry["Labels"].get(OWNER_LABEL, ""))
    ]
    for entry in found:
        _to_its_end(partial(remove, str(entry["Id"])))
    return len(found)


@contextmanager
def _engine() -> Iterator[docker.DockerClient]:
    """Connect, and tell a lost engine from other errors while the caller works with it."""
    client = connect()
    try:
        yield client
    except (requests.ConnectionError, requests.Timeout) as error:
        raise EngineError(
            "the container engine went away", hint=START_HINT, details=(f"{type(error).__name__}: {error}",)
        ) from error
    except docker.errors.APIError as error:
        raise EngineError(f"the container engine refuses: {error.explanation or error}") from error
    finally:
        client.close()


def _user_of(image: str) -> str:
    with _engine() as client:
        try:
            config: dict[str, Any] = client.images.get(image).attrs["Config"] or {}
        except docker.errors.ImageNotFound as error:
            raise _no_image(image) from error
    return str(config.get("User") or "")


def _start(image: str, settings: Mapping[str, Any]) -> None:
    with _engine() as client:
        try:
            client.containers.create(**settings).start()
        except docker.errors.ImageNotFound as error:
            raise _no_image(image) from error
        except docker.errors.APIError as error:
            said = str(error.explanation or error)
            if not any(fault in said for fault in _IMAGE_FAULTS):
                raise
            raise SmokeError(
                f"{image}: no container of it starts: {said}", hint=f"docker run --rm {image}"
            ) from error


def _no_image(image: str) -> EngineError:
    return EngineError(f"{image}: no such image in the container engine", hint=f"docker pull {image}")


def read_files(image: str, paths: Sequence[str]) -> tuple[bytes | None, ...]:
    """Return the contents of files of an image, None for one that is not there. No program of it is started.

    Raises `EngineError` when there is no such image.
    """
    name = f"{_NAME_PREFIX}files-{secrets.token_hex(4)}"
    with _engine() as client:
        try:
            client.containers.create(
                image,
                name=name,
                entrypoint=["/bin/sleep"],
                command=["0"],
                labels=container_labels("files", 0),
                use_config_proxy=False,
            )
            return tuple(_read(client, name, path) for path in paths)
        except docker.errors.ImageNotFound as error:
            raise _no_image(image) from error
        finally:
            remove(name)


def _read(client: docker.DockerClient, name: str, path: str) -> bytes | None:
    try:
        chunks, _ = client.api.get_archive(name, path)
    except docker.errors.NotFound:
        return None
    try:
        return file_in(chunks)
    except tarfile.TarError as error:
        raise SmokeError(f"{path}: the image's file cannot be read: {error}") from error


def file_in(chunks: Iterable[bytes]) -> bytes | None:
    """Return the file of an archive as the engine hands it out, or None. Raises `tarfile.TarError`."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > _LARGEST_FILE:
            raise tarfile.ReadError(f"it has more than {_LARGEST_FILE} bytes")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        member = archive.next()
        content = archive.extractfile(member) if member is not None and member.isfile() else None
        return content.read() if content is not None else None


def _accounts(image: str) -> tuple[list[list[str]], list[list[str]]]:
    users, groups = read_files(image, ["/etc/passwd", "/etc/group"])
    return _table(users, 7), _table(groups, 4)


def _table(content: bytes | None, width: int) -> list[list[str]]:
    rows = [line.split(":") for line in (content or b"").decode("utf-8", "replace").splitlines()]
    return [fields for fields in rows if len(fields) >= width]


def _labelled(label: str) -> list[dict[str, Any]]:
    with _engine() as client:
        found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": label})
    return found


def container_labels(run: str, lifetime_seconds: int) -> dict[str, str]:
    """Return the labels by which a container of a run is found again, also when nobody is left who knows it."""
    until = str(int(time.time()) + lifetime_seconds)
    return {RUN_LABEL: run, UNTIL_LABEL: until, OWNER_LABEL: owners.me()}


def tmpfs_options(path: str, owner: Identity) -> str:
    """Return how a declared directory is mounted: empty, the owner's, and fit to load compiled code from."""
    mode = "1777" if path in {"/tmp", "/var/tmp"} else "0755"  # noqa: S108 -- paths of the image
    return f"rw,exec,nosuid,nodev,mode={mode},uid={owner.uid},gid={owner.gid}"


def _to_its_end(work: Callable[[], _T]) -> _T:
    """Do engine work that an interrupt must not cut in two, and let the interrupt go on after it.

    Cut between request and answer, the engine would create a container that nobody knows of.
    """
    results: list[_T] = []
    errors: list[BaseException] = []
    first, done = threading.Lock(), threading.Event()

    def do() -> None:
        if not first.acquire(blocking=False):
            return
        try:
            results.append(work())
        except BaseException as error:  # carried over to the caller's thread
            errors.append(error)
        finally:
            done.set()

    # An interrupt may come at any point of this loop, also while a thread starts: then another one starts, and
    # finds the work taken. Not Thread.join: an interrupt makes it take a running thread for a finished one.
    interrupt: BaseException | None = None
    started = False
    while not done.is_set():
        try:
            if not started:
                threading.Thread(target=do, daemon=True).start()
                started = True
            done.wait()
        except (KeyboardInterrupt, SystemExit) as signalled:
            interrupt = signalled
    if interrupt is not None:
        raise interrupt
    if errors:
        raise errors[0]
    return results[0]
