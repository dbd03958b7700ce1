"""Talks HTTP: pooled connections, patience with networks, and three ways to fail told apart.

It knows neither hashes nor indexes. What it raises is for its neighbours, who say what it means for a pin.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar
from urllib3.exceptions import HTTPError

from builder import __version__

T = TypeVar("T")

CONNECTIONS = 6
_CONNECT_SECONDS = 15.0
_READ_SECONDS = 60.0
_LARGEST_PAGE = 128 << 20  # of an index, as it is unpacked
_LARGEST_ANSWER = 32 << 20  # in a protocol; manifests have at most 4 MB
_PIECE = 1 << 18
# Some file stores answer 403 for a name they do not have, because they may not tell.
_GONE = (403, 404, 410, 451)
_LOGIN = (401, 407)


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long to put up with a network: attempts in all, first pause and longest pause in seconds."""

    attempts: int = 5
    first: float = 0.5
    longest: float = 30.0

    def pause(self, failed: int, asked: float | None) -> float:
        """Return the pause after the `failed`th failure; a server's own wish counts within the bound."""
        return min(self.longest, max(self.first * 2.0 ** (failed - 1), asked or 0.0))


class Missing(Exception):
    """The server is there and says that it does not have this."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{status} at {shown(url)}")


class Unreachable(Exception):
    """Nobody could be asked, or nobody answered properly, for as long as patience lasted."""


class LoginWanted(Unreachable):
    """The server asks for a login, in the words of `challenge`, its WWW-Authenticate header."""

    def __init__(self, words: str, challenge: str) -> None:
        super().__init__(words)
        self.challenge = challenge


class Stopped(Exception):
    """The run was interrupted."""


class Again(Exception):
    """An attempt failed in a way that may pass. `after` is the pause a server asked for, in seconds."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


def shown(url: str) -> str:
    """Return an address as messages may show it: without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Transport:
    """A set of connections several threads may use.

    With `hosts_once` a host that did not answer for as long as patience lasted is not waited for again: for many
    files of one host.
    """

    def __init__(
        self, *, ca_bundle: Path | None, patience: Patience | None = None, hosts_once: bool = False
    ) -> None:
        self.patience = patience or Patience()
        self._hosts_once = hosts_once
        self._silent: dict[str, str] = {}  # hosts that did not answer, and what was seen of it
        self._stop = threading.Event()
        self._open: set[requests.Response] = set()
        self._session = requests.Session()
        self._session.cookies = _NoCookies()
        self._session.headers["User-Agent"] = f"rocm-images/{__version__}"
        self._session.verify = str(ca_bundle) if ca_bundle else True
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_connections=CONNECTIONS, pool_maxsize=CONNECTIONS))

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def stop(self) -> None:
        """Make every request of every thread end soon with `Stopped`."""
        self._stop.set()
        for response in tuple(self._open):
            if hasattr(response.raw, "shutdown"):
                try:
                    response.raw.shutdown()
                except (OSError, ValueError, RuntimeError):  # it ended by itself; the last is urllib3's
                    continue

    def stopping(self) -> None:
        """Raise `Stopped` when the run was interrupted."""
        if self._stop.is_set():
            raise Stopped

    def patiently(self, url: str, once: Callable[[], T]) -> T:
        """Call `once` until it does not raise `Again`. Raises `Unreachable` when patience ends."""
        host = urlsplit(url).netloc
        for failed in range(1, self.patience.attempts + 1):
            self.stopping()
            if self._hosts_once and host in self._silent:
                raise Unreachable(self._silent[host])
            try:
                return once()
            except Again as again:
                self.stopping()
                if failed == self.patience.attempts:
                    tries = f" ({failed} attempts)" if failed > 1 else ""
                    words = f"{shown(url)}: {again}{tries}"
                    self._silent.setdefault(host, words)
                    raise Unreachable(words) from again
                self.wait(failed, again)
        raise Unreachable(f"{shown(url)}: not tried at all")

    def wait(self, failed: int, again: Again) -> None:
        """Pause after the `failed`th failure, shorter when the run is interrupted."""
        self._stop.wait(self.patience.pause(failed, again.after))

    def page(self, url: str, *, accept: str) -> requests.Response:
        """Return a whole answer, body read. Raises `Missing`, `Unreachable` or `Stopped`."""

        def once() -> requests.Response:
            with self.answer(url, {"Accept": accept}) as response:
                self._read_whole(response, _LARGEST_PAGE)
                return response

        return self.patiently(url, once)

    def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> requests.Response:
        """Ask once and return the answer, body read, whatever its status: for protocols where a status is a word.

        What is sent is a `form` or a `body`.
        Only these headers say who asks, no `~/.netrc`. Raises `Again` for a network or a server that may recover,
        `Unreachable` for one that will not.
        """
        self.stopping()
        try:
            response = self._session.request(
                method, url, headers=dict(headers), data=form or body, auth=_AsGiven(), allow_redirects=True,
                timeout=(_CONNECT_SECONDS, _READ_SECONDS), stream=True,
            )  # fmt: skip
            with response:
                self._read_whole(response, _LARGEST_ANSWER)
        except requests.exceptions.SSLError as error:
            raise Unreachable(f"{shown(url)}: its certificate is not trusted: {_innermost(error)}") from error
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
            raise Unreachable(f"{shown(url)}: not an address that can be fetched") from error
        except (requests.exceptions.RequestException, HTTPError) as error:
            raise Again(_innermost(error)) from error
        if response.status_code in (408, 429) or response.status_code >= 500:
            raise Again(f"answers {response.status_code} {response.reason}", _retry_after(response))
        return response

    def _read_whole(self, response: requests.Response, most: int) -> None:
        """Read the body of an answer, which `content` then has; a server may send without end."""
        pieces, size = [], 0
        for piece in response.iter_content(_PIECE):
            self.stopping()
            size += len(piece)
            if size > most:
                raise Unreachable(f"{shown(response.url)}: answers with more than {most} bytes")
            pieces.append(piece)
        response._content = b"".join(pieces)  # what `content` keeps

    @contextmanager
    def answer(self, url: str, headers: Mapping[str, str], *, method: str = "GET") -> Iterator[requests.Response]:
        """Ask once; the body is still to be read. Raises `Again`, `Missing` or `Unreachable`."""
        response: requests.Response | None = None
        try:
            response = self._session.request(
                method, url, headers=dict(headers), stream=True, timeout=(_CONNECT_SECONDS, _READ_SECONDS),
                auth=_AsGiven() if "Authorization" in headers else None,
            )  # fmt: skip
            self._open.add(response)
            self.stopping()  # `stop` may have looked at what is open a moment ago
            _judge(url, response)
            yield response
        except requests.exceptions.SSLError as error:
            raise Unreachable(f"{shown(url)}: its certificate is not trusted: {_innermost(error)}") from error
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
            raise Unreachable(f"{shown(url)}: not an address that can be fetched") from error
        except (requests.exceptions.RequestException, HTTPError) as error:
            raise Again(_innermost(error)) from error
        finally:
            if response is not None:
                self._open.discard(response)
                response.close()


class _AsGiven(requests.auth.AuthBase):
    """Leaves a request as it is, so that nobody else's login gets into it."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _NoCookies(RequestsCookieJar):
    """Keeps nothing, so that no answer depends on another."""

    def set_cookie(self, *_: object, **__: object) -> None:
        return None


def _judge(url: str, response: requests.Response) -> None:
    status = response.status_code
    if status in (200, 206):
        return
    if status in _GONE:
        raise Missing(url, status)
    if status in _LOGIN:
        raise LoginWanted(
            f"{shown(url)}: asks for a login ({status})", response.headers.get("WWW-Authenticate", "")
        )
    if status in (408, 416, 425, 429) or (status >= 500 and status != 501):
        raise Again(f"answers {status} {response.reason}", _retry_after(response))
    raise Unreachable(f"{shown(url)}: answers {status} {response.reason}")


def _retry_after(response: requests.Response) -> float | None:
    asked = response.headers.get("Retry-After", "")
    if asked.isdecimal():
        return float(asked)
    try:
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _innermost(error: BaseException) -> str:
    """Return what the system said, not what the layers above made of it."""
    seen: BaseException = error
    for _ in range(8):
        reason = getattr(seen, "reason", None)
        inner = reason if isinstance(reason, BaseException) else seen.__cause__ or seen.__context__
        if inner is None:
            inner = next((part for part in seen.args if isinstance(part, BaseException)), None)
        if inner is None:
            break
        seen = inner
    text = getattr(seen, "strerror", None) or str(seen) or type(seen).__name__
    return str(text).rpartition(">: ")[2] or str(text)
