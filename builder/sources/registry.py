"""Asks registries what they serve, and reads images from them, over their HTTP API and without an engine.

The protocol is that of the OCI distribution specification, with the token and basic ways to log in. What an answer
means for a pin is said here; which pins there are is not known.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

from requests import Response

from builder.errors import EngineError, Failure, LockError
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference, parse_reference
from builder.sources.dockerconfig import Login, login_for
from builder.sources.download import LOCK_HINT, NETWORK_HINT, in_parallel
from builder.sources.transport import Again, Missing, Patience, Transport, Unreachable

_ACCEPT = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.index.v1", "oci.image.manifest.v1", "docker.distribution.manifest.list.v2",
        "docker.distribution.manifest.v2",
    )
)  # fmt: skip
_HUB = "registry-1.docker.io"  # where the API of docker.io is
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_CLIENT = "rocm-images"
_CHUNK = 1 << 20


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
                return _probe(reference, parse_reference(mirrors.registry(str(reference))), transport)
            except Failure as failure:
                return failure

        return in_parallel(probe, references, on_error=transport.stop)


def _probe(named: ImageReference, asked: ImageReference, transport: Transport) -> Served:
    registry = _Registry(asked, transport)
    via = "" if asked == named else f" (asked at {asked.name})"
    try:
        digest = registry.digest_of(str(asked.digest))
        if digest is None:
            raise LockError(
                f"{named}: can no longer be fetched: the registry does not serve this digest{via}", hint=LOCK_HINT
            )
        if asked.digest is not None and digest != asked.digest:
            raise LockError(f"{named}: expected {asked.digest}, the registry serves {digest}{via}", hint=LOCK_HINT)
        return Served(tag_now=registry.digest_of(asked.tag) if asked.tag is not None else None)
    except Unreachable as error:
        raise EngineError(f"{named}: cannot be asked for{via}: {error}", hint=NETWORK_HINT) from error


class RemoteImage:
    """An image in a registry, to be read blob by blob. What is read is as large as it is; nothing is kept."""

    def __init__(self, named: ImageReference, registry: _Registry, digest: Digest) -> None:
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
        registry = _Registry(asked, transport)
        try:
            digest = registry.digest_of(str(asked.digest or asked.tag or "latest"))
        except Unreachable as error:
            raise EngineError(f"{named}: cannot be asked for: {error}", hint=NETWORK_HINT) from error
        if digest is None:
            raise LockError(f"{named}: the registry has no such image")
        yield RemoteImage(named, registry, asked.digest or digest)


class _Registry:
    """One repository of a registry, and the way in that was found to it."""

    def __init__(self, reference: ImageReference, transport: Transport) -> None:
        self._reference = reference
        self._transport = transport
        host = _HUB if reference.host == "docker.io" else reference.host
        self._base = f"{'http' if _is_loopback(host) else 'https'}://{host}/v2/{reference.path}"
        self._authorization: str | None = None

    def digest_of(self, name: str) -> Digest | None:
        """Return the digest of a tag or digest; None where the registry has none. Raises `Unreachable`."""
        url = f"{self._base}/manifests/{name}"
        response = self._transport.patiently(url, lambda: self._ask(url))
        if response.status_code == 401:
            self._log_in(response)
            response = self._transport.patiently(url, lambda: self._ask(url))
        status = response.status_code
        if status == 404:
            return None
        if status in (401, 403):
            raise LockError(
                f"{self._reference}: cannot be read without a login: it is private, or it is gone",
                hint=f"docker login {self._reference.host}",
            )
        if status != 200:
            raise Unreachable(f"{url}: answers {status} {response.reason}")
        told = response.headers.get("Docker-Content-Digest", name)
        try:
            return Digest(told)
        except ValueError as error:
            raise Unreachable(f"{url}: names no digest") from error

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield what the registry serves, going on where a connection broke. Raises `Missing` or `Unreachable`."""
        url, position, failed = f"{self._base}/{path}", 0, 0
        while True:
            headers = self._headers() | ({"Range": f"bytes={position}-"} if position else {})
            try:
                with self._transport.answer(url, headers) as response:
                    again = 0 if response.status_code == 206 else position
                    for piece in response.iter_content(_CHUNK):
                        fresh, again = piece[again:], max(0, again - len(piece))
                        position += len(fresh)
                        if fresh:
                            yield fresh
                    return
            except Again as error:
                failed += 1
                if failed >= self._transport.patience.attempts:
                    raise Unreachable(f"{url}: {error} ({failed} attempts)") from error
                self._transport.wait(failed, error)

    def _ask(self, url: str) -> Response:
        return self._transport.ask("HEAD", url, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Accept": _ACCEPT} | ({"Authorization": self._authorization} if self._authorization else {})

    def _log_in(self, refused: Response) -> None:
        """Follow the registry's challenge; anonymously where nobody logged in."""
        challenge = refused.headers.get("WWW-Authenticate", "")
        scheme, _, rest = challenge.partition(" ")
        login = login_for(self._reference.host)
        if scheme.lower() == "basic":
            self._authorization = login.basic if login is not None else None
        elif scheme.lower() == "bearer":
            self._authorization = self._bearer(dict(_CHALLENGE.findall(rest)), login)
        else:
            raise Unreachable(f"{self._base}: asks for a login of an unknown kind: {scheme or 'none'}")

    def _bearer(self, asked: dict[str, str], login: Login | None) -> str | None:
        realm = asked.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            raise Unreachable(f"{self._base}: names no place to get a token from")
        scope = asked.get("scope") or f"repository:{self._reference.path}:pull"
        wanted = {"service": asked.get("service", ""), "scope": scope}
        if login is not None and login.identity_token:
            form = {
                **wanted, "grant_type": "refresh_token", "refresh_token": login.identity_token,
                "client_id": _CLIENT,
            }  # fmt: skip
            response = self._transport.patiently(
                realm, lambda: self._transport.ask("POST", realm, headers={}, form=form)
            )
        else:
            headers = {"Authorization": login.basic} if login is not None and login.basic else {}
            url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(wanted)}"
            response = self._transport.patiently(realm, lambda: self._transport.ask("GET", url, headers=headers))
        if response.status_code != 200:
            return None  # the registry refuses again, and that is what counts
        try:
            table = response.json()
            token = table.get("token") or table.get("access_token")
        except (ValueError, AttributeError) as error:
            raise Unreachable(f"{realm}: does not answer with a token") from error
        return f"Bearer {token}" if token else None


def _is_loopback(host: str) -> bool:
    """Whether an engine, too, talks plain http to a registry: it lies on this machine."""
    name = host.rpartition(":")[0] if re.search(r":[0-9]+$", host) else host
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
