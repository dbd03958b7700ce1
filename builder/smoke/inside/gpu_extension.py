"""Lets the extension that the image's build compiled tell what cards there are, and compute on each of them."""

from __future__ import annotations

import importlib
from typing import Any

from builder.smoke.inside.evidence import Wrong

_COUNT = 1_000_003


def probe() -> dict[str, Any]:
    """Return per card what it tells of itself, the error of a vector sum, and the LDS a workgroup could use."""
    module = importlib.import_module("rocm_images_probe")
    cards = module.devices()
    if not cards:
        raise Wrong("the HIP runtime sees no GPU")
    computed = []
    for number, card in enumerate(cards):
        try:
            computed.append({**card, "difference": module.vector_add(number, _COUNT), "lds": module.lds(number)})
        except RuntimeError as error:
            raise Wrong(f"GPU {number}, {card['name']} ({card['target']}): {error}") from error
    return {"cards": computed}
