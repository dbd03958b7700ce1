"""Compatibility of an image's pins: the rules applied to the facts, and the overrides a recipe gives.

An override silences one rule for a stated reason and ends with a version. One that has ended, or that silences
nothing, is itself a finding, so that exceptions do not outlive their cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from packaging.requirements import InvalidRequirement, Requirement

from builder.facts import Facts, SeriesFact, satisfies
from builder.rules import Rule, Severity, shipped_rules

__all__ = ["Facts", "Finding", "Override", "SeriesFact", "Severity", "check"]

_WEIGHT = {"error": 0, "warning": 1, "note": 2}
_ENDING = frozenset({"==", "===", "<", "<=", "~="})
OVERRIDE = "override"


@dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """A recipe's exception from one rule. `where` is its key in the recipe, for messages.

    `until` is a requirement such as `vllm==0.28.0`: the exception lasts while the image fulfils it.
    """

    rule: str
    reason: str
    until: str
    where: str = "override"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What a rule has to say about an image. `source` is whose knowledge it is; `hint` says what to do.

    `key` of the recipe and `details`, lines of evidence, are given where a check measured them.
    """

    rule: str
    severity: Severity
    message: str
    source: str
    hint: str | None = None
    key: str = ""
    details: tuple[str, ...] = ()


def check(
    facts: Facts,
    overrides: Iterable[Override] = (),
    rules: tuple[Rule, ...] | None = None,
    *,
    measured: Mapping[str, Iterable[Finding]] | None = None,
) -> tuple[Finding, ...]:
    """Apply the rules, by default those this program comes with. Errors come first, then warnings, then notes.

    `measured` are the findings of checks that are no rules, by the name an override calls each check by.
    """
    known = shipped_rules() if rules is None else rules
    others = {name: tuple(findings) for name, findings in (measured or {}).items()}
    found = [
        Finding(
            rule=rule.id,
            severity=violation.severity,
            message=f"{facts.where}: {violation.message}",
            source=violation.source,
            hint=violation.hint,
        )
        for rule in known
        for violation in rule.violations(facts)
    ]
    found.extend(finding for findings in others.values() for finding in findings)
    accepted: dict[str, Override] = {}
    for override in overrides:
        wrong = _wrong(override, facts, {*(rule.id for rule in known), *others})
        if wrong is not None:
            found.append(_about(override, facts, "error", *wrong))
        elif not any(finding.rule == override.rule for finding in found):
            nothing = f"rule {override.rule!r} has nothing to say about this image"
            found.append(_about(override, facts, "warning", nothing, "remove the override"))
        else:
            accepted.setdefault(override.rule, override)
    weighed = (_accepted(item, accepted[item.rule]) if item.rule in accepted else item for item in found)
    return tuple(sorted(weighed, key=lambda finding: _WEIGHT[finding.severity]))


def _accepted(finding: Finding, override: Override) -> Finding:
    words = f"{finding.message}; accepted until {override.until}: {override.reason}"
    return replace(finding, severity="note", message=words, hint=None)


def _wrong(override: Override, facts: Facts, known: set[str]) -> tuple[str, str] | None:
    """Return why an override does not count, and what to do."""
    if override.rule not in known:
        return f"there is no rule {override.rule!r}", f"rules are: {', '.join(sorted(known))}"
    if not override.reason.strip():
        return "reason: expected why the rule does not apply here", "write one sentence"
    try:
        until = Requirement(override.until)
    except InvalidRequirement:
        return _no_end(override)
    if not any(specifier.operator in _ENDING for specifier in until.specifier):
        return _no_end(override)
    version = facts.version(until.name)
    if version is None:
        return f"until: this image has no {until.name}", "name a component of this image, rocm or python"
    if satisfies(version, (str(until.specifier),)) is not True:
        return (
            f"ended: it was for {override.until}, and {until.name} is {version}",
            f"remove the override of {override.rule!r}, or give a reason for {until.name} {version}",
        )
    return None


def _no_end(override: Override) -> tuple[str, str]:
    return (
        f"until: expected a version it ends with, got {override.until!r}",
        "write a requirement such as 'vllm==0.28.0'",
    )


def _about(override: Override, facts: Facts, severity: Severity, what: str, hint: str) -> Finding:
    return Finding(
        rule=OVERRIDE,
        severity=severity,
        message=f"{facts.where}: {override.where}: {what}",
        source="the recipe",
        hint=hint,
    )
