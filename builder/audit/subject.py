"""From what somebody names - a file, a folder, a layout, an image here or in a registry - to the audit of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.audit import folder, oci_images
from builder.audit.contents import MANIFEST, Contents
from builder.audit.owners import Owners, made_for
from builder.codeobjects.audit import Audit, Found, audit
from builder.engine import images
from builder.errors import EngineError, RecipeError
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference, parse_reference
from builder.registries.reading import remote_image
from builder.story import Story
from builder.target import GfxTarget

GFX_LABEL = "rocm-images.gfx"


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """An audit, where its wanted targets are from, and the files that could not be looked into."""

    audit: Audit
    wanted_by: str
    unread: tuple[str, ...]


def inspect(subject: str, *, wanted: Sequence[str] | None, mirrors: Mirrors, story: Story) -> Inspected:
    """Audit a subject. `wanted` None means what the image itself says that it was made for.

    Raises `RecipeError` for a subject that is nothing of the kind, `EngineError` and `LockError` for an image that
    cannot be read.
    """
    contents = read(subject, mirrors=mirrors, story=story)
    by = "--want"
    promised = wanted is None
    if wanted is None:
        wanted, by = _promised(contents)
    audited = judge(contents, targets(wanted, by), promised=promised)
    return Inspected(audit=audited, wanted_by=by, unread=contents.unread)


def _promised(contents: Contents) -> tuple[list[str], str]:
    """Return the targets that an image says it was made for, and where it says so."""
    if label := contents.labels.get(GFX_LABEL):
        return label.split(","), f"label {GFX_LABEL}"
    return made_for(contents), f"/{MANIFEST}"


def judge(contents: Contents, wanted: Sequence[str], *, promised: bool = False) -> Audit:
    """Audit the contents of a folder or image, each file under its owner.

    With `promised`, a component that was made for other targets than the image is held to those.
    """
    owners = Owners(contents)
    found = []
    for path, code in contents.code.items():
        owner = owners.of(path)
        found.append(Found(path=path, code=code, owner=owner.name, judged=owner.judged))
    return audit(found, wanted, owners.targets if promised else None)


def targets(texts: Sequence[str], where: str) -> tuple[str, ...]:
    """Check target IDs and return them. Raises `RecipeError` that says where a wrong one was named."""
    try:
        return tuple(dict.fromkeys(GfxTarget(text.strip()).text for text in texts))
    except ValueError as error:
        raise RecipeError(f"{where}: {error}", hint="for example --want gfx1201,gfx942") from error


def read(subject: str, *, mirrors: Mirrors, story: Story) -> Contents:
    """Read what somebody names: a path where there is one, else an image of the engine, else one of a registry."""
    text, at, digest = subject.partition("@")
    path = Path(subject)
    if path.is_dir() and not oci_images.is_layout(path):
        with story.step(f"looking for GPU code below {path}"):
            return folder.read_folder(path)
    if path.is_file():
        return folder.read_single(path)
    if oci_images.is_layout(Path(text)):
        return oci_images.read_layout(Path(text), _digest(digest) if at else None, story=story)
    if path.exists() or subject.startswith(("/", "./", "../")):
        raise RecipeError(f"{subject}: no such file or folder")
    return _image(subject, mirrors=mirrors, story=story)


def _image(name: str, *, mirrors: Mirrors, story: Story) -> Contents:
    reference = _reference(name)
    try:
        here = images.local_id(name)
    except EngineError:
        if reference is None:
            raise
        here = None  # a registry needs no engine
    if here is not None:
        with story.step(f"reading {name} out of the engine"), images.saved(here) as pieces:
            return oci_images.read_archive(pieces, name=name)
    if reference is None:
        raise EngineError(
            f"{name}: no such image in the container engine, and no path or reference with a registry's host",
            hint="for example: rocm-images inspect docker.io/rocm/vllm:latest --gfx",
        )
    with remote_image(reference, mirrors=mirrors) as remote:
        return oci_images.read_image(remote, remote.digest, name=name, story=story)


def _reference(name: str) -> ImageReference | None:
    try:
        return parse_reference(name)
    except ValueError:
        return None


def _digest(text: str) -> Digest:
    try:
        return Digest(text)
    except ValueError as error:
        raise RecipeError(str(error)) from error
