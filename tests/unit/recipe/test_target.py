"""GPU targets: the compiler's spelling, and nothing near it."""

from __future__ import annotations

import pytest

from builder.target import GfxTarget


@pytest.mark.parametrize(
    ("text", "processor", "wave_size"),
    [
        ("gfx803", "gfx803", 64),
        ("gfx906", "gfx906", 64),
        ("gfx90a", "gfx90a", 64),
        ("gfx90c", "gfx90c", 64),
        ("gfx942", "gfx942", 64),
        ("gfx942:xnack-", "gfx942", 64),
        ("gfx942:sramecc+:xnack-", "gfx942", 64),
        ("gfx950", "gfx950", 64),
        ("gfx1030", "gfx1030", 32),
        ("gfx1100", "gfx1100", 32),
        ("gfx1151", "gfx1151", 32),
        ("gfx1201", "gfx1201", 32),
        ("gfx1250", "gfx1250", 32),
        ("gfx9-generic", "gfx9-generic", 64),
        ("gfx9-4-generic", "gfx9-4-generic", 64),
        ("gfx10-3-generic", "gfx10-3-generic", 32),
        ("gfx12-generic", "gfx12-generic", 32),
    ],
)
def test_a_target_has_a_processor_and_a_wave_size(text: str, processor: str, wave_size: int) -> None:
    target = GfxTarget(text)
    assert str(target) == text
    assert target.processor == processor
    assert target.wave_size == wave_size


@pytest.mark.parametrize(
    "text",
    [
        "", "gfx", "1201", "GFX1201", "gfx12-01", "gfx12", "gfx12010", "gfx120g", "gfxabc", "gfx1201 ",
        "gfx1201\n", "gfx1201:", "gfx942:xnack", "gfx942,gfx950", "gfx942-generic", "--offload-arch=gfx942",
        "gfx942;rm", "gfx942:xnack-:", "$(gfx942)",
    ],
)  # fmt: skip
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a target such as 'gfx1201' or 'gfx942:xnack-', got "):
        GfxTarget(text)


@pytest.mark.parametrize("text", ["gfx942:tgsplit+", "gfx942:xnack-:sramecc+", "gfx942:xnack-:xnack+"])
def test_features_are_known_single_and_in_the_compilers_order(text: str) -> None:
    with pytest.raises(ValueError, match="expected the features sramecc and xnack, once and in this order"):
        GfxTarget(text)
