"""What several files of the suite ask an image for; each is asked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from builder.smoke import distributions
from builder.smoke.contract import Contract
from builder.smoke.judging import Problem, require_none
from builder.smoke.probing import Probe
from builder.smoke.recorder import FIGURES

Judge = Callable[[str, Iterable[Problem]], None]


@pytest.fixture(scope="session")
def python(shared_probe: Probe, contract: Contract) -> dict[str, Any]:
    """Ask the image what is installed, and compare every file with its record."""
    packages = sorted(set(contract.python_set.debian.values())) if contract.python_set is not None else []
    return shared_probe("python_set", packages=packages)


@pytest.fixture
def judge(python: dict[str, Any], contract: Contract, request: pytest.FixtureRequest) -> Judge:
    """Return what fails for problems that the recipe does not accept, and records those that it does."""

    def judged(finding: str, problems: Iterable[Problem]) -> None:
        excused = require_none(finding, list(problems), contract.accepted, distributions.versions(python))
        if excused:
            request.node.stash.setdefault(FIGURES, {})["accepted"] = excused

    return judged
