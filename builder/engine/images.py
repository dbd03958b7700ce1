"""Images in the engine's store, and their way out of it and into it: tag, push, pull, save, load.

Credentials are the docker configuration's and its helpers'; they pass through the engine's library alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests

from builder.engine.client import connect
from builder.errors import EngineError, PublishError
from builder.reference import Digest, ImageReference, registry_unusable
from builder.story import Reached, Story

# What both stores say at the end: candidate: digest: sha256:… size: 476
_PUSHED = re.compile(r"\S+: digest: (sha256:[0-9a-f]{64}) size: [0-9]+")
_LISTINGS = 8  # how often the engine is asked for a list while other runs remove images
_SAVE_SECONDS = 600  # until the first piece comes, and between any two


def listed(
    client: docker.DockerClient, *, filters: Mapping[str, str] | None = None, whole: bool = False
) -> list[dict[str, Any]]:
    """Return the images that the engine lists, as its API has them; `whole` with those that have no name.

    The containerd image store sums up sizes while it lists, and answers 404 for the whole list when somebody
    removes one of the images meanwhile: then it is asked again. Raises what the docker SDK raises.
    """
    for _ in range(_LISTINGS - 1):
        with suppress(docker.errors.NotFound):
            return list(client.api.images(filters=filters, all=whole))
    return list(client.api.images(filters=filters, all=whole))


def local_id(name: str) -> str | None:
    """Return the id of an image in the engine's store, None when it is not there."""
    client = connect()
    try:
        return str(client.images.get(name).id)
    except docker.errors.ImageNotFound:
        return None
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        client.close()


def local_ids(pattern: str) -> dict[str, str]:
    """Return the images in the engine's store whose name matches `pattern` (`host/*`), by name, in one request."""
    client = connect()
    try:
        found = listed(client, filters={"reference": pattern})
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        client.close()
    return {str(name): str(image["Id"]) for image in found for name in image["RepoTags"] or ()}


def labels(name: str) -> dict[str, str]:
    """Return the labels of an image in the engine's store."""
    client = connect()
    try:
        return dict(client.images.get(name).labels)
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        client.close()


def load(archive: Path) -> None:
    """Put the image of an archive, as `docker save` writes it, into the engine's store."""
    client = connect()
    try:
        with archive.open("rb") as source:
            client.images.load(source)
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        client.close()


@contextmanager
def saved(name: str) -> Iterator[Iterator[bytes]]:
    """Give the archive of an image in the engine's store, as `docker save` writes it, piece by piece."""
    client = connect(timeout_seconds=_SAVE_SECONDS)
    try:
        yield client.images.get(name).save(chunk_size=1 << 20)
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        client.close()


def remove(name: str) -> None:
    """Take a name from the engine's store, and its content where no other name holds it. Absent is fine."""
    client = connect()
    try:
        with suppress(docker.errors.ImageNotFound):
            client.images.remove(name)
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        client.close()


def pull(reference: ImageReference, story: Story) -> str:
    """Fetch an image by digest into the engine's store and return the id to run it by."""
    client = connect()
    try:
        return fetched(client, reference, story)
    except docker.errors.APIError as error:
        raise registry_unusable(reference, str(error.explanation)) from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        client.close()


def fetched(client: docker.DockerClient, reference: ImageReference, story: Story) -> str:
    """Have the engine fetch an image by its digest, or else its tag, and return the id to run it by.

    Raises what the docker SDK raises: `APIError` where the registry does not give it.
    """
    wanted = str(reference.digest or reference.tag)
    transfer = Transfer()
    with story.step(f"pulling {reference}"):
        story.follow(transfer.how_far)
        for event in client.api.pull(reference.name, tag=wanted, stream=True, decode=True):
            if "error" in event:
                said = str(event["error"]).strip()
                raise docker.errors.APIError(said, explanation=said)
            transfer.hear(event)
        separator = ":" if reference.digest is None else "@"
        return str(client.images.get(f"{reference.name}{separator}{wanted}").id)


def tag(image: str, reference: ImageReference) -> None:
    """Let the engine call a local image by a name as well. Nothing leaves the machine."""
    client = connect()
    try:
        client.images.get(image).tag(reference.name, tag=reference.tag)
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        client.close()


class Transfer:
    """Follows what the engine tells of the layers that it sends or fetches."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int | None]] = {}  # bytes that are over, and all, where that is known

    def hear(self, event: Mapping[str, Any]) -> str | None:
        """Take in one event; return the layer that is there with it, in words."""
        layer, status = str(event.get("id", "")), str(event.get("status", ""))
        so_far, whole = self._layers.get(layer, (0, None))
        if status in ("Preparing", "Waiting", "Pulling fs layer"):
            self._layers.setdefault(layer, (0, None))
        elif status in ("Pushing", "Downloading"):
            detail = event.get("progressDetail") or {}
            self._layers[layer] = (int(detail.get("current", so_far)), detail.get("total", whole))
        elif status in ("Layer already exists", "Already exists"):
            self._layers[layer] = (0, 0)
        elif status in ("Pushed", "Pull complete"):
            self._layers[layer] = (whole or 0, whole or 0)
        return f"layer {layer}: {status.lower()}" if status in ("Pushed", "Layer already exists") else None

    def how_far(self) -> Reached:
        """See `Story.follow`."""
        layers = list(self._layers.values())
        if not layers:
            return Reached(words="")
        over = sum(so_far for so_far, _ in layers)
        sizes = [size for _, size in layers if size is not None]
        done = len([size for so_far, size in layers if size is not None and so_far >= size])
        whole = sum(sizes)
        return Reached(
            words=f"{done} of {len(layers)} layers, {over / 1e6:.0f} of {whole / 1e6:.0f} MB",
            share=over / whole if whole > 0 and len(sizes) == len(layers) else None,
        )


def push(reference: ImageReference, story: Story) -> Digest | None:
    """Push the local image of this name; return the digest it says it has there.

    The registry gets the layers first and the tag last, so that a push that is cut off leaves no tag. However
    this ends, the engine does not go on with it.
    """
    client = connect()
    answers: list[requests.Response] = []
    client.api.hooks["response"].append(lambda answer, **_: answers.append(answer))
    digest: Digest | None = None
    transfer = Transfer()
    story.follow(transfer.how_far)
    try:
        for event in client.images.push(reference.name, tag=reference.tag, stream=True, decode=True):
            if "error" in event:
                raise PublishError(
                    f"{reference.name}: the registry did not take the image",
                    details=(str(event["error"]).strip(),),
                    hint="no version tag was set; try again when the registry is well",
                )  # fmt: skip
            if sent := transfer.hear(event):
                story.note(sent)
            if said := _PUSHED.fullmatch(str(event.get("status", ""))):
                digest = Digest(said[1])
    except docker.errors.APIError as error:
        raise PublishError(
            f"{reference.name}: the registry did not take the image", details=(str(error.explanation),)
        ) from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise _engine_gone(error) from error
    finally:
        # The engine pushes for as long as somebody listens to it; closing the client leaves its answer open.
        for answer in answers:
            answer.close()
        client.close()
    return digest


def _engine_gone(error: Exception) -> EngineError:
    return EngineError("the container engine stopped answering", details=(str(error),), hint="rocm-images doctor")
