"""Reads of an image what says what it is made of, where it lies, and no more of it than that takes.

Of an image of this program those are a few small layers at its top; of any other one all layers are read, as
streams, and nothing of them is kept but the texts that tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.audit import oci_images
from builder.audit.contents import MANIFEST, Contents, Seeking
from builder.audit.layers import Layer, stacked
from builder.audit.oci_images import Blobs, Described, LayoutBlobs, describe
from builder.compare.foreign import TELLING
from builder.engine import contents, images
from builder.engine.client import info
from builder.errors import EngineError, LockError, RecipeError
from builder.mirrors import Mirrors
from builder.project import LOCAL
from builder.reference import Digest, ImageReference, parse_reference
from builder.registries.reading import remote_image
from builder.sources.transport import Patience
from builder.story import Story

OURS = "rocm-images.content-key"  # the label that every image of this program has
_SEEKING = Seeking(texts=TELLING, code=False)
_SMALL = 8 << 20  # bytes of a layer that is read to see whether the manifest is in it


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """An image as it was seen: what describes it, and the texts in it by path, with the layer each is in.

    `reference` is how a registry calls it. `where` is the kind of place. With `exact` digests and sizes of layers
    are those that are pulled. `whole` tells whether every file that tells was looked for.
    """

    name: str
    where: str
    described: Described
    reference: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    layer_of: Mapping[str, int] = field(default_factory=dict)
    exact: bool = True
    whole: bool = True

    @property
    def ours(self) -> bool:
        """Whether this program made it and it says what it is made of."""
        return OURS in self.described.labels and MANIFEST in self.texts

    @property
    def history(self) -> tuple[str | None, ...]:
        """What made each layer; all None where the history does not go with the layers."""
        entries = self.described.config.get("history") or []
        steps = [str(entry.get("created_by") or "") for entry in entries if not entry.get("empty_layer")]
        count = len(self.described.layers)
        return tuple(steps) if len(steps) == count else (None,) * count


def see(subject: str, *, mirrors: Mirrors, story: Story, shallow: bool = False) -> Seen:
    """See what somebody names: a layout, an image of a registry, or of the engine.

    An image that a registry serves is read there, from the engine only where no registry gives it. With `shallow`
    no layer of an image of somebody else is read. Raises `RecipeError` for what is no image, `EngineError` and
    `LockError` for one that cannot be read.
    """
    text, at, digest = subject.partition("@")
    path = Path(subject)
    if oci_images.is_layout(Path(text)):
        blobs = LayoutBlobs(Path(text))
        chosen = oci_images.chosen_of(Path(text), _digest(digest) if at else None)
        return _in_blobs(blobs, chosen, name=subject, where="layout", story=story, shallow=shallow)
    if path.exists() or subject.startswith(("/", "./", "../")):
        kind = "no image" if path.exists() else "no such file or folder"
        raise RecipeError(
            f"{subject}: {kind}", hint=f"rocm-images inspect {subject} --gfx" if path.exists() else None
        )
    return _named(subject, mirrors=mirrors, story=story, shallow=shallow)


def _named(name: str, *, mirrors: Mirrors, story: Story, shallow: bool) -> Seen:
    reference = _reference(name)
    here: str | None = None
    try:
        here = images.local_id(name)
    except EngineError:
        if reference is None:
            raise
    if reference is not None:
        try:
            patience = Patience(attempts=1) if here is not None else None
            with remote_image(reference, mirrors=mirrors, patience=patience) as remote:
                return _in_blobs(
                    remote, remote.digest, name=name, where="registry", story=story, shallow=shallow,
                    reference=reference,
                )  # fmt: skip
        except (EngineError, LockError):
            if here is None:
                raise
    if here is None:
        raise EngineError(
            f"{name}: no such image in the container engine, and no path or reference with a registry's host",
            hint="build it, or name it as its registry does: rocm-images inspect docker.io/rocm/vllm:latest",
        )
    return _in_engine(here, name=name, story=story, shallow=shallow)


def _in_blobs(
    blobs: Blobs,
    digest: Digest,
    *,
    name: str,
    where: str,
    story: Story,
    shallow: bool,
    reference: ImageReference | None = None,
) -> Seen:
    described = describe(blobs, digest, name=name)
    shown = str(reference.at(tag=reference.tag, digest=described.digest)) if reference is not None else None
    ours = OURS in described.labels
    layers = _top(blobs, described, name) if ours else None
    if layers is not None:
        found = stacked(layers, described.labels)
    elif shallow and not ours:
        return Seen(name=name, where=where, described=described, reference=shown, whole=False)
    else:
        found = oci_images.read_layers(blobs, described, name=name, story=story, seeking=_SEEKING)
    return Seen(
        name=name, where=where, described=described, reference=shown, texts=found.texts, layer_of=found.layer_of
    )


def _top(blobs: Blobs, described: Described, name: str) -> list[Layer] | None:
    """Read layers from the top down to that with the manifest; those below are taken for empty.

    None where it is in no layer that is small.
    """
    layers = [Layer() for _ in described.layers]
    for number in range(len(layers) - 1, -1, -1):
        each = described.layers[number]
        if each.size is None or each.size > _SMALL:
            return None
        layers[number] = oci_images.verified_layer(blobs, Digest(each.digest), name=name, seeking=_SEEKING)
        if MANIFEST in layers[number].texts:
            return layers
    return None


def _in_engine(image: str, *, name: str, story: Story, shallow: bool) -> Seen:
    """See an image of the engine. The older image store has layers unpacked alone: their sizes are unknown."""
    told = contents.config(image)
    ours = told is not None and OURS in told.labels
    most = _SMALL if ours else 0 if shallow else None
    described, found = _saved(image, name, most, story)
    if ours and MANIFEST not in found.texts and not shallow:
        most = None
        described, found = _saved(image, name, most, story)
    return Seen(
        name=name, where="engine", described=described, texts=found.texts, layer_of=found.layer_of,
        exact=info().containerd_store, whole=most is None or ours,
    )  # fmt: skip


def _saved(image: str, name: str, most: int | None, story: Story) -> tuple[Described, Contents]:
    with story.step(f"reading {name} out of the engine"), images.saved(image) as pieces:
        return oci_images.read_archived(pieces, name=name, seeking=_SEEKING, most=most)


def _reference(name: str) -> ImageReference | None:
    """Return how a registry calls an image, None for a name that is the engine's alone."""
    try:
        reference = parse_reference(name)
    except ValueError:
        return None
    return reference if reference.host != LOCAL else None


def _digest(text: str) -> Digest:
    try:
        return Digest(text)
    except ValueError as error:
        raise RecipeError(str(error)) from error
