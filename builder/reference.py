"""Image references and digests: parsed once, at the border, and typed from there on.

The grammar is that of the OCI distribution specification and of Docker's `reference` package; for image layouts on
disk that of skopeo.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from builder.errors import EngineError

LAYOUT = "oci:"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HOST = re.compile(r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """The sha256 of a blob, written `sha256:` and 64 lower-case hex digits."""

    text: str

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.text):
            raise ValueError(f"expected 'sha256:' and 64 hex digits, got {self.text!r}")

    def __str__(self) -> str:
        return self.text

    @property
    def hex(self) -> str:
        """The digits alone."""
        return self.text.removeprefix("sha256:")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """`host/path[:tag][@digest]`; the host is always written, as in `docker.io/rocm/vllm`."""

    host: str
    path: str
    tag: str | None = None
    digest: Digest | None = None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.path}{tag}{digest}"

    @property
    def name(self) -> str:
        """Host and path, without tag and digest."""
        return f"{self.host}/{self.path}"

    def at(self, *, tag: str | None = None, digest: Digest | None = None) -> ImageReference:
        """Return the same repository with another tag and digest."""
        return replace(self, tag=tag, digest=digest)

    def beside(self, name: str) -> ImageReference:
        """Return the repository `name` in the same namespace."""
        return replace(self, path=f"{self.path.rpartition('/')[0]}/{name}".lstrip("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutReference:
    """`oci:FOLDER[:tag][@digest]`: an image layout on disk, and an image in it. `folder` is as it was written."""

    folder: str
    tag: str | None = None
    digest: Digest | None = None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"

    @property
    def name(self) -> str:
        """The layout, without tag and digest."""
        return f"{LAYOUT}{self.folder}"

    def at(self, *, tag: str | None = None, digest: Digest | None = None) -> LayoutReference:
        """Return the same layout with another tag and digest."""
        return replace(self, tag=tag, digest=digest)

    def beside(self, name: str) -> LayoutReference:
        """Return the layout `name` in the same folder."""
        return replace(self, folder=str(PurePosixPath(self.folder).parent / name))


Place = ImageReference | LayoutReference


def parse_place(text: str) -> Place:
    """Parse a reference to a registry, or `oci:FOLDER[:tag][@digest]`. Raises `ValueError`."""
    if not text.startswith(LAYOUT):
        return parse_reference(text)
    rest, at, digest = text.removeprefix(LAYOUT).partition("@")
    folder, colon, tag = rest.partition(":")
    if not folder or not folder.isprintable():
        raise ValueError(f"expected 'oci:' and a folder whose name has no ':' and no '@', got {text!r}")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError(f"expected a tag of at most 128 letters, digits, '.', '_', '-', got {tag!r}")
    return LayoutReference(
        folder=str(PurePosixPath(folder)), tag=tag or None, digest=Digest(digest) if at else None
    )


def parse_reference(text: str) -> ImageReference:
    """Parse `host/path[:tag][@digest]`. Raises `ValueError` that says what was expected."""
    rest, at, digest = text.partition("@")
    host, slash, rest = rest.partition("/")
    if not slash or not _HOST.fullmatch(host) or not ("." in host or ":" in host or host == "localhost"):
        raise ValueError(f"expected a registry host first, as in 'docker.io/rocm/vllm', got {text!r}")
    path, colon, tag = rest.partition(":")
    if not _PATH.fullmatch(path):
        raise ValueError(f"expected a lower-case repository path after the host, got {path!r}")
    if colon and not _TAG.fullmatch(tag):
        raise ValueError(f"expected a tag of at most 128 letters, digits, '.', '_', '-', got {tag!r}")
    return ImageReference(host=host, path=path, tag=tag or None, digest=Digest(digest) if at else None)


def parse_target(text: str) -> Place:
    """Parse where an image is published to: `host/path` or `oci:FOLDER`, without tag and digest."""
    if not text.startswith(LAYOUT):
        return parse_repository(text)
    if ":" in text.removeprefix(LAYOUT) or "@" in text:
        raise ValueError(f"expected 'oci:' and a folder whose name has no ':' and no '@', got {text!r}")
    return parse_place(text)


def parse_repository(text: str) -> ImageReference:
    """Parse `host/path`, the place images are published to: no tag, no digest."""
    reference = parse_reference(text)
    if reference.tag or reference.digest:
        raise ValueError(f"expected HOST/NAMESPACE without tag or digest, got {text!r}")
    return reference


def registry_unusable(reference: ImageReference, words: str) -> EngineError:
    """Return the failure for a registry that is down or refuses; `words` are what it, or the way to it, said."""
    return EngineError(
        f"the registry {reference.host} cannot be used for {reference}",
        details=tuple(line for line in words.splitlines() if line.strip())[-5:],
        hint="the embedded registry starts with: rocm-images registry up; for another, see its address and login",
    )
