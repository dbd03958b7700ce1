"""Brings files into the store: by hash, in parallel, from the first address that has the right bytes.

It knows nothing of what the files are, and stores nothing that is not what the lock says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import requests
from urllib3.exceptions import ProtocolError

from builder.errors import EngineError, Failure, LockError
from builder.mirrors import Mirrors
from builder.sources.store import Incoming, Store
from builder.sources.transport import CONNECTIONS, Again, Missing, Patience, Transport, Unreachable, shown
from builder.story import Reached, Story

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_CHUNK = 1 << 18
_WORTH_A_NOTE = 20_000_000  # bytes
_LARGEST_UNKNOWN = 40_000_000_000  # where nobody says a size: a server may send without end
NETWORK_HINT = "check the network, or name a mirror: docs/mirrors.md"
LOCK_HINT = "if the pin should follow: rocm-images lock"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A file to fetch: its name for people, its sha256 (64 hex digits), its size in bytes, where it may be."""

    name: str
    sha256: str
    size: int | None = None
    urls: tuple[str, ...]


class _Mismatch(Exception):
    """An address has other bytes than wanted."""


def fetch_all(
    wanted: Sequence[Wanted], *, store: Store, mirrors: Mirrors, story: Story, patience: Patience | None = None
) -> dict[str, Path]:
    """Return the files by sha256, from the store or fetched into it now.

    Raises `LockError` for a file that is gone everywhere or has other bytes, `EngineError` when nobody can be
    asked; with every such file named. Files that could be fetched stay in the store.
    """
    unique = {item.sha256: item for item in wanted}
    found = dict(zip(unique, in_parallel(store.get, list(unique)), strict=True))
    there = {sha256: path for sha256, path in found.items() if path is not None}
    missing = [item for sha256, item in unique.items() if sha256 not in there]
    if not missing:
        return there
    with (
        story.step(f"fetch {_counted(missing)}"),
        Transport(ca_bundle=mirrors.ca_bundle(), patience=patience, hosts_once=True) as transport,
    ):
        fetcher = _Fetcher(transport, store, mirrors, story, missing)
        story.follow(fetcher.how_far)
        fetched = in_parallel(fetcher.fetch, missing, on_error=transport.stop)
    failures = [result for result in fetched if isinstance(result, Failure)]
    if failures:
        raise united(failures, of=len(wanted))
    return there | {
        item.sha256: path for item, path in zip(missing, fetched, strict=True) if isinstance(path, Path)
    }


def probe_all(
    wanted: Sequence[Wanted], *, mirrors: Mirrors, patience: Patience | None = None
) -> list[Failure | None]:
    """Ask whether files can still be fetched, read none, and return what is wrong in the order of `wanted`."""
    with Transport(ca_bundle=mirrors.ca_bundle(), patience=patience, hosts_once=True) as transport:

        def probe(item: Wanted) -> Failure | None:
            gone: list[str] = []
            down: list[str] = []
            for address in map(mirrors.archive, item.urls):
                try:
                    _touch(transport, address)
                except Missing as error:
                    gone.append(str(error))
                except Unreachable as error:
                    down.append(str(error))
                else:
                    return None
            return _not_reached(item, [*down, *gone]) if down else _gone(item, gone)

        return in_parallel(probe, wanted, on_error=transport.stop)


def in_parallel(
    work: Callable[[_In], _Out], items: Sequence[_In], *, on_error: Callable[[], None] = lambda: None
) -> list[_Out]:
    """Return `work` of every item, in the order of the items.

    An exception, also an interrupt of this thread, calls `on_error`, waits for what is under way and goes on.
    """
    with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="fetch") as pool:
        futures: list[Future[_Out]] = []
        try:
            futures.extend(pool.submit(work, item) for item in items)
            for future in as_completed(futures):
                future.result()
        except BaseException:
            on_error()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def united(failures: Sequence[Failure], *, of: int) -> Failure:
    """Return one failure that tells of all; a broken pin outranks a network that is down."""
    worst = next((failure for failure in failures if isinstance(failure, LockError)), failures[0])
    if len(failures) == 1:
        return worst
    return type(worst)(
        f"{len(failures)} of {of} files could not be fetched as locked",
        details=tuple(line for failure in failures for line in (failure.message, *failure.details)),
        hint=worst.hint,
    )


class _Fetcher:
    def __init__(
        self, transport: Transport, store: Store, mirrors: Mirrors, story: Story, items: Sequence[Wanted]
    ) -> None:
        self._transport = transport
        self._store = store
        self._mirrors = mirrors
        self._story = story
        self._total = len(items)
        self._tell = threading.Lock()
        self._count = 0
        self._bytes = 0
        self._told = 0
        self._under_way: set[Incoming] = set()
        self._whole = sum(item.size for item in items if item.size is not None)
        self._sizes_known = all(item.size is not None for item in items)

    def fetch(self, item: Wanted) -> Path | Failure:
        """Return the file, or what is wrong with it. `Stopped` and what nobody expects pass through."""
        wrong: list[str] = []
        gone: list[str] = []
        down: list[str] = []
        for address in map(self._mirrors.archive, item.urls):
            try:
                path = self._from(item, address)
            except _Mismatch as error:
                wrong.append(str(error))
            except Missing as error:
                gone.append(str(error))
            except Unreachable as error:
                down.append(str(error))
            except OSError as error:
                return EngineError(f"{self._store.root}: cannot be written to: {error.strerror}")
            else:
                for problem in wrong:
                    self._story.warn(f"{item.name}: {problem}; taken from {shown(address)} instead")
                self._progress(item.name, path.stat().st_size)
                return path
        if wrong:
            return LockError(f"{item.name}: {wrong[0]}", details=(*wrong[1:], *gone, *down), hint=LOCK_HINT)
        if down:
            return _not_reached(item, [*down, *gone])
        where = gone[0] if gone else "no address is known"
        return LockError(
            f"{item.name}: can no longer be fetched: {where}", details=tuple(gone[1:]), hint=LOCK_HINT
        )

    def _from(self, item: Wanted, url: str) -> Path:
        with self._store.receive() as incoming, self._watched(incoming):
            if urlsplit(url).scheme == "file":
                self._copy(item, url, incoming)
            else:
                attempt = _Attempt(self._transport, item, url, incoming)
                self._transport.patiently(url, attempt)
            if incoming.sha256 != item.sha256:
                most = _LARGEST_UNKNOWN if item.size is None else item.size
                more = "more than " if incoming.size > most else ""
                size = f" ({item.size} bytes)" if item.size is not None else ""
                raise _Mismatch(
                    f"expected sha256 {item.sha256}{size}, got {incoming.sha256} ({more}{incoming.size} bytes) "
                    f"from {shown(url)}"
                )
            return self._store.keep(incoming)

    def _copy(self, item: Wanted, url: str, incoming: Incoming) -> None:
        try:
            with Path(unquote(urlsplit(url).path)).open("rb") as source:
                while data := source.read(_CHUNK):
                    self._transport.stopping()
                    incoming.write(data)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise Missing(url, 404) from error
        except PermissionError as error:
            raise Unreachable(f"{url}: {error.strerror}") from error

    @contextmanager
    def _watched(self, incoming: Incoming) -> Iterator[None]:
        with self._tell:
            self._under_way.add(incoming)
        try:
            yield
        finally:
            with self._tell:
                self._under_way.discard(incoming)

    def how_far(self) -> Reached:
        """See `Story.follow`."""
        with self._tell:
            over = self._bytes + sum(incoming.size for incoming in self._under_way)
            files = f"{self._count} of {self._total} files"
        if not self._sizes_known or not self._whole:
            return Reached(words=f"{files}, {_amount(over)}")
        return Reached(words=f"{files}, {_amount(over)} of {_amount(self._whole)}", share=over / self._whole)

    def _progress(self, name: str, size: int) -> None:
        with self._tell:
            self._count += 1
            self._bytes += size
            last = self._count == self._total
            if last or size >= _WORTH_A_NOTE or self._bytes - self._told >= _WORTH_A_NOTE:
                self._told = self._bytes
                self._story.note(f"{self._count} of {self._total} files, {_amount(self._bytes)}: {name}")


class _Attempt:
    """One download with all its attempts: goes on where the last one was cut off."""

    def __init__(self, transport: Transport, item: Wanted, url: str, incoming: Incoming) -> None:
        self._transport = transport
        self._item = item
        self._url = url
        self._incoming = incoming
        self._validator: str | None = None
        self._resumed = False

    def __call__(self) -> None:
        incoming = self._incoming
        headers = {"Accept-Encoding": "identity"}
        if incoming.size and self._validator is not None:
            headers |= {"Range": f"bytes={incoming.size}-", "If-Range": self._validator}
        elif incoming.size:
            incoming.restart()
        with self._transport.answer(self._url, headers) as response:
            self._place(response)
            self._read(response)
        if self._resumed and incoming.sha256 != self._item.sha256:
            # The two halves may come from two versions of the file: judge only what came in one piece.
            self._resumed, self._validator = False, None
            incoming.restart()
            raise Again("resumed to other bytes than wanted")

    def _place(self, response: requests.Response) -> None:
        incoming = self._incoming
        if response.status_code == requests.codes.partial_content:
            if not response.headers.get("Content-Range", "").startswith(f"bytes {incoming.size}-"):
                self._validator = None
                raise Again("answered with another part than asked for")
            self._resumed = True
            return
        incoming.restart()
        self._resumed = False
        etag = response.headers.get("ETag", "")
        strong = etag if etag.startswith('"') else response.headers.get("Last-Modified")
        self._validator = strong if response.headers.get("Accept-Ranges") == "bytes" else None

    def _read(self, response: requests.Response) -> None:
        incoming, most = self._incoming, self._item.size
        length = response.headers.get("Content-Length", "")
        whole = incoming.size + int(length) if length.isdecimal() else most
        try:
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                self._transport.stopping()
                incoming.write(chunk)
                if incoming.size > (_LARGEST_UNKNOWN if most is None else most):
                    return
        except ProtocolError as error:
            raise Again(f"cut off after {incoming.size} of {whole or 'unknown'} bytes") from error
        if whole is not None and incoming.size < whole:
            raise Again(f"cut off after {incoming.size} of {whole} bytes")


def _touch(transport: Transport, url: str) -> None:
    """Raise `Missing` or `Unreachable` where a file could not be downloaded."""
    if urlsplit(url).scheme == "file":
        if not Path(unquote(urlsplit(url).path)).is_file():
            raise Missing(url, 404)
        return

    def asked(method: str) -> Callable[[], None]:
        def once() -> None:
            with transport.answer(url, {"Accept-Encoding": "identity"}, method=method) as response:
                if method == "HEAD":
                    _ = response.content  # nothing; it gives the connection back, for the next file

        return once

    try:
        transport.patiently(url, asked("HEAD"))
    except (Missing, Unreachable):  # some servers answer only what they are used to
        transport.patiently(url, asked("GET"))


def _gone(item: Wanted, where: Sequence[str]) -> LockError:
    reason = where[0] if where else "no address is known"
    return LockError(f"{item.name}: can no longer be fetched: {reason}", details=tuple(where[1:]), hint=LOCK_HINT)


def _not_reached(item: Wanted, reasons: Sequence[str]) -> EngineError:
    return EngineError(
        f"{item.name}: cannot be fetched: {reasons[0]}", details=tuple(reasons[1:]), hint=NETWORK_HINT
    )


def _counted(items: Sequence[Wanted]) -> str:
    sizes = [item.size for item in items]
    known = sum(size for size in sizes if size is not None)
    files = "1 file" if len(items) == 1 else f"{len(items)} files"
    return f"{files}, {'at least ' if None in sizes else ''}{_amount(known)}" if known else files


def _amount(size: int) -> str:
    if size < 1_000_000:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:.0f} MB" if size >= 10_000_000 else f"{size / 1e6:.1f} MB"
