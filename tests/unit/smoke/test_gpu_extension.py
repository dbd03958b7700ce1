"""What the probe of the probe extension tells of cards, which stand-ins for the extension describe here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from builder.smoke.inside import gpu_extension
from builder.smoke.inside.evidence import Wrong

CARD = {"name": "AMD Radeon RX 9070 XT", "target": "gfx1201", "lds_per_block": 65536}


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def stands_in(cards: list[dict[str, Any]], *, lds: Callable[[int], int] = lambda _: 65536) -> None:
        module = ModuleType("rocm_images_probe")
        module.__dict__.update(devices=lambda: cards, vector_add=lambda number, count: 0.0, lds=lds)
        monkeypatch.setitem(sys.modules, "rocm_images_probe", module)

    return stands_in


def test_every_card_is_asked_and_computed_on(extension: Callable[..., None]) -> None:
    extension([CARD, {**CARD, "target": "gfx942"}])
    found = gpu_extension.probe()["cards"]
    assert [(each["target"], each["difference"], each["lds"]) for each in found] == [
        ("gfx1201", 0.0, 65536), ("gfx942", 0.0, 65536)
    ]  # fmt: skip


def test_without_a_card_that_is_said(extension: Callable[..., None]) -> None:
    extension([])
    with pytest.raises(Wrong, match="the HIP runtime sees no GPU"):
        gpu_extension.probe()


def test_a_card_that_refuses_is_named(extension: Callable[..., None]) -> None:
    def refuses(_: int) -> int:
        raise RuntimeError("start the kernel: invalid device function")

    extension([CARD], lds=refuses)
    with pytest.raises(
        Wrong, match=r"^GPU 0, AMD Radeon RX 9070 XT \(gfx1201\): start the kernel: invalid device"
    ):
        gpu_extension.probe()
