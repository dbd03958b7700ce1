"""Where tested images go: a repository of a registry, or an image layout on disk. One protocol for both.

An image comes there without a version tag; tags are set afterwards, by a method of their own, from the very bytes
of the manifest. When a tag may be set, and which, is not decided here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, assert_never

from builder import foreign
from builder.engine import images
from builder.engine.build import BuiltImage
from builder.errors import EngineError, PublishError
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference, LayoutReference, Place
from builder.registries.artifacts import Attachment, Misshapen
from builder.registries.client import Document, Refused, Repository, repository
from builder.registries.layouts import Layout
from builder.registries.referrers import attach_in, writing_told
from builder.sources.transport import Missing, Patience, Unreachable
from builder.story import Story

CANDIDATE = "candidate"  # the tag that engines push under; no version tag looks like it
_LARGEST_CONFIG = 16 << 20
_DENIED = ("denied", "unauthorized", "authentication required", "no basic auth credentials")
_NOT_REACHED = "connection refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """An image at its destination: its manifest to the byte, its configuration, its layers as digest and size."""

    document: Document
    config: Digest
    layers: tuple[tuple[str, int], ...]

    @property
    def digest(self) -> Digest:
        """What to pin."""
        return self.document.digest


class Destination(Protocol):
    """A place for the images of one recipe. Raises `PublishError` and `EngineError`."""

    place: Place

    def standing(self, tag: str) -> Digest | None:
        """Return the digest that a tag names, None where there is no such tag."""
        ...

    def held(self, digest: Digest) -> Candidate | None:
        """Return an image by digest, None where there is no such image, or it is an index of several."""
        ...

    def labels(self, image: Candidate) -> dict[str, str]:
        """Return what an image says of itself."""
        ...

    def put(self, image: BuiltImage, story: Story) -> Candidate:
        """Bring an image of the engine there, under no version tag."""
        ...

    def attach(self, image: Candidate, attachment: Attachment) -> Digest:
        """Put a document beside an image; return the digest of its manifest."""
        ...

    def point(self, tag: str, image: Candidate) -> None:
        """Let a tag name an image."""
        ...

    def settle(self, tag: str, image: Candidate, story: Story) -> None:
        """Take away what only served the way there, and let the engine know the image by its name, if possible."""
        ...

    def fetch(self, image: Candidate, name: str, story: Story) -> str:
        """Bring an image into the engine, where it may be called `name`, and return its id there."""
        ...


@contextmanager
def opened(place: Place, *, mirrors: Mirrors, patience: Patience | None = None) -> Iterator[Destination]:
    """Open the place of a recipe's images."""
    match place:
        case ImageReference():
            with repository(place, mirrors=mirrors, patience=patience, writing=True) as registry:
                yield InRegistry(place.at(), registry, patience or Patience())
        case LayoutReference():
            yield InLayout(place.at())
        case _:
            assert_never(place)


def is_tested(image: BuiltImage, there: Candidate) -> bool:
    """Tell whether an image at its destination is the tested one.

    The older image store knows no manifest before the push; its images are called by their configuration.
    """
    return there.digest == image.digest if image.digest is not None else str(there.config) == image.id


class InRegistry:
    """A repository of a registry. The engine sends the blobs, because it knows which are there already."""

    def __init__(self, place: ImageReference, registry: Repository, patience: Patience) -> None:
        self.place: Place = place
        self._name = place
        self._registry = registry
        self._patience = patience

    def standing(self, tag: str) -> Digest | None:
        """See `Destination`."""
        with writing_told(self._name.at(tag=tag)):
            return self._registry.digest_of(tag)

    def held(self, digest: Digest) -> Candidate | None:
        """See `Destination`."""
        with writing_told(self._name.at(digest=digest)):
            document = self._registry.manifest(str(digest))
        return _candidate(document) if document is not None else None

    def labels(self, image: Candidate) -> dict[str, str]:
        """See `Destination`."""
        try:
            with writing_told(self._name.at(digest=image.digest)):
                return _labels(self._registry.blob(image.config, largest=_LARGEST_CONFIG))
        except Missing as error:
            raise PublishError(f"{self._name.at(digest=image.digest)}: its configuration is gone") from error

    def put(self, image: BuiltImage, story: Story) -> Candidate:
        """See `Destination`. A push that breaks off is begun again; layers that are there are not sent twice."""
        there = self.held(image.digest) if image.digest is not None else None
        if there is not None and self._is_whole(there):
            return there
        failed = 0
        with story.step(f"pushing {image.id[:19]} to {self._name}"):
            while True:
                came = self._pushed(image, story)
                if isinstance(came, Candidate):
                    return came
                failed += 1
                said = "; ".join(came.details) or came.message
                denied = any(word in said.lower() for word in _DENIED)
                last = failed == self._patience.attempts
                if last and _NOT_REACHED in said and self._answers():
                    raise PublishError(
                        f"{self._name}: the registry answers this program, and not the engine",
                        details=came.details,
                        hint="a rootless engine, or one on another machine, has a loopback of its own, see "
                        "docs/privileges.md; or publish to oci:FOLDER",
                    )
                if denied or last or not self._answers_after(failed):
                    raise came
                story.note(f"pushing again: {said}")

    def attach(self, image: Candidate, attachment: Attachment) -> Digest:
        """See `Destination`."""
        with writing_told(self._name.at(digest=image.digest)):
            return attach_in(self._registry, image.document, attachment)

    def point(self, tag: str, image: Candidate) -> None:
        """See `Destination`. What the registry serves under the tag then is read to the byte."""
        reference = self._name.at(tag=tag)
        with writing_told(reference):
            self._registry.put_manifest(tag, image.document)
            served = self._registry.manifest(tag)
        if served is None or served.digest != image.digest:
            raise PublishError(
                f"{reference}: the registry serves other bytes than it was given",
                details=(f"given  {image.digest}", f"served {served.digest if served else 'nothing'}"),
            )

    def settle(self, tag: str, image: Candidate, story: Story) -> None:
        """See `Destination`. The candidate's tag may be another run's by now, and is left to that one then."""
        try:
            if self._registry.digest_of(CANDIDATE) == image.digest:
                self._registry.remove_tag(CANDIDATE)
        except (Refused, Unreachable) as error:
            story.note(f"the tag {CANDIDATE} stays in {self._name}: {error}")
        try:
            # By digest it has all layers already, and fetches none; the older store learns the digest by it.
            images.tag(images.pull(self._name.at(digest=image.digest), story), self._name.at(tag=tag))
        except EngineError as error:
            story.warn(f"{self._name.at(tag=tag)}: published, but the engine does not know it: {error.message}")

    def fetch(self, image: Candidate, name: str, story: Story) -> str:
        """See `Destination`. It is called by its reference in the registry."""
        return images.pull(self._name.at(digest=image.digest), story)

    def _pushed(self, image: BuiltImage, story: Story) -> Candidate | PublishError:
        """Push once; return what the registry has of it, by the digest that the engine names, or what went wrong.

        The name that the engine pushes under may be another run's at any moment: then other bytes were pushed.
        """
        reference = self._name.at(tag=CANDIDATE)
        try:
            images.tag(image.id, reference)
            try:
                pushed = images.push(reference, story)
            finally:
                if images.local_id(str(reference)) == image.id:
                    images.remove(str(reference))
            served = self.held(pushed) if pushed is not None else None
            if served is not None and not is_tested(image, served):
                return _another(self._name, image, served.digest)
            if served is None or not self._is_whole(served):
                return PublishError(
                    f"{reference}: the registry took the image and does not serve all of it",
                    details=(f"pushed {pushed or 'a digest that the engine did not tell'}",),
                )
        except PublishError as error:
            return error
        return served

    def _is_whole(self, image: Candidate) -> bool:
        """Tell whether the registry has every part of an image, in its size."""
        with writing_told(self._name.at(digest=image.digest)):
            parts = {str(image.config): None} | dict(image.layers)
            return all(self._registry.has_blob(Digest(blob), size) for blob, size in parts.items())

    def _answers_after(self, failed: int) -> bool:
        """Pause, as long as the registry itself asks for, and tell whether it answers at all."""
        self._registry.pause(failed)
        return self._answers()

    def _answers(self) -> bool:
        try:
            self._registry.digest_of(CANDIDATE)
        except Unreachable:
            return False
        except Refused as refused:
            return not refused.login
        return True


class InLayout:
    """An image layout on disk: from the engine's archive, the containerd store's blobs as they are."""

    def __init__(self, place: LayoutReference) -> None:
        self.place: Place = place
        self._name = place
        self._layout = Layout(Path(place.folder))

    def standing(self, tag: str) -> Digest | None:
        """See `Destination`. An image that is not whole counts as none."""
        with self._told():
            found = self._layout.standing(tag)
        return found.digest if found is not None else None

    def held(self, digest: Digest) -> Candidate | None:
        """See `Destination`."""
        with self._told():
            document = self._layout.document(digest)
            whole = document is not None and self._layout.is_whole(document)
        return _candidate(document) if document is not None and whole else None

    def labels(self, image: Candidate) -> dict[str, str]:
        """See `Destination`."""
        return _labels(self._layout.blob_path(image.config).read_bytes())

    def put(self, image: BuiltImage, story: Story) -> Candidate:
        """See `Destination`."""
        there = self.held(image.digest) if image.digest is not None else None
        if there is not None:
            return there
        with story.step(f"writing {image.id[:19]} to {self._name}"), images.saved(image.id) as pieces:
            config = Digest(image.id)
            document = self._layout.take(pieces, digest=image.digest, config=config)
        found = _candidate(document)
        if found is None or not is_tested(image, found):
            raise _another(self._name, image, document.digest)
        return found

    def attach(self, image: Candidate, attachment: Attachment) -> Digest:
        """See `Destination`."""
        with self._told():
            return self._layout.attach(image.document, attachment)

    def point(self, tag: str, image: Candidate) -> None:
        """See `Destination`."""
        with self._told():
            self._layout.point(tag, image.document)
        if self.standing(tag) != image.digest:
            raise PublishError(f"{self._name.at(tag=tag)}: the layout does not hold what was written to it")

    def settle(self, tag: str, image: Candidate, story: Story) -> None:
        """See `Destination`. There is nothing of the kind, and no engine calls an image by its layout."""

    def fetch(self, image: Candidate, name: str, story: Story) -> str:
        """See `Destination`."""
        with tempfile.TemporaryDirectory(prefix="rocm-images-layout.") as folder:
            archive = Path(folder) / "image.tar"
            with story.step(f"loading {self._name.at(digest=image.digest)}"):
                self._layout.write_archive(image.document, archive, name=name)
                images.load(archive)
        here = images.local_id(name)
        if here not in (str(image.digest), str(image.config)):
            raise EngineError(f"{name}: the engine loaded {here} from {self._name.at(digest=image.digest)}")
        return here

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Misshapen as error:
            raise PublishError(f"{self._name}: the image layout {error}") from error


def _candidate(document: Document) -> Candidate | None:
    """Read a manifest; None for anything but that of one image."""
    try:
        table: Mapping[str, Any] = foreign.loads(document.content)
        return Candidate(
            document=document, config=Digest(table["config"]["digest"]),
            layers=tuple((str(Digest(each["digest"])), int(each["size"])) for each in table["layers"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


def _labels(config: bytes) -> dict[str, str]:
    told = (foreign.loads(config).get("config") or {}).get("Labels") or {}
    return {str(key): str(value) for key, value in told.items()}


def _another(place: Place, image: BuiltImage, served: Digest) -> PublishError:
    return PublishError(
        f"{place}: holds another image than the one that was tested",
        details=(f"tested {image.digest or image.id}", f"served {served}"),
    )
