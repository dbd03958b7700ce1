"""Signs images and their provenance with cosign, and lets it verify both. Knows cosign's words, not what follows.

A key is named as cosign takes it: a file, a key management service, a Kubernetes secret, `env://NAME`. Its
password is in COSIGN_PASSWORD and nowhere else: no command line and no log has it. Keys are used without the
transparency log unless that is asked for: it is public, and it is not there offline. Without a key, an identity
provider vouches for whoever signs, and the log is part of what makes that count.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import foreign, process
from builder.errors import EngineError, PublishError, RecipeError
from builder.host import packages, programs
from builder.mirrors import Mirrors
from builder.reference import ImageReference
from builder.story import Story
from builder.supply.provenance import PREDICATE

KEYLESS = "keyless"
PASSWORD = "COSIGN_PASSWORD"  # noqa: S105 -- the name of the variable
_TYPE = "slsaprovenance1"  # cosign's word for the predicate
_NONE, _NO_MATCH = 10, 12  # exit codes of `cosign verify`: no signature at all, none by this key or identity
# How cosign reaches keys in the cloud, and the identity of a CI's run. Nobody else is started with these.
_PASSED_ON = (
    "COSIGN_", "SIGSTORE_", "ACTIONS_ID_TOKEN_REQUEST_", "AWS_", "AZURE_", "GOOGLE_", "VAULT_", "TUF_ROOT",
    "KUBECONFIG",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """Who signs: a key, or without one whoever the identity provider says. `log`: into the transparency log."""

    key: str | None
    log: bool

    @property
    def kind(self) -> str:
        """How records call it."""
        return KEYLESS if self.key is None else "key"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trusted:
    """Whose signatures count: a public key's, or those of an identity that an issuer vouches for."""

    key: str | None = None
    identity: str | None = None
    issuer: str | None = None
    log: bool = False

    def __str__(self) -> str:
        return f"the key {self.key}" if self.key is not None else f"{self.identity} of {self.issuer}"


class NotSigned(Exception):
    """There is no signature, or none that counts; the words say which."""


class Undecided(Exception):
    """cosign could not find out."""


def signer(word: str, *, log: bool) -> Signer:
    """Return who signs, by the word of the command line: a key as cosign takes it, or `keyless`."""
    return Signer(key=None, log=True) if word == KEYLESS else Signer(key=word, log=log)


def require_ready(who: Signer) -> None:
    """Raise `EngineError` or `RecipeError` for a signer that could not sign, before anything is built for it."""
    require_cosign()
    if who.key is None:
        return
    is_file = "://" not in who.key
    if is_file and not Path(who.key).is_file():
        raise RecipeError(f"--sign: there is no key {who.key}", hint="cosign generate-key-pair")
    if is_file and PASSWORD not in os.environ:
        raise RecipeError(
            f"--sign: the password of {who.key} is not in the variable {PASSWORD}",
            hint=f"set {PASSWORD}, to the empty text for a key without a password",
        )
    done = _cosign(["public-key", "--key", who.key], keys=[who.key])
    if done.status != 0:
        raise RecipeError(f"--sign: the key {who.key} cannot be used", details=_words(done))


def require_cosign() -> None:
    """Raise `EngineError` when cosign is not on this machine."""
    if programs.find("cosign") is None:
        raise EngineError(
            f"cosign is not on this machine; it is needed to {packages.COSIGN.purpose}",
            hint="rocm-images install --signing",
        )


def sign(subject: ImageReference, statement: bytes, who: Signer, *, mirrors: Mirrors, story: Story) -> None:
    """Sign the image `subject`, by digest, and attest the provenance that is in `statement`.

    What was attested of it before is replaced. Raises `PublishError`.
    """
    key = ["--key", who.key] if who.key is not None else []
    how = ["--yes", *_plain(subject, mirrors), *key, f"--tlog-upload={'true' if who.log else 'false'}"]
    keys = [who.key] if who.key is not None else []
    with story.step(f"signing {subject}"), tempfile.TemporaryDirectory(prefix="rocm-images-sign.") as folder:
        predicate = Path(folder) / "predicate.json"
        predicate.write_text(json.dumps(foreign.loads(statement)["predicate"]), encoding="utf-8")
        for argv in (
            ["sign", *how, str(_place(subject))],
            ["attest", *how, "--replace", "--type", _TYPE, "--predicate", str(predicate), str(_place(subject))],
        ):
            done = _cosign(argv, keys=keys, mirrors=mirrors)
            if done.status != 0:
                raise PublishError(
                    f"{subject}: cosign could not {argv[0]} it", details=_words(done),
                    hint="sign where runs have an identity, or with a key" if who.key is None else None,
                )  # fmt: skip


def is_signed(subject: ImageReference, who: Signer, *, mirrors: Mirrors) -> bool:
    """Tell whether an image has a signature and an attestation by the key of `who`. Nobody can tell it keyless."""
    if who.key is None:
        return False
    public = _cosign(["public-key", "--key", who.key], keys=[who.key])
    with tempfile.TemporaryDirectory(prefix="rocm-images-sign.") as folder:
        key = Path(folder) / "key.pub"
        key.write_text(public.stdout, encoding="utf-8")
        try:
            verify(subject, Trusted(key=str(key), log=who.log), mirrors=mirrors)
            return bool(attested(subject, Trusted(key=str(key), log=who.log), mirrors=mirrors))
        except (NotSigned, Undecided):
            return False


def verify(subject: ImageReference, whom: Trusted, *, mirrors: Mirrors) -> None:
    """Have cosign verify the signature of an image. Raises `NotSigned` or `Undecided`."""
    done = _cosign(
        ["verify", *_plain(subject, mirrors), *_whom(whom), str(_place(subject))],
        keys=_keys(whom),
        mirrors=mirrors,
    )
    if done.status == 0:
        return
    words = "; ".join(_words(done)[-1:])
    if done.status == _NONE:
        raise NotSigned("there is no signature")
    if done.status == _NO_MATCH:
        raise NotSigned(f"there is no signature by {whom}: {words}")
    raise Undecided(words)


def attested(subject: ImageReference, whom: Trusted, *, mirrors: Mirrors) -> tuple[dict[str, Any], ...]:
    """Return the statements on the provenance of an image whose signatures cosign finds good.

    Raises `NotSigned` where there is none, `Undecided`.
    """
    how = [*_plain(subject, mirrors), *_whom(whom), "--type", _TYPE]
    argv = ["verify-attestation", *how, str(_place(subject))]
    done = _cosign(argv, keys=_keys(whom), mirrors=mirrors)
    words = "; ".join(_words(done)[-1:])
    if done.status != 0 and "no matching attestations" in words:
        raise NotSigned(f"there is no attestation by {whom}")
    if done.status != 0:
        raise Undecided(words)
    found = []
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            statement = foreign.loads(base64.b64decode(foreign.loads(line)["payload"]))
            if statement.get("predicateType") == PREDICATE:
                found.append(statement)
    return tuple(found)


def signature_tags(subject: ImageReference) -> tuple[str, str]:
    """Return the tags that cosign keeps signatures and attestations of an image under."""
    named = f"sha256-{subject.digest.hex if subject.digest else ''}"
    return f"{named}.sig", f"{named}.att"


def _whom(whom: Trusted) -> list[str]:
    if whom.key is not None:
        return ["--key", whom.key, f"--insecure-ignore-tlog={'false' if whom.log else 'true'}"]
    return [f"--certificate-identity={whom.identity}", f"--certificate-oidc-issuer={whom.issuer}"]


def _keys(whom: Trusted) -> list[str]:
    return [whom.key] if whom.key is not None else []


def _place(subject: ImageReference) -> ImageReference:
    """Return the reference without its tag: cosign is to look at the digest alone."""
    return subject.at(digest=subject.digest)


def _plain(subject: ImageReference, mirrors: Mirrors) -> list[str]:
    """Return how cosign is told of a registry without TLS."""
    return ["--allow-http-registry"] if mirrors.is_plain(subject.host) else []


def _cosign(argv: Sequence[str], *, keys: Sequence[str], mirrors: Mirrors | None = None) -> process.Completed:
    return process.run([programs.find("cosign") or "cosign", *argv], env=_environment(keys, mirrors))


def _environment(keys: Sequence[str], mirrors: Mirrors | None) -> Mapping[str, str]:
    named = {key.removeprefix("env://") for key in keys if key.startswith("env://")}
    passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON) or name in named}
    bundle = mirrors.ca_bundle() if mirrors is not None else None
    return passed | ({"SSL_CERT_FILE": str(bundle)} if bundle is not None else {})


def _words(done: process.Completed) -> tuple[str, ...]:
    """Return what cosign said went wrong; it says everything twice, and warns of what it was told to do."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    return tuple(errors or lines[-3:])
