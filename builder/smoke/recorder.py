"""Records what came of every smoke test, for the process that started the suite. Part of the pytest plugin."""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from builder.errors import EngineError, Failure
from builder.smoke.findings import Finding, Unfit
from builder.workspace import write_atomic

PROGRESS = "rocm-images smoke: "
FIGURES = pytest.StashKey[dict[str, Any]]()
SECONDS = pytest.StashKey[float]()  # of a probe that ran while other tests did
NOT_RUN = pytest.StashKey[bool]()  # set where nobody can judge the image here


def describe(item: pytest.Item) -> dict[str, Any]:
    """Return a test's name, its title in words, its tier, and what would break in production.

    That is the first paragraph of the test's docstring; the marker `hint` says what to do about it.
    """
    marker = item.get_closest_marker("hint")
    documented = inspect.getdoc(getattr(item, "function", None)) or ""
    sentence = " ".join(documented.partition("\n\n")[0].split())
    bare, bracket, parameter = item.name.partition("[")
    title = bare.removeprefix("test_").replace("_", " ")
    if bracket and parameter != "none]":
        title = f"{title} ({parameter.removesuffix(']')})"
    return {
        "name": f"{item.path.stem}::{item.name}",
        "title": title,
        "tier": "gpu" if item.get_closest_marker("gpu") is not None else "cpu",
        "production": sentence or title,
        "hint": marker.args[0] if marker is not None else None,
    }


def annotate(report: pytest.TestReport, item: pytest.Item, error: BaseException | None) -> None:
    """Attach to a report what its test is about and, when it failed, why; a lost engine ends the session."""
    report.smoke = describe(item)  # type: ignore[attr-defined]
    report.figures = item.stash.get(FIGURES, {})  # type: ignore[attr-defined]
    report.not_run = NOT_RUN in item.stash  # type: ignore[attr-defined]
    if report.when == "call":
        report.duration = max(report.duration, item.stash.get(SECONDS, 0.0))
    if error is None or not report.failed:
        return
    if isinstance(error, EngineError):
        item.session.shouldstop = error.message
        told = {"message": error.message, "hint": error.hint, "details": list(error.details)}
        report.broken = told  # type: ignore[attr-defined]
    finding = _finding(error, report)
    report.finding = asdict(finding)  # type: ignore[attr-defined]
    if isinstance(error, Unfit | Failure):
        # A traceback through the suite's own code would only hide the cause.
        report.longrepr = "\n".join(filter(None, [finding.cause, *finding.details, finding.hint]))


class Recorder:
    """Collects the outcome of every test and writes it when the session ends.

    It reads reports only, so the tests may as well run in other processes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, dict[str, Any]] = {}
        self._uncollected: list[dict[str, Any]] = []
        self._broken: dict[str, Any] | None = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what could not be collected."""
        if report.failed:
            lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
            self._uncollected.append({"name": report.nodeid, "details": lines[-12:]})

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell how many tests there are."""
        sys.stderr.write(PROGRESS + json.dumps({"tests": len(session.items)}) + "\n")
        sys.stderr.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test: the worst outcome counts, the seconds add up."""
        about: dict[str, Any] = report.smoke
        known = self._tests.setdefault(
            report.nodeid, {**about, "outcome": "passed", "seconds": 0.0, "finding": None, "figures": {}}
        )
        known["figures"].update(report.figures)
        known["seconds"] = round(known["seconds"] + report.duration, 3)
        if report.failed and known["outcome"] != "failed":
            known["outcome"] = "failed"
            known["finding"] = getattr(report, "finding", None)
        elif report.skipped and known["outcome"] == "passed":
            known["outcome"] = "not run" if getattr(report, "not_run", False) else "skipped"
            known["finding"] = asdict(Finding(cause=_why_skipped(report)))
        self._broken = self._broken or getattr(report, "broken", None)
        if report.when == "teardown":
            sys.stderr.write(PROGRESS + json.dumps(known) + "\n")
            sys.stderr.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the record."""
        told = {
            "exit": int(exitstatus),
            "tests": list(self._tests.values()),
            "uncollected": self._uncollected,
            "broken": self._broken,
        }
        write_atomic(self._path, json.dumps(told, indent=2, sort_keys=True) + "\n")


def _finding(error: BaseException, report: pytest.TestReport) -> Finding:
    if isinstance(error, Unfit):
        return error.finding
    if isinstance(error, Failure):
        return Finding(cause=error.message, hint=error.hint, details=error.details)
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    cause = first if isinstance(error, AssertionError) and first else f"{type(error).__name__}: {first}"
    lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
    return Finding(cause=cause, details=tuple(lines[-20:]))


def _why_skipped(report: pytest.TestReport) -> str:
    told = report.longrepr
    return str(told[2]).removeprefix("Skipped: ") if isinstance(told, tuple) else str(told or "skipped")
