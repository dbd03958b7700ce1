"""Every point of the table holds. Not part of the check: `python -m tests.faults` runs it and writes the page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .faults import FAULTS, REMEDIES, STAGES
from .page import keep
from .rig import Rig, rig
from .survive import survive
from .table import BY_ID, POINTS, Point

pytestmark = pytest.mark.engine

_CHOSEN = os.environ.get("ROCM_IMAGES_FAULTS", "").splitlines()


@pytest.fixture(scope="session")
def own_rig() -> Iterator[Rig]:
    folder = Path(tempfile.mkdtemp(prefix="rocm-images-faults.", dir=os.environ.get("ROCM_IMAGES_FAULTS_FOLDER")))
    with rig(folder) as running:
        yield running


@pytest.mark.parametrize("point", [BY_ID[name] for name in _CHOSEN] or POINTS, ids=lambda point: point.id)
def test_nothing_is_lost_and_the_next_run_succeeds(point: Point, own_rig: Rig) -> None:
    fault = FAULTS[point.fault]
    result = survive(
        point, own_rig, fault=fault, stage=STAGES[point.moment] if fault.during else None,
        remedy=REMEDIES[point.remedy] if point.remedy else None,
    )  # fmt: skip
    keep(result)
