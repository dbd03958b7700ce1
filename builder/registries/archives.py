"""Archives as `docker save` writes and `docker load` reads them: taken apart, and made of a layout's blobs."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from builder import foreign
from builder.errors import EngineError
from builder.lockfile import canonical
from builder.reference import Digest
from builder.registries.artifacts import descriptor_of, index_of
from builder.registries.client import Document

REF_NAME = "org.opencontainers.image.ref.name"
LAYOUT_VERSION = b'{"imageLayoutVersion":"1.0.0"}'
_ENGINE_NAME = "io.containerd.image.name"
_CHUNK = 1 << 20


def parts_of(table: Mapping[str, Any]) -> list[Digest]:
    """Return configuration and layers of a manifest."""
    return [Digest(each["digest"]) for each in (table["config"], *table["layers"])]


def write_archive(image: Document, target: Path, *, name: str, blob: Callable[[Digest], Path]) -> None:
    """Write an image for an engine of either store to load. `name` is what to call it, `blob` finds its parts."""
    config, *layers = parts_of(foreign.loads(image.content))
    entry = {**descriptor_of(image), "annotations": {_ENGINE_NAME: name, REF_NAME: name.rpartition(":")[2]}}
    listed = {
        "Config": f"blobs/sha256/{config.hex}", "RepoTags": [name],
        "Layers": [f"blobs/sha256/{each.hex}" for each in layers],
    }  # fmt: skip
    with tarfile.open(target, "w") as archive:
        for digest in dict.fromkeys((image.digest, config, *layers)):
            archive.add(blob(digest), f"blobs/sha256/{digest.hex}", recursive=False)
        for path, content in (
            ("oci-layout", LAYOUT_VERSION), ("index.json", index_of([entry]).content),
            ("manifest.json", b"[" + canonical(listed) + b"]"),
        ):  # fmt: skip
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def unpacked(archive: Iterable[bytes], part: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Unpack the files of an archive below `part`; return where each is, and which names lead to others.

    A blob's file has the name of the blob. Raises `EngineError` for an archive that breaks off.
    """
    files: dict[str, Path] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=io.BufferedReader(_Pieces(archive), _CHUNK), mode="r|") as opened:
            for number, member in enumerate(opened):
                name = os.path.normpath(member.name)
                if member.issym() or member.islnk():
                    above = os.path.dirname(name) if member.issym() else ""  # noqa: PTH120 -- a name in an archive
                    links[name] = os.path.normpath(os.path.join(above, member.linkname))  # noqa: PTH118
                content = opened.extractfile(member) if member.isfile() else None
                if content is None:
                    continue
                folder = part / str(number)
                folder.mkdir()
                files[name] = folder / os.path.basename(name)  # noqa: PTH119
                with files[name].open("wb") as sink:
                    shutil.copyfileobj(content, sink, _CHUNK)
    except (tarfile.TarError, EOFError) as error:
        raise EngineError(f"the engine broke off in the middle of an image: {error}") from error
    return files, links


class _Pieces(io.RawIOBase):
    """A stream of pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 -- what the protocol has
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count
