"""What the report says and when it counts as passed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.errors import EngineError, SmokeError
from builder.smoke.contract import ComponentVersion, Contract
from builder.smoke.findings import Finding
from builder.smoke.run import NOT_RUN, SmokeReport, SmokeTest, require_passed, run_smoke
from builder.story import Silent


def one(
    outcome: str, *, tier: str = "cpu", title: str = "a thing works", finding: Finding | None = None
) -> SmokeTest:
    return SmokeTest(
        name=f"test_x::test_{title.replace(' ', '_')}", title=title, tier=tier, production="It would break.",
        hint="do something", outcome=outcome, seconds=1.0, finding=finding,
    )  # fmt: skip


def report(*tests: SmokeTest) -> SmokeReport:
    return SmokeReport(image="sglang-debian", reference="x@sha256:0", seconds=2.0, tests=tests)


def test_a_report_passes_when_the_cpu_tier_ran_and_nothing_failed() -> None:
    passing = report(one("passed"), one("skipped"), one(NOT_RUN, tier="gpu"))
    assert passing.passed
    assert passing.tiers == {"cpu": "passed", "gpu": "not run"}
    require_passed(passing)


def test_a_tier_without_a_passing_test_is_not_run_and_proves_nothing() -> None:
    empty = report(one("skipped"), one(NOT_RUN, tier="gpu"))
    assert empty.tiers == {"cpu": "not run", "gpu": "not run"}
    with pytest.raises(SmokeError, match="sglang-debian: no smoke test of the cpu tier ran, nothing is proven"):
        require_passed(empty)
    assert not report().passed


def test_a_failing_test_is_named_with_cause_evidence_consequence_and_remedy() -> None:
    finding = Finding(
        cause="the header openssl/sha.h is missing: libssl-dev is installed in base.build only",
        hint='add "libssl-dev" to base.runtime.apt',
        package="libssl-dev",
        stage="base.runtime",
        details=("hash_binding.cpp:5:10: fatal error: openssl/sha.h: No such file or directory",),
    )
    second = one("failed", title="another thing works", finding=Finding(cause="it does not"))
    failing = report(one("passed"), one("failed", title="the extension compiles", finding=finding), second)
    assert not failing.passed
    with pytest.raises(SmokeError) as raised:
        require_passed(failing)
    assert raised.value.exit_code == 6
    assert raised.value.message == (
        "sglang-debian: smoke test 'the extension compiles' failed: the header openssl/sha.h is missing: "
        "libssl-dev is installed in base.build only"
    )
    assert raised.value.hint == 'add "libssl-dev" to base.runtime.apt'
    assert raised.value.details == (
        "hash_binding.cpp:5:10: fatal error: openssl/sha.h: No such file or directory",
        "in production: It would break.",
        "also failed: another thing works: it does not",
    )


def test_a_finding_without_a_remedy_falls_back_on_the_tests_own() -> None:
    with pytest.raises(SmokeError) as raised:
        require_passed(report(one("failed", finding=Finding(cause="it does not"))))
    assert raised.value.hint == "do something"


def test_a_failure_of_another_tier_counts_too() -> None:
    assert not report(one("passed"), one("failed", tier="gpu")).passed


def test_the_json_of_a_report_has_sorted_keys_and_the_verdict() -> None:
    text = report(one("passed")).to_json()
    told = json.loads(text)
    assert text == json.dumps(told, indent=2, sort_keys=True) + "\n"
    assert told["passed"] is True
    assert told["tiers"] == {"cpu": "passed", "gpu": "not run"}


def test_the_summary_of_two_runs_is_the_same_whatever_they_took() -> None:
    quick, slow = (
        SmokeReport(image="a", reference="b", seconds=seconds, tests=(one("passed"),)) for seconds in (1.0, 2.0)
    )
    assert quick.summary() == slow.summary()
    assert quick.summary()["tests"] == {"test_x::test_a_thing_works": "passed"}


def test_without_the_docker_command_nothing_is_said_about_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="the program 'docker' is not on this machine"):
        run_smoke("x", Contract(image="x"), results=tmp_path, story=Silent())
    assert list(tmp_path.iterdir()) == []


def test_without_an_engine_nothing_is_said_about_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(EngineError):
        run_smoke("x", Contract(image="x"), results=tmp_path / "results", story=Silent())
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("component", "found", "fits"),
    [
        (ComponentVersion(name="triton", version="3.6.0", distribution="triton"), "3.6.0", True),
        (ComponentVersion(name="triton", version="3.6.0", distribution="triton"), "3.7.1", False),
        (ComponentVersion(name="torch", version="2.12.0", distribution="torch"), "2.12.0+cu130", False),
        (
            ComponentVersion(name="torch", version="2.6.0", distribution="torch", apt="python3-torch"),
            "2.6.0+debian",
            True,
        ),
        (
            ComponentVersion(name="torch", version="2.6.0", distribution="torch", apt="python3-torch"),
            "2.6.0+cu124",
            False,
        ),
        (ComponentVersion(name="torch", version="2.6.0", apt="python3-torch"), "2.6.0+dfsg-7", True),
        (ComponentVersion(name="hipcc", version="5.7.1", apt="hipcc"), "5.7.1-6+deb13u1", True),
        (
            ComponentVersion(name="hipcc", version="7.2.4", distribution="hipcc", apt="hipcc"),
            "7.2.4+dfsg-1~exp1",
            True,
        ),
        (
            ComponentVersion(name="clang", version="17.0.6", distribution="clang", apt="clang-17"),
            "1:17.0.6-22",
            True,
        ),
        (ComponentVersion(name="hipcc", version="5.7.1-6+deb13u1", apt="hipcc"), "5.7.1-6+deb13u1", True),
        (ComponentVersion(name="hipcc", version="5.7", apt="hipcc"), "5.7.1-6+deb13u1", False),
        (ComponentVersion(name="clang", version="17.0.6", apt="clang-17"), "1:17.0.6-22+b2", True),
    ],
)
def test_a_pin_is_exact_but_for_what_debian_adds(component: ComponentVersion, found: str, fits: bool) -> None:
    assert component.is_pinned_at(found) is fits
