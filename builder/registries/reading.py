"""Asks registries what they serve, and reads images from them without an engine.

What an answer means for a pin is said here; which pins there are is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from builder.errors import EngineError, Failure, LockError
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference, parse_reference
from builder.registries.client import Refused, Repository
from builder.sources.download import LOCK_HINT, NETWORK_HINT, in_parallel
from builder.sources.transport import Missing, Patience, Transport, Unreachable


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What a registry says to a pinned image: the digest its tag names now, None without that tag."""

    tag_now: Digest | None


def probe_images(
    references: Sequence[ImageReference], *, mirrors: Mirrors, patience: Patience | None = None
) -> list[Served | Failure]:
    """Ask whether registries still serve images by digest; answers are in the order of `references`.

    A failure is a `LockError` for an image that is gone, an `EngineError` for a registry that cannot be asked.
    """
    with Transport(ca_bundle=mirrors.ca_bundle(), patience=patience) as transport:

        def probe(reference: ImageReference) -> Served | Failure:
            try:
                asked = parse_reference(mirrors.registry(str(reference)))
                return _probe(reference, asked, transport, plain=mirrors.is_plain(asked.host))
            except Failure as failure:
                return failure

        return in_parallel(probe, references, on_error=transport.stop)


def _probe(named: ImageReference, asked: ImageReference, transport: Transport, *, plain: bool) -> Served:
    registry = Repository(asked, transport, plain=plain)
    via = "" if asked == named else f" (asked at {asked.name})"
    try:
        with login_told(asked):
            digest = registry.digest_of(str(asked.digest))
            if digest is None:
                raise LockError(
                    f"{named}: can no longer be fetched: the registry does not serve this digest{via}",
                    hint=LOCK_HINT,
                )
            if asked.digest is not None and digest != asked.digest:
                raise LockError(
                    f"{named}: expected {asked.digest}, the registry serves {digest}{via}", hint=LOCK_HINT
                )
            return Served(tag_now=registry.digest_of(asked.tag) if asked.tag is not None else None)
    except Unreachable as error:
        raise EngineError(f"{named}: cannot be asked for{via}: {error}", hint=NETWORK_HINT) from error


class RemoteImage:
    """An image in a registry, to be read blob by blob. What is read is as large as it is; nothing is kept."""

    def __init__(self, named: ImageReference, registry: Repository, digest: Digest) -> None:
        self._named = named
        self._registry = registry
        self.digest = digest

    def manifest(self, digest: Digest) -> Iterator[bytes]:
        """Yield a manifest or an index, piece by piece. Raises `EngineError` or `LockError`."""
        return self._pieces("manifests", digest)

    def blob(self, digest: Digest) -> Iterator[bytes]:
        """Yield a configuration or a layer, piece by piece. Raises `EngineError` or `LockError`."""
        return self._pieces("blobs", digest)

    def _pieces(self, kind: str, digest: Digest) -> Iterator[bytes]:
        try:
            with login_told(self._named):
                yield from self._registry.pieces(f"{kind}/{digest}")
        except Missing as error:
            raise LockError(f"{self._named}: the registry does not serve {digest}, which is part of it") from error
        except Unreachable as error:
            raise EngineError(f"{self._named}: cannot be read: {error}", hint=NETWORK_HINT) from error


@contextmanager
def remote_image(
    named: ImageReference, *, mirrors: Mirrors, patience: Patience | None = None
) -> Iterator[RemoteImage]:
    """Find an image by digest or tag and let it be read. Raises `LockError` when it is not there."""
    asked = parse_reference(mirrors.registry(str(named)))
    with Transport(ca_bundle=mirrors.ca_bundle(), patience=patience) as transport:
        registry = Repository(asked, transport, plain=mirrors.is_plain(asked.host))
        try:
            with login_told(asked):
                digest = registry.digest_of(str(asked.digest or asked.tag or "latest"))
        except Unreachable as error:
            raise EngineError(f"{named}: cannot be asked for: {error}", hint=NETWORK_HINT) from error
        if digest is None:
            raise LockError(f"{named}: the registry has no such image")
        yield RemoteImage(named, registry, asked.digest or digest)


@contextmanager
def login_told(reference: ImageReference) -> Iterator[None]:
    """Turn a registry's refusal to let `reference` be read into a `LockError` that says how to log in."""
    try:
        yield
    except Refused as refused:
        if not refused.login:
            raise EngineError(f"{reference}: cannot be read: {refused}") from refused
        raise LockError(
            f"{reference}: cannot be read without a login: it is private, or it is gone",
            hint=f"docker login {reference.host}",
        ) from refused
