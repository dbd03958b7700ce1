"""Says at once why a point does not hold: a run over all of them is long."""

from __future__ import annotations

import signal
import sys

import pytest

# A run that nohup started ignores that its terminal is closed, and so would every program started from here.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        sys.stderr.write(f"\n{report.longreprtext}\n")
