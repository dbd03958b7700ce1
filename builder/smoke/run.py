"""Runs the smoke suite on an image in a process of its own and tells what came of it.

The suite ends with this call: an interrupt stops it, and no container of it stays. A suite that could not run
is an error and never a pass.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

import builder
from builder import process
from builder.engine import containers
from builder.engine.cards import Card
from builder.errors import EngineError, SmokeError
from builder.pace import Pace
from builder.smoke.contract import Contract
from builder.smoke.findings import Finding
from builder.smoke.recorder import PROGRESS
from builder.story import Reached, Story
from builder.visible import as_shown
from builder.workspace import write_atomic

TIERS = ("cpu", "gpu")
NOT_RUN = "not run"
NO_CARD = "no GPU was handed to the tests"
_ALL = "all tests"
# Nothing of the user's pytest may join in, and nothing is written beside the installed package.
_SETTINGS = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": str(Path(builder.__file__).parents[1]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeTest:
    """One test: what it is called, what would break in production, and what came of it.

    `outcome` is passed, failed, skipped or "not run"; `finding` tells why where it is not passed. `figures`
    are what its probes measured, by probe.
    """

    name: str
    title: str
    tier: str
    production: str
    hint: str | None
    outcome: str
    seconds: float
    finding: Finding | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeReport:
    """What the suite found out about one image. `image` is the name, `reference` what was tested."""

    image: str
    reference: str
    seconds: float
    tests: tuple[SmokeTest, ...]

    @property
    def tiers(self) -> Mapping[str, str]:
        """Per tier: passed, failed, or "not run"."""
        return {tier: self._outcome(tier) for tier in TIERS}

    @property
    def passed(self) -> bool:
        """Whether the cpu tier ran and no test of any tier failed."""
        return self.tiers["cpu"] == "passed" and "failed" not in self.tiers.values()

    @property
    def failed(self) -> tuple[SmokeTest, ...]:
        """The tests that failed, in the order they ran."""
        return tuple(test for test in self.tests if test.outcome == "failed")

    def summary(self) -> dict[str, object]:
        """Return what a record keeps: the outcome per tier and per test, and nothing that time or load moves."""
        return {"tiers": dict(self.tiers), "tests": {test.name: test.outcome for test in self.tests}}

    def to_json(self) -> str:
        """Return the report as a JSON document with sorted keys and tests in the order they ran."""
        told = asdict(self) | {"passed": self.passed, "tiers": dict(self.tiers)}
        return json.dumps(told, indent=2, sort_keys=True) + "\n"

    def to_text(self) -> str:
        """Return the report for people: a line for every test, and the reason below what did not pass."""
        lines = []
        for test in self.tests:
            lines.append(f"{test.outcome:7} {test.seconds:6.1f} s  {test.title}")
            if test.finding is not None:
                lines.append(f"{'':18}{test.finding.cause}")
        tiers = ", ".join(f"{tier} tier {outcome}" for tier, outcome in self.tiers.items())
        return "\n".join([*lines, f"{self.image}: {tiers}, {self.seconds:.1f} s"]) + "\n"

    def _outcome(self, tier: str) -> str:
        outcomes = {test.outcome for test in self.tests if test.tier == tier}
        return next((outcome for outcome in ("failed", "passed") if outcome in outcomes), NOT_RUN)


def run_smoke(
    image: str,
    contract: Contract,
    *,
    results: Path,
    story: Story,
    extra_tests: Path | None = None,
    card: Card | str = NO_CARD,
) -> SmokeReport:
    """Run the shipped tests, and an image's own in the folder `extra_tests`, on the image `image` refers to.

    `card` is how the host's GPU is handed to containers, or why none is: then the gpu tier is not run.

    Writes `smoke.json`, `smoke.xml` (JUnit) and `smoke.log` into the folder `results`. A test that fails is
    in the report; see `require_passed`. Raises `EngineError` when the engine is not there or goes away, and
    `SmokeError` when the tests themselves could not run.
    """
    if shutil.which("docker") is None:
        raise EngineError("the program 'docker' is not on this machine", hint="rocm-images doctor")
    containers.sweep()
    before = _seconds(results / "smoke.json")
    for stale in ("smoke.json", "smoke.xml", "smoke.log"):
        (results / stale).unlink(missing_ok=True)
    run = secrets.token_hex(8)
    begun = time.monotonic()
    try:
        with (
            story.step(f"smoke tests of {contract.image}, {_shown_tiers(card)}"),
            tempfile.TemporaryDirectory(prefix="rocm-images-smoke-") as scratch,
        ):
            record = _run_suite(image, contract, run, Path(scratch), story, results, extra_tests, card, before)
    except BaseException:
        # The suite removes its containers itself; this is for one that was killed.
        with contextlib.suppress(EngineError):
            containers.remove_all(run)
        raise
    containers.remove_all(run)
    report = _report(image, contract, record, time.monotonic() - begun)
    write_atomic(results / "smoke.json", report.to_json())
    return report


def require_passed(report: SmokeReport, *, tiers: Collection[str] = ()) -> None:
    """Raise `SmokeError` unless the report passed: the test, its innermost cause, evidence and remedy.

    A tier that is required in `tiers` must have run.
    """
    if not report.failed:
        missing = next((tier for tier in TIERS if tier in tiers and report.tiers[tier] == NOT_RUN), None)
        if report.passed and missing is None:
            return
        if not report.passed:
            raise SmokeError(f"{report.image}: no smoke test of the cpu tier ran, nothing is proven")
        raise tier_not_run(report.image, str(missing), _why_not_run(report, str(missing)))
    first = report.failed[0]
    finding = first.finding or Finding(cause="no cause was recorded")
    others = [
        f"also failed: {test.title}" + (f": {test.finding.cause}" if test.finding else "")
        for test in report.failed[1:]
    ]
    raise SmokeError(
        f"{report.image}: smoke test '{first.title}' failed: {finding.cause}",
        hint=finding.hint or first.hint,
        details=(*finding.details, f"in production: {first.production}", *others),
    )


def tier_not_run(image: str, tier: str, why: str) -> SmokeError:
    """Return the failure for a tier that is required and cannot be, or was not, run."""
    return SmokeError(
        f"{image}: the {tier} tier of the smoke tests is required and was not run: {why}",
        hint="rocm-images doctor --gpu; or leave out --require gpu",
    )


def _why_not_run(report: SmokeReport, tier: str) -> str:
    reasons = (test.finding.cause for test in report.tests if test.tier == tier and test.finding is not None)
    return next(reasons, "it has no tests for this image")


def _shown_tiers(card: Card | str) -> str:
    return "cpu tier" if isinstance(card, str) else "cpu and gpu tier"


def _run_suite(
    image: str,
    contract: Contract,
    run: str,
    scratch: Path,
    story: Story,
    results: Path,
    extra_tests: Path | None,
    card: Card | str,
    before: Mapping[str, float],
) -> dict[str, Any]:
    contract_file, record_file, junit_file = (
        scratch / name for name in ("contract.json", "record.json", "junit.xml")
    )
    write_atomic(contract_file, contract.to_json())

    pace, count, over = Pace(before), 0, 0
    pace.begin(_ALL)
    story.follow(lambda: Reached(words=f"{over} of {count} tests" if count else "", share=pace.share))

    def tell(line: str) -> None:
        nonlocal count, over
        if line.startswith(PROGRESS):
            test = json.loads(line.removeprefix(PROGRESS))
            if "tests" in test:
                count = test["tests"]
                return
            over += 1
            if test["outcome"] != NOT_RUN:
                story.note(f"{test['outcome']:7} {test['seconds']:5.1f} s  {test['title']}")

    with as_file(files("builder.smoke") / "suite") as suite:
        done = process.run(
            [
                sys.executable, "-P", "-m", "pytest",
                "-p", "no:cacheprovider", "-p", "builder.smoke.plugin",
                "-c", suite / "pytest.ini", "--rootdir", suite, "-o", f"junit_suite_name={contract.image}",
                "--image", image, "--contract", contract_file, "--run-id", run, "--record", record_file,
                *(["--no-card", card] if isinstance(card, str) else ["--card", json.dumps(asdict(card))]),
                "--junitxml", junit_file, "-ra", "--color=no",
                suite, *([extra_tests.resolve()] if extra_tests is not None else []),
            ],
            cwd=scratch,
            env=_SETTINGS,
            on_line=tell,
        )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if not line.startswith(PROGRESS)]
    write_atomic(results / "smoke.log", as_shown(done.stdout + "\n".join(lines)))
    record: dict[str, Any] = json.loads(record_file.read_text(encoding="utf-8")) if record_file.exists() else {}
    _require_run(contract, record, done)
    write_atomic(results / "smoke.xml", junit_file.read_bytes())
    return record


def _seconds(report: Path) -> dict[str, float]:
    """Return what all tests together took, by the report of an earlier run; nothing without one."""
    try:
        return {_ALL: float(json.loads(report.read_text(encoding="utf-8"))["seconds"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _require_run(contract: Contract, record: dict[str, Any], done: process.Completed) -> None:
    """Raise unless every test that was collected was run to its end."""
    if broken := record.get("broken"):
        raise EngineError(
            f"{contract.image}: the smoke tests could not run: {broken['message']}",
            hint=broken["hint"],
            details=tuple(broken["details"]),
        )
    if uncollected := record.get("uncollected"):
        first = uncollected[0]
        raise SmokeError(
            f"{contract.image}: the tests in {first['name']} cannot be loaded",
            hint="correct that file",
            details=tuple(first["details"]),
        )
    if done.status == pytest.ExitCode.NO_TESTS_COLLECTED or (record and not record["tests"]):
        raise SmokeError(f"{contract.image}: there is no smoke test to run, nothing is proven")
    if done.full_disk and not record:
        raise EngineError(
            f"{contract.image}: the smoke tests could not run: {process.FULL}", details=done.tail[-1:],
            hint=f"df -h {tempfile.gettempdir()}",
        )  # fmt: skip
    if done.status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or not record:
        raise SmokeError(
            f"{contract.image}: the smoke tests did not run to their end (pytest status {done.status})",
            hint="see smoke.log beside the results",
            details=done.tail,
        )


def _report(image: str, contract: Contract, record: dict[str, Any], seconds: float) -> SmokeReport:
    tests = tuple(_test(told) for told in record["tests"])
    return SmokeReport(image=contract.image, reference=image, seconds=round(seconds, 3), tests=tests)


def _test(told: dict[str, Any]) -> SmokeTest:
    finding = told["finding"]
    if finding is not None:
        finding = Finding(**(finding | {"details": tuple(finding["details"])}))
    return SmokeTest(**(told | {"finding": finding}))
