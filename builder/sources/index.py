"""Finds locked wheels: in local wheelhouses first, then on the Python index the lock names.

An index is asked for a file's address only. What the file must be, the lock has said already.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from packaging.utils import canonicalize_name
from pypi_simple import (
    ACCEPT_ANY,
    PYPI_SIMPLE_ENDPOINT,
    ProjectPage,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)

from builder import foreign
from builder.errors import EngineError, Failure, LockError
from builder.mirrors import Mirrors
from builder.sources.download import LOCK_HINT, NETWORK_HINT, Wanted, fetch_all, in_parallel, united
from builder.sources.store import Store, sha256_of
from builder.sources.transport import Missing, Patience, Transport, Unreachable, shown
from builder.story import Story

Kind = Literal["simple", "flat"]
_SCHEMES = ("https", "http")


@dataclass(frozen=True, kw_only=True, slots=True)
class LockedFile:
    """A file of a Python project as the lock has it.

    `index` is the address the recipe gives, None for the client's default. A "simple" index has a page for each
    project, a "flat" one has a single page, or folder, with files of all projects.
    """

    project: str
    filename: str
    sha256: str
    size: int | None = None
    index: str | None = None
    kind: Kind = "simple"


@dataclass(frozen=True, kw_only=True, slots=True)
class Located:
    """Where a file is, and what its index says of it. `yanked` is the reason given, '' for none."""

    url: str
    sha256: str | None
    yanked: str | None


def locate(
    project: str,
    filename: str,
    *,
    index: str | None,
    mirrors: Mirrors,
    kind: Kind = "simple",
    patience: Patience | None = None,
) -> str:
    """Return the address of a file of a Python project, which may be yanked.

    Raises `LockError` when the index does not have it, `EngineError` when it cannot be asked.
    """
    file = LockedFile(project=project, filename=filename, sha256="", index=index, kind=kind)
    with Transport(ca_bundle=mirrors.ca_bundle(), patience=patience) as transport:
        found = _Catalogue(transport, mirrors).look_up(file)
    if isinstance(found, Failure):
        raise found
    return found.url


def list_files(
    project: str,
    *,
    index: str | None,
    mirrors: Mirrors,
    kind: Kind = "simple",
    patience: Patience | None = None,
) -> Mapping[str, Located]:
    """Return the files of a project on an index by name, those of further default indexes after them.

    Raises `LockError` when no index has the project, `EngineError` when one cannot be asked.
    """
    asked = LockedFile(project=project, filename="", sha256="", index=index, kind=kind)
    with Transport(ca_bundle=mirrors.ca_bundle(), patience=patience) as transport:
        return _Catalogue(transport, mirrors).everything(asked)


def find_in_wheelhouses(filename: str, sha256: str, *, mirrors: Mirrors) -> Path | None:
    """Return a local wheel with this name and these bytes; one with other bytes is passed over."""
    for folder in mirrors.wheelhouses:
        path = folder / filename
        if path.is_file() and sha256_of(path) == sha256:
            return path
    return None


def look_up_all(
    files: Sequence[LockedFile], *, mirrors: Mirrors, patience: Patience | None = None
) -> list[Located | Failure]:
    """Ask the indexes for every file, download nothing, and return the answers in the order of `files`."""
    with Transport(ca_bundle=mirrors.ca_bundle(), patience=patience, hosts_once=True) as transport:
        return in_parallel(_Catalogue(transport, mirrors).look_up, files, on_error=transport.stop)


def fetch_wheels(
    files: Sequence[LockedFile],
    *,
    store: Store,
    mirrors: Mirrors,
    story: Story,
    allow_yanked: Collection[str] = (),
    patience: Patience | None = None,
) -> dict[str, Path]:
    """Return the files by sha256, each from the store, a wheelhouse or its index.

    A yanked file is a `LockError` unless its project is in `allow_yanked`. Otherwise as `fetch_all`.
    """
    unique = {file.sha256: file for file in files}
    there: dict[str, Path] = {}

    def local(file: LockedFile) -> Path | None:
        if (stored := store.get(file.sha256)) is not None:
            return stored
        wheel = find_in_wheelhouses(file.filename, file.sha256, mirrors=mirrors)
        return store.add(wheel, file.sha256) if wheel is not None else None

    missing: list[LockedFile] = []
    for file, path in zip(unique.values(), in_parallel(local, list(unique.values())), strict=True):
        if path is None:
            missing.append(file)
        else:
            there[file.sha256] = path
    if not missing:
        return there
    with story.step(f"look up {len(missing)} of {len(unique)} files"):
        answers = look_up_all(missing, mirrors=mirrors, patience=patience)
        wanted, failures = _judged(missing, answers, allow_yanked, story)
    if failures:
        raise united(failures, of=len(unique))
    return there | fetch_all(wanted, store=store, mirrors=mirrors, story=story, patience=patience)


def _judged(
    files: Sequence[LockedFile], answers: Sequence[Located | Failure], allow_yanked: Collection[str], story: Story
) -> tuple[list[Wanted], list[Failure]]:
    wanted: list[Wanted] = []
    failures: list[Failure] = []
    for file, answer in zip(files, answers, strict=True):
        if isinstance(answer, Failure):
            failures.append(answer)
            continue
        if answer.yanked is not None:
            said = f"{file.filename}: yanked by its authors: {answer.yanked or 'no reason given'}"
            if canonicalize_name(file.project) not in {canonicalize_name(name) for name in allow_yanked}:
                failures.append(LockError(said, hint=f"rocm-images lock --update {file.project}"))
                continue
            story.warn(said)
        wanted.append(Wanted(name=file.filename, sha256=file.sha256, size=file.size, urls=(answer.url,)))
    return wanted, failures


class _Catalogue:
    """The pages of indexes, each read once."""

    def __init__(self, transport: Transport, mirrors: Mirrors) -> None:
        self._transport = transport
        self._mirrors = mirrors
        self._pages: dict[tuple[str, Kind], Mapping[str, Located]] = {}

    def look_up(self, file: LockedFile) -> Located | Failure:
        """Return where a file is, or why that cannot be told."""
        first = self._mirrors.index(file.index)
        addresses = [first or PYPI_SIMPLE_ENDPOINT]
        if file.index is None:
            addresses.extend(self._mirrors.extra_indexes())
        names = [shown(first) if first else "the default Python index", *(shown(url) for url in addresses[1:])]
        reasons: list[str] = []
        others: list[str] = []
        silent: list[str] = []
        for name, address in zip(names, addresses, strict=True):
            try:
                page = self._page(address, file)
            except Missing:
                reasons.append(f"there is no project {file.project!r} on {name}")
                continue
            except Unreachable as error:
                silent.append(str(error) if first or name != names[0] else f"{name} does not answer: {error}")
                continue
            found = page.get(file.filename)
            if found is None:
                reasons.append(f"{name} has no such file of {file.project!r}")
                others.extend(page)
            elif file.sha256 and found.sha256 not in (None, file.sha256):
                reasons.append(f"{name} has it with sha256 {found.sha256}, locked is {file.sha256}")
            else:
                return found
        if silent:
            return EngineError(
                f"{file.filename}: cannot be looked up: {silent[0]}",
                details=(*silent[1:], *reasons),
                hint=NETWORK_HINT,
            )
        near = difflib.get_close_matches(file.filename, others, n=3, cutoff=0.8)
        return LockError(
            f"{file.filename}: can no longer be fetched: {reasons[0]}",
            details=(*reasons[1:], *(f"there is {other}" for other in near)),
            hint=LOCK_HINT,
        )

    def everything(self, file: LockedFile) -> Mapping[str, Located]:
        """Return all files of a project. Raises as `list_files`."""
        first = self._mirrors.index(file.index)
        others = self._mirrors.extra_indexes() if file.index is None else ()
        found: dict[str, Located] = {}
        gone: list[str] = []
        for address in (first or PYPI_SIMPLE_ENDPOINT, *others):
            name = shown(address) if first or address in others else "the default Python index"
            try:
                found = {**self._page(address, file), **found}
            except Missing:
                gone.append(f"there is no project {file.project!r} on {name}")
            except Unreachable as error:
                raise EngineError(f"{name} cannot be asked: {error}", hint=NETWORK_HINT) from error
        if not found:
            raise LockError(gone[0] if gone else f"there are no files of {file.project!r}", hint=LOCK_HINT)
        return found

    def _page(self, address: str, file: LockedFile) -> Mapping[str, Located]:
        url = address if file.kind == "flat" else f"{address.rstrip('/')}/{canonicalize_name(file.project)}/"
        key = (url, file.kind)
        if key not in self._pages:  # two threads may both read a page; the same answer wins either way
            self._pages[key] = self._read(url, file.project)
        return self._pages[key]

    def _read(self, url: str, project: str) -> Mapping[str, Located]:
        local = urlsplit(url).scheme == "file"  # only such an index may name files of this machine
        try:
            if local:
                page = _local_page(url, project)
            else:
                page = ProjectPage.from_response(self._transport.page(url, accept=ACCEPT_ANY), project)
        except RecursionError:
            raise Unreachable(f"{shown(url)}: does not answer as a Python index: {foreign.NESTED}") from None
        except (UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError) as error:
            reason = str(error).partition("\n")[0]  # of a page of another form pydantic tells at length
            raise Unreachable(f"{shown(url)}: does not answer as a Python index: {reason}") from error
        return {
            unquote(urlsplit(package.url).path).rpartition("/")[2]: Located(
                url=package.url,
                sha256=package.digests.get("sha256"),
                yanked=(package.yanked_reason or "") if package.is_yanked else None,
            )
            for package in page.packages
            if urlsplit(package.url).scheme in _SCHEMES or local
        }


def _local_page(url: str, project: str) -> ProjectPage:
    """Read a page of an index in a folder: its index.html, or the folder itself."""
    path = Path(unquote(urlsplit(url).path))
    page = path / "index.html" if path.is_dir() else path
    if page.is_file():
        return ProjectPage.from_html(project, page.read_bytes(), base_url=page.as_uri())
    if not path.is_dir():
        raise Missing(url, 404)
    names = sorted(entry.name for entry in path.iterdir() if entry.is_file())
    links = "".join(f'<a href="{quote(name)}">{name}</a>' for name in names)
    return ProjectPage.from_html(project, links, base_url=path.as_uri() + "/")
