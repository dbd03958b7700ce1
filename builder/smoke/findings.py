"""What a smoke test says about an image that is not fit: values, and the assertion that carries them."""

from __future__ import annotations

from dataclasses import dataclass

from builder.diagnosis import Circumstances, diagnose
from builder.smoke.contract import Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Why an image is not fit: the innermost cause, what to do, who is to blame where known, and evidence."""

    cause: str
    hint: str | None = None
    package: str | None = None
    stage: str | None = None
    details: tuple[str, ...] = ()


class Unfit(AssertionError):
    """A smoke test that failed for a reason it can name."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.cause)
        self.finding = finding


def unfit(cause: str, *, hint: str | None = None, details: tuple[str, ...] = ()) -> Unfit:
    """Return the assertion to raise for a cause that needs no diagnosis."""
    return Unfit(Finding(cause=cause, hint=hint, details=details))


def circumstances(contract: Contract) -> Circumstances:
    """Return what a diagnosis may know of an image."""
    return Circumstances(
        stages=contract.packages, writable=contract.writable, env=contract.env, user=contract.user
    )


def diagnosed(evidence: str, contract: Contract, *, otherwise: str, details: tuple[str, ...] = ()) -> Finding:
    """Return what the evidence shows, or `otherwise` when it shows nothing that is known."""
    found = diagnose(evidence, circumstances(contract))
    if found is None:
        return Finding(cause=otherwise, details=details)
    return Finding(cause=found.cause, hint=found.hint, package=found.package, stage=found.stage, details=details)
