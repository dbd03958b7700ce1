"""Looks into an image without running anything of it: its configuration, its layers, its files."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import docker
import docker.errors
import requests

from builder.engine.client import START_HINT, connect
from builder.engine.containers import container_labels, remove
from builder.engine.images import fetched
from builder.errors import EngineError
from builder.reference import ImageReference
from builder.story import Story

_MOST_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What an image says of itself, as a Dockerfile would set it. `id` is how the engine calls it."""

    id: str
    user: str
    workdir: str
    env: Mapping[str, str]
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    volumes: tuple[str, ...]
    labels: Mapping[str, str]


def config(image: str) -> Config | None:
    """Return what an image in the engine's store says of itself, None when it is not there."""
    with _client() as client:
        try:
            attrs: dict[str, Any] = client.images.get(image).attrs
        except docker.errors.ImageNotFound:
            return None
    told: dict[str, Any] = attrs["Config"] or {}
    return Config(
        id=str(attrs["Id"]),
        user=told.get("User") or "",
        workdir=told.get("WorkingDir") or "/",
        env=dict(entry.split("=", 1) for entry in told.get("Env") or ()),
        entrypoint=tuple(told.get("Entrypoint") or ()),
        cmd=tuple(told.get("Cmd") or ()),
        volumes=tuple(sorted(told.get("Volumes") or ())),
        labels=dict(told.get("Labels") or {}),
    )


def pull(reference: ImageReference, story: Story) -> str:
    """Fetch an image of a registry, by digest or tag, and return the id to run it by.

    Raises `EngineError` when the registry does not have it, or does not answer.
    """
    with _client() as client:
        try:
            return fetched(client, reference, story)
        except docker.errors.APIError as error:
            raise EngineError(
                f"{reference}: not in the engine's store, and the registry does not give it",
                details=(str(error.explanation or error),),
                hint="see its name, and the login for its registry",
            ) from error


def layers(image: str) -> tuple[tuple[str, int], ...]:
    """Return what made every step of an image's history, and its unpacked size in bytes, the first step first."""
    with _client() as client:
        history: list[dict[str, Any]] = client.images.get(image).history()
    return tuple((_made_by(str(step["CreatedBy"])), int(step["Size"])) for step in reversed(history))


def _made_by(words: str) -> str:
    """Return a step as a Dockerfile has it; the older builder wrapped it into a shell command."""
    bare = words.removeprefix("/bin/sh -c ")
    return bare.removeprefix("#(nop)").strip() if bare.startswith("#(nop)") or bare == words else f"RUN {bare}"


def exists(client: docker.DockerClient, name: str, path: str) -> bool:
    """Tell whether there is anything at a path of a container; see `created`. Links are not followed."""
    try:
        chunks, _ = client.api.get_archive(name, path)
    except docker.errors.NotFound:
        return False
    chunks.close()
    return True


def export(image: str) -> Iterator[bytes]:
    """Yield the whole file system of an image as one tar archive, piece by piece. Nothing is started."""
    with created(image) as (client, name):
        yield from client.api.export(name)


@contextmanager
def created(image: str) -> Iterator[tuple[docker.DockerClient, str]]:
    """Give a client, and the name of a container of an image that is never started."""
    name = f"rocm-images-look-{secrets.token_hex(4)}"
    with _client() as client:
        try:
            client.containers.create(
                image,
                name=name,
                entrypoint=["/nothing"],
                labels=container_labels("look", _MOST_SECONDS),
                use_config_proxy=False,
            )
            yield client, name
        finally:
            remove(name)


@contextmanager
def _client() -> Iterator[docker.DockerClient]:
    client = connect(timeout_seconds=_MOST_SECONDS)
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
