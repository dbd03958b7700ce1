"""What a node that has one image has to pull for another: exact, from digests and compressed sizes of layers.

Two kinds of store are told apart. Those that keep blobs by digest - containerd, CRI-O, Podman, Docker with the
containerd image store - pull what they do not have, whatever lies below it. Docker's older store knows a layer
only together with all layers below it, and pulls from the first one that differs on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from builder.record import LayerEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class Pull:
    """What has to be pulled. All None where the layers of a side are unknown.

    `layers` are those that the node does not have, each blob once; `size` is their compressed size in bytes,
    `stacked` that of all from the first that differs on, `whole` that of the whole image.
    """

    layers: tuple[LayerEntry, ...] | None = None
    size: int | None = None
    stacked: int | None = None
    whole: int | None = None

    def plain(self) -> dict[str, Any]:
        """Return this as a table for JSON."""
        return {
            "layers": [asdict(layer) for layer in self.layers] if self.layers is not None else None,
            "size": self.size,
            "size-of-all-above": self.stacked,
            "size-of-image": self.whole,
        }


def pull(old: Sequence[LayerEntry] | None, new: Sequence[LayerEntry] | None) -> Pull:
    """Return what a node that has the layers `old` pulls for `new`."""
    if new is None:
        return Pull()
    whole = _size(new)
    if old is None:
        return Pull(whole=whole)
    there = {layer.digest for layer in old}
    missing = {layer.digest: layer for layer in new if layer.digest not in there}
    same = next(
        (place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a.digest != b.digest),
        min(len(old), len(new)),
    )
    return Pull(
        layers=tuple(missing.values()), size=_size(tuple(missing.values())), stacked=_size(new[same:]), whole=whole
    )


def _size(layers: Sequence[LayerEntry]) -> int:
    """Return the bytes of layers, each blob once."""
    return sum({layer.digest: layer.size for layer in layers}.values())
