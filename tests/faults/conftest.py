"""Says at once why a point does not hold: a run over all of them is long."""

from __future__ import annotations

import sys

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        sys.stderr.write(f"\n{report.longreprtext}\n")
