"""Speaks to one repository of a registry: manifests, blobs, tags, logins. What an answer means is for its callers.

The protocol is that of the OCI distribution specification, with the token and basic ways to log in. Credentials
are the docker configuration's and its helpers'; none is ever in a message.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urljoin, urlsplit

from requests import Response

from builder import foreign
from builder.lockfile import canonical
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference
from builder.sources.dockerconfig import Login, login_for
from builder.sources.transport import Again, LoginWanted, Patience, Transport, Unreachable, shown

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
EMPTY, EMPTY_TYPE = b"{}", "application/vnd.oci.empty.v1+json"
_ACCEPT = ", ".join(
    (
        INDEX, MANIFEST, "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)  # fmt: skip
_HUB = "registry-1.docker.io"  # where the API of docker.io is
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_CLIENT = "rocm-images"
_CHUNK = 1 << 20
_LARGEST_MANIFEST = 16 << 20
_LONGEST_WORDS = 300
_MOST_PAGES = 200


class Refused(Exception):
    """The registry is there and says no, or something that cannot be. `login` tells that it wants one."""

    def __init__(self, words: str, *, login: bool = False) -> None:
        super().__init__(words)
        self.login = login


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A manifest or an index, to the byte."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> Digest:
        """The digest of its bytes."""
        return digest_of(self.content)


def digest_of(content: bytes) -> Digest:
    """Return the digest of these bytes."""
    return Digest(f"sha256:{hashlib.sha256(content).hexdigest()}")


@contextmanager
def repository(
    reference: ImageReference, *, mirrors: Mirrors, patience: Patience | None = None, writing: bool = False
) -> Iterator[Repository]:
    """Open the repository of `reference`, exactly there: of `mirrors`, certificates and the scheme alone count."""
    with Transport(ca_bundle=mirrors.ca_bundle(), patience=patience) as transport:
        yield Repository(reference, transport, plain=mirrors.is_plain(reference.host), writing=writing)


class Repository:
    """One repository of a registry, and the way in that was found to it.

    Every method raises `Unreachable` for a registry that does not answer for as long as patience lasts, `Refused`
    for one that does not want to.
    """

    def __init__(
        self, reference: ImageReference, transport: Transport, *, plain: bool, writing: bool = False
    ) -> None:
        self._reference = reference
        self._transport = transport
        self._actions = "pull,push" if writing else "pull"
        host = _HUB if reference.host == "docker.io" else reference.host
        self._base = f"{'http' if plain else 'https'}://{host}/v2/{reference.path}"
        self._authorization: str | None = None

    def digest_of(self, name: str) -> Digest | None:
        """Return the digest that a tag or digest names, as the registry tells it; None where there is none."""
        url = f"{self._base}/manifests/{name}"
        response = self._patiently("HEAD", url)
        if response.status_code == 404:
            return None
        _require(response, 200)
        told = response.headers.get("Docker-Content-Digest", name)
        try:
            return Digest(told)
        except ValueError as error:
            raise Unreachable(f"{url}: names no digest") from error

    def manifest(self, name: str) -> Document | None:
        """Return what a tag or digest names, None where there is nothing; its bytes are what their digest says."""
        url = f"{self._base}/manifests/{name}"
        response = self._patiently("GET", url)
        if response.status_code == 404:
            return None
        _require(response, 200)
        if len(response.content) > _LARGEST_MANIFEST:
            raise Refused(f"{url}: has more than {_LARGEST_MANIFEST} bytes")
        document = Document(
            media_type=response.headers.get("Content-Type", "").partition(";")[0].strip(),
            content=response.content,
        )
        told = response.headers.get("Docker-Content-Digest") or (name if ":" in name else str(document.digest))
        if str(document.digest) != told or (":" in name and name != told):
            raise Refused(f"{url}: answers with the bytes of {document.digest}, as {told}")
        return document

    def put_manifest(self, name: str, document: Document) -> bool:
        """Write a manifest under a tag or its digest; tell whether the registry keeps track of its subject."""
        url = f"{self._base}/manifests/{name}"
        headers = {"Content-Type": document.media_type}
        response = self._patiently("PUT", url, headers=headers, body=document.content)
        _require(response, 200, 201)
        _require_digest(response, document.digest)
        return bool(response.headers.get("OCI-Subject"))

    def has_blob(self, digest: Digest, size: int | None = None) -> bool:
        """Tell whether the registry has a blob, and in this size where one is given."""
        response = self._patiently("HEAD", f"{self._base}/blobs/{digest}")
        if response.status_code == 404:
            return False
        _require(response, 200)
        told = response.headers.get("Content-Length")
        return size is None or told is None or told == str(size)

    def pause(self, failed: int) -> None:
        """Wait as after the `failed`th failure of a request."""
        self._transport.wait(failed, Again("of something else"))

    def blob(self, digest: Digest, *, largest: int) -> bytes:
        """Return a blob of at most `largest` bytes, which are what its digest says."""
        data = b""
        for piece in self.pieces(f"blobs/{digest}"):
            data += piece
            if len(data) > largest:
                raise Refused(f"{self._base}/blobs/{digest}: has more than {largest} bytes")
        if digest_of(data) != digest:
            raise Refused(f"{self._base}/blobs/{digest}: answers with the bytes of {digest_of(data)}")
        return data

    def put_blob(self, content: bytes) -> Digest:
        """Write a blob where the registry does not have it. An upload that breaks off begins anew."""
        digest = digest_of(content)
        url = f"{self._base}/blobs/{digest}"

        def once() -> None:
            if self._ask("HEAD", url).status_code == 200:  # also what a connection broke after
                return
            started = self._ask("POST", f"{self._base}/blobs/uploads/")
            _require(started, 202)
            where = urljoin(f"{self._base}/blobs/uploads/", started.headers.get("Location", ""))
            where += f"{'&' if urlsplit(where).query else '?'}digest={quote(str(digest), safe='')}"
            headers = {"Content-Type": "application/octet-stream"}
            ended = self._ask("PUT", where, headers=headers, body=content)
            if ended.status_code in (404, 416):  # the registry forgot the upload
                raise Again(f"answers {ended.status_code} {ended.reason} to an upload")
            _require(ended, 201)
            _require_digest(ended, digest)

        self._transport.patiently(url, once)
        return digest

    def remove_tag(self, tag: str) -> bool:
        """Take a tag away and leave what it names; tell whether the registry lets tags be removed.

        The specification leaves that to registries. Some remove manifests alone, with every tag that names them:
        such a one is given a manifest of the tag's own, which then is removed.
        """
        url = f"{self._base}/manifests"
        gone = self._patiently("DELETE", f"{url}/{tag}", may_be_refused=True)
        if gone.status_code in (200, 202, 204):
            return True
        standing = self.manifest(tag)
        if standing is None:
            return True
        own = _placeholder(standing.digest)
        self.put_blob(EMPTY)
        self.put_manifest(tag, own)
        gone = self._patiently("DELETE", f"{url}/{own.digest}", may_be_refused=True)
        if gone.status_code in (200, 202, 204) and self.digest_of(tag) != own.digest:
            return True
        self.put_manifest(tag, standing)
        return False

    def referrers(self, digest: Digest, artifact_type: str | None = None) -> Iterator[bytes] | None:
        """Return the pages of the index of what refers to a manifest; None for a registry without that API."""
        query = f"?{urlencode({'artifactType': artifact_type})}" if artifact_type else ""
        url = f"{self._base}/referrers/{digest}{query}"
        first = self._patiently("GET", url)
        # A registry that does not know of it may answer in several ways; no other question gets these.
        if first.status_code in (400, 404, 405, 501):
            return None
        _require(first, 200)
        return self._pages(url, first)

    def _pages(self, url: str, page: Response) -> Iterator[bytes]:
        for _ in range(_MOST_PAGES):
            yield page.content
            following = page.links.get("next", {}).get("url")
            if not following:
                return
            url = urljoin(url, following)
            if not url.startswith(f"{self._base}/referrers/"):
                raise Refused(f"{self._base}: the list of referrers goes on elsewhere")
            page = self._patiently("GET", url)
            _require(page, 200)
        raise Refused(f"{self._base}: the list of referrers has more than {_MOST_PAGES} pages")

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield what the registry serves, going on where a connection broke. Raises `Missing` as well."""
        url, position, failed, admitted = f"{self._base}/{path}", 0, 0, True
        while True:
            headers = self._headers(url) | ({"Range": f"bytes={position}-"} if position else {})
            try:
                with self._transport.answer(url, headers) as response:
                    admitted = True
                    again = 0 if response.status_code == 206 else position
                    for piece in response.iter_content(_CHUNK):
                        fresh, again = piece[again:], max(0, again - len(piece))
                        position += len(fresh)
                        if fresh:
                            yield fresh
                    return
            except LoginWanted as wanted:
                if not admitted:
                    raise Refused(f"{shown(url)}: does not accept the login", login=True) from wanted
                admitted = False
                self._log_in(wanted.challenge)
            except Again as error:
                failed += 1
                if failed >= self._transport.patience.attempts:
                    raise Unreachable(f"{url}: {error} ({failed} attempts)") from error
                self._transport.wait(failed, error)

    def _patiently(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        may_be_refused: bool = False,
    ) -> Response:
        return self._transport.patiently(
            url,
            lambda: self._ask(method, url, headers=headers, body=body, may_be_refused=may_be_refused),
        )

    def _ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        may_be_refused: bool = False,
    ) -> Response:
        """Ask once, logging in where that is wanted, also where an earlier login has ended."""
        for admitted in (True, False):
            given = self._headers(url) | dict(headers or {})
            response = self._transport.ask(method, url, headers=given, body=body)
            if response.status_code == 401 and admitted:
                self._log_in(response.headers.get("WWW-Authenticate", ""))
            else:
                break
        if response.status_code in (401, 403) and not may_be_refused:
            raise Refused(f"{shown(url)}: answers {_words(response)}", login=True)
        return response

    def _headers(self, url: str) -> dict[str, str]:
        headers = {"Accept": _ACCEPT}
        # The place of an upload may be elsewhere; the login is for this registry alone.
        if self._authorization and urlsplit(url)[:2] == urlsplit(self._base)[:2]:
            headers["Authorization"] = self._authorization
        return headers

    def _log_in(self, challenge: str) -> None:
        """Follow the registry's challenge; anonymously where nobody logged in."""
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
        if login is not None and self._base.startswith("https://") and not realm.startswith("https://"):
            raise Unreachable(f"{self._base}: wants the login sent to {shown(realm)}, which anybody can read")
        scope = f"repository:{self._reference.path}:{self._actions}"
        if self._actions == "pull":
            scope = asked.get("scope") or scope
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
            table = foreign.loads(response.content)
            token = table.get("token") or table.get("access_token")
        except (ValueError, AttributeError) as error:
            raise Unreachable(f"{shown(realm)}: does not answer with a token") from error
        return f"Bearer {token}" if token else None


def _placeholder(digest: Digest) -> Document:
    """Return a manifest of nothing, another one for every digest."""
    config = {"mediaType": EMPTY_TYPE, "digest": str(digest_of(EMPTY)), "size": len(EMPTY)}
    table = {
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": EMPTY_TYPE,
        "config": config, "layers": [config], "annotations": {"rocm-images.in-place-of": str(digest)},
    }  # fmt: skip
    return Document(media_type=MANIFEST, content=canonical(table))


def _require(response: Response, *expected: int) -> None:
    if response.status_code not in expected:
        raise Refused(f"{shown(response.url)}: answers {_words(response)}")


def _require_digest(response: Response, digest: Digest) -> None:
    """Refuse an answer that tells another digest than that of the bytes it is about."""
    told = response.headers.get("Docker-Content-Digest")
    if told and told != str(digest):
        raise Refused(f"{shown(response.url)}: was given the bytes of {digest}, and took them as {told}")


def _words(response: Response) -> str:
    """Return status and reason, with what the registry says about it where that has the specified form."""
    said = f"{response.status_code} {response.reason}"
    try:
        errors = foreign.loads(response.content)["errors"]
        told = "; ".join(str(each.get("message") or each.get("code") or "") for each in errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        return said
    return f"{said}: {told[:_LONGEST_WORDS]}" if told else said
