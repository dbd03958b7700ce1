"""Says of the signatures of an image what cosign finds, and what can be said where nobody names whose count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from builder.mirrors import Mirrors
from builder.reference import ImageReference, parse_reference
from builder.supply import signing
from builder.supply.agreements import same_predicate
from builder.supply.signing import NotSigned, Trusted, Undecided
from builder.supply.verdicts import Findings


def attested(subject: ImageReference, trusted: Trusted, *, mirrors: Mirrors) -> tuple[dict[str, Any], ...]:
    """Return the statements on an image's provenance that who is `trusted` signed. Raises as `signing` does."""
    return signing.attested(parse_reference(mirrors.registry(str(subject))), trusted, mirrors=mirrors)


def signatures(
    subject: ImageReference,
    trusted: Trusted,
    statement: Mapping[str, Any] | None,
    *,
    mirrors: Mirrors,
    findings: Findings,
) -> None:
    """Say whether an image is signed by whom is `trusted`, and `statement`, its provenance, attested by them."""
    asked = parse_reference(mirrors.registry(str(subject)))
    try:
        signing.verify(asked, trusted, mirrors=mirrors)
        findings.say("signature", "passed", f"signed by {trusted}")
    except NotSigned as error:
        findings.say("signature", "failed", str(error))
    except Undecided as error:
        findings.leave_open("signature", f"cosign could not find out: {error}")
    try:
        signed = attested(subject, trusted, mirrors=mirrors)
    except NotSigned as error:
        findings.say("attestation", "failed", str(error))
        return
    except Undecided as error:
        findings.leave_open("attestation", f"cosign could not find out: {error}")
        return
    if statement is None:
        findings.say("attestation", "failed", "there is no provenance that it could be of")
    elif any(same_predicate(each, statement) for each in signed):
        findings.say(
            "attestation", "passed", f"the provenance is signed by {trusted}, and names the record by hash"
        )
    else:
        findings.say("attestation", "failed", f"{trusted} signed another provenance than the one beside the image")


def presence(
    subject: ImageReference, signed: str | None, *, is_there: Callable[[str], bool], findings: Findings
) -> None:
    """Say what can be said of signatures when nobody says whose count.

    `signed` is what the record says: by a key, keyless, or not. `is_there` tells whether a tag is.
    """
    tags = zip(signing.signature_tags(subject), ("signature", "attestation"), strict=True)
    missing = [what for tag, what in tags if not is_there(tag)]
    keyless = signed == signing.KEYLESS
    if signed and missing:
        how = "by an identity" if keyless else "with a key"
        findings.say(
            "signature",
            "failed",
            f"the record says that it is signed {how}; there is no {' and no '.join(missing)}",
        )
    elif signed:
        how = "--identity and --issuer say whose counts" if keyless else "--key says whose counts"
        findings.say("signature", "not checked", f"there is one; {how}")
    elif len(missing) < len(("signature", "attestation")):
        findings.say(
            "signature", "not checked", "there is one that the record does not tell of; --key says whose counts"
        )
    else:
        findings.say("signature", "not checked", "the image was not signed")
