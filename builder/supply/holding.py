"""Reads an image and what is beside it from a registry or an image layout, for whoever checks it. Writes nothing.

What is there and is not what it should be is `Broken`; a registry that cannot be asked at all is an `EngineError`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar, assert_never

from builder.audit.layers import pieces_of
from builder.errors import EngineError, LockError
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference, LayoutReference, Place, parse_reference
from builder.registries.artifacts import Attachment, Misshapen, Referrer
from builder.registries.client import Document, Refused, Repository, repository
from builder.registries.layouts import Layout
from builder.registries.referrers import fetched, referrers
from builder.sources.download import NETWORK_HINT
from builder.sources.transport import Missing, Patience, Unreachable

_T = TypeVar("_T")
_LARGEST = 16 << 20


class Broken(Exception):
    """Something is there, and is not what its name says; or a part of it is gone."""


class Holding(Protocol):
    """A place that holds images."""

    def named(self, tag: str) -> Digest | None:
        """Return the digest that a tag names, None where there is no such tag."""
        ...

    def manifest(self, digest: Digest) -> Document | None:
        """Return a manifest, None where it is not there. Raises `Broken`."""
        ...

    def small(self, digest: Digest) -> bytes:
        """Return a small blob. Raises `Broken`."""
        ...

    def has(self, digest: Digest, size: int) -> bool:
        """Tell whether a blob is there in this size, without reading it."""
        ...

    def hashed(self, digest: Digest) -> Digest | None:
        """Read a whole blob and return what its bytes hash to, None where it is not there."""
        ...

    def beside(self, subject: Digest) -> tuple[tuple[Referrer, Callable[[], Attachment]], ...]:
        """Return what refers to an image, each with how to fetch it, which raises `Broken`."""
        ...


@contextmanager
def holding(place: Place, *, mirrors: Mirrors, patience: Patience | None = None) -> Iterator[Holding]:
    """Open the place of an image to read from it; a registry by its mirror, where there is one."""
    match place:
        case ImageReference():
            asked = parse_reference(mirrors.registry(str(place)))
            with repository(asked, mirrors=mirrors, patience=patience) as registry:
                yield _InRegistry(place, registry, mirrors, patience)
        case LayoutReference():
            yield _InLayout(Layout(Path(place.folder)))
        case _:
            assert_never(place)


class _InRegistry:
    def __init__(
        self, place: ImageReference, registry: Repository, mirrors: Mirrors, patience: Patience | None
    ) -> None:
        self._place = place
        self._registry = registry
        self._mirrors = mirrors
        self._patience = patience

    def named(self, tag: str) -> Digest | None:
        return self._asked(lambda: self._registry.digest_of(tag))

    def manifest(self, digest: Digest) -> Document | None:
        return self._asked(lambda: self._registry.manifest(str(digest)))

    def small(self, digest: Digest) -> bytes:
        return self._asked(lambda: self._registry.blob(digest, largest=_LARGEST))

    def has(self, digest: Digest, size: int) -> bool:
        return self._asked(lambda: self._registry.has_blob(digest, size))

    def hashed(self, digest: Digest) -> Digest | None:
        def read() -> Digest:
            return _hash(self._registry.pieces(f"blobs/{digest}"))

        try:
            return self._asked(read)
        except Broken:
            return None

    def beside(self, subject: Digest) -> tuple[tuple[Referrer, Callable[[], Attachment]], ...]:
        image = self._place.at(digest=subject)
        try:
            found = referrers(image, mirrors=self._mirrors, patience=self._patience)
        except EngineError as error:
            if isinstance(error.__cause__, Misshapen):
                raise Broken(error.message) from error
            raise

        def fetching(referrer: Referrer) -> Callable[[], Attachment]:
            return lambda: self._fetched(image, referrer.digest)

        return tuple((each, fetching(each)) for each in found)

    def _fetched(self, image: ImageReference, digest: Digest) -> Attachment:
        try:
            return fetched(image, digest, mirrors=self._mirrors, patience=self._patience)
        except LockError as error:
            raise Broken(error.message) from error
        except EngineError as error:
            if isinstance(error.__cause__, Unreachable):
                raise
            raise Broken(error.message) from error

    def _asked(self, question: Callable[[], _T]) -> _T:
        try:
            return question()
        except Missing as error:
            raise Broken(f"the registry does not serve it: {error}") from error
        except Refused as error:
            if not error.login:
                raise Broken(str(error)) from error
            raise EngineError(
                f"{self._place}: cannot be read without a login", hint=f"docker login {self._place.host}"
            ) from error
        except Unreachable as error:
            raise EngineError(f"{self._place}: cannot be asked for: {error}", hint=NETWORK_HINT) from error


class _InLayout:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def named(self, tag: str) -> Digest | None:
        with _told():
            found = self._layout.standing(tag)
        return found.digest if found is not None else None

    def manifest(self, digest: Digest) -> Document | None:
        with _told():
            return self._layout.document(digest)

    def small(self, digest: Digest) -> bytes:
        try:
            content = self._layout.blob_path(digest).read_bytes()
        except OSError as error:
            raise Broken(f"the layout does not hold {digest}") from error
        if hashlib.sha256(content).hexdigest() != digest.hex:
            raise Broken(f"the layout holds other bytes as {digest}")
        return content

    def has(self, digest: Digest, size: int) -> bool:
        try:
            return self._layout.blob_path(digest).stat().st_size == size
        except OSError:
            return False

    def hashed(self, digest: Digest) -> Digest | None:
        try:
            with self._layout.blob_path(digest).open("rb") as file:
                return _hash(pieces_of(file))
        except OSError:
            return None

    def beside(self, subject: Digest) -> tuple[tuple[Referrer, Callable[[], Attachment]], ...]:
        def fetching(referrer: Referrer) -> Callable[[], Attachment]:
            def fetch() -> Attachment:
                with _told():
                    return self._layout.fetched(referrer.digest)

            return fetch

        with _told():
            return tuple((each, fetching(each)) for each in self._layout.referrers(subject))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except Misshapen as error:
        raise Broken(f"the layout {error}") from error


def _hash(pieces: Iterator[bytes]) -> Digest:
    seen = hashlib.sha256()
    for piece in pieces:
        seen.update(piece)
    return Digest(f"sha256:{seen.hexdigest()}")
