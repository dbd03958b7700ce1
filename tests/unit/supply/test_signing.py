"""How cosign is called, with which words and variables, and what it means. A program here stands in for it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from builder.errors import EngineError, PublishError, RecipeError
from builder.mirrors import load_mirrors
from builder.reference import Digest, ImageReference, LayoutReference
from builder.story import Silent
from builder.supply import signing
from builder.supply.accompany import require_signable
from builder.supply.signing import NotSigned, Signer, Trusted, Undecided, signer

SUBJECT = ImageReference(
    host="registry.example.org", path="llm/tiny", tag="1", digest=Digest("sha256:" + "d" * 64)
)
PLACE = f"registry.example.org/llm/tiny@sha256:{'d' * 64}"
STATEMENT = json.dumps({"predicateType": "https://slsa.dev/provenance/v1", "predicate": {"a": 1}}).encode()
PASSWORD = "s3cr3t"
# Writes down what it was started with, and answers what it is told to.
PROGRAM = """#!/bin/sh
here=$(dirname "$0")
echo "$@" >>"$here/words"
env | sort >"$here/variables"
for word in "$@"; do case $word in *predicate.json) cp "$word" "$here/predicate" ;; esac; done
cat "$here/out" 2>/dev/null
cat "$here/err" >&2 2>/dev/null
exit "$(cat "$here/status" 2>/dev/null || echo 0)"
"""


class Cosign:
    """The program in place of cosign: what it was called with, and what it is to answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def calls(self) -> list[str]:
        return (self.folder / "words").read_text().splitlines()

    @property
    def variables(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.folder / "variables").read_text().splitlines())

    def answers(self, status: int = 0, *, out: str = "", err: str = "") -> None:
        for name, text in (("status", str(status)), ("out", out), ("err", err)):
            (self.folder / name).write_text(text)


@pytest.fixture
def cosign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cosign:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cosign").write_text(PROGRAM)
    (folder / "cosign").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("COSIGN_PASSWORD", PASSWORD)
    monkeypatch.setenv("UNRELATED", "nobody's business")
    return Cosign(folder)


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "cosign.key"
    path.write_text("a key")
    return str(path)


def sign(who: Signer, tmp_path: Path) -> None:
    signing.sign(SUBJECT, STATEMENT, who, mirrors=load_mirrors(tmp_path), story=Silent())


def test_a_key_signs_digest_and_provenance_without_the_log(cosign: Cosign, key: str, tmp_path: Path) -> None:
    sign(signer(key, log=False), tmp_path)
    first, second = cosign.calls
    assert first == f"sign --yes --key {key} --tlog-upload=false {PLACE}"
    assert second.startswith(
        f"attest --yes --key {key} --tlog-upload=false --replace --type slsaprovenance1 --predicate /"
    )
    assert second.endswith(f"/predicate.json {PLACE}")
    assert json.loads((cosign.folder / "predicate").read_text()) == {"a": 1}


def test_a_key_signs_into_the_log_where_that_is_asked_for(cosign: Cosign, key: str, tmp_path: Path) -> None:
    sign(signer(key, log=True), tmp_path)
    assert all("--tlog-upload=true" in call for call in cosign.calls)


def test_a_registry_without_tls_is_one_for_cosign_as_well(cosign: Cosign, key: str, tmp_path: Path) -> None:
    (tmp_path / "mirrors.toml").write_text('plain-http = ["registry.example.org"]\n')
    sign(signer(key, log=False), tmp_path)
    signing.verify(SUBJECT, Trusted(key="k.pub"), mirrors=load_mirrors(tmp_path))
    assert ["--allow-http-registry" in call for call in cosign.calls] == [True, True, True]


def test_keyless_names_no_key_and_always_uses_the_log(
    cosign: Cosign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", "https://ci.example.org/token")
    sign(signer("keyless", log=False), tmp_path)
    assert cosign.calls[0] == f"sign --yes --tlog-upload=true {PLACE}"
    assert not any("--key" in call for call in cosign.calls)
    assert cosign.variables["ACTIONS_ID_TOKEN_REQUEST_URL"] == "https://ci.example.org/token"
    assert signer("keyless", log=False).kind == "keyless"


def test_the_password_is_in_the_environment_of_cosign_and_nowhere_else(
    cosign: Cosign, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING_KEY", "the key itself")
    monkeypatch.setenv("OTHER_KEY", "another")
    sign(signer("env://SIGNING_KEY", log=False), tmp_path)
    assert cosign.variables["COSIGN_PASSWORD"] == PASSWORD
    assert cosign.variables["SIGNING_KEY"] == "the key itself"
    assert cosign.variables.keys().isdisjoint({"UNRELATED", "OTHER_KEY"})
    assert not any(PASSWORD in call or "the key itself" in call for call in cosign.calls)


def test_what_cosign_says_is_the_evidence_of_a_failure(cosign: Cosign, key: str, tmp_path: Path) -> None:
    cosign.answers(1, err="WARNING: a\nError: denied\nerror during command execution: denied\n")
    with pytest.raises(PublishError, match=f"{PLACE.partition('@')[0]}.*: cosign could not sign it") as caught:
        sign(signer(key, log=False), tmp_path)
    assert caught.value.details == ("denied",)


@pytest.mark.parametrize(
    ("trusted", "words"),
    [
        (Trusted(key="k.pub"), "--key k.pub --insecure-ignore-tlog=true"),
        (Trusted(key="k.pub", log=True), "--key k.pub --insecure-ignore-tlog=false"),
        (
            Trusted(identity="https://ci.example.org/x", issuer="https://id.example.org", log=True),
            "--certificate-identity=https://ci.example.org/x --certificate-oidc-issuer=https://id.example.org",
        ),
    ],
)
def test_verification_names_whom_it_trusts(cosign: Cosign, trusted: Trusted, words: str, tmp_path: Path) -> None:
    statement = {"predicateType": "https://slsa.dev/provenance/v1", "predicate": {"a": 1}}
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    other = base64.b64encode(b'{"predicateType": "https://example.org/other"}').decode()
    cosign.answers(out="\n".join(json.dumps({"payload": each}) for each in (payload, other)) + "\n")
    mirrors = load_mirrors(tmp_path)
    signing.verify(SUBJECT, trusted, mirrors=mirrors)
    assert signing.attested(SUBJECT, trusted, mirrors=mirrors) == (statement,)
    assert cosign.calls == [
        f"verify {words} {PLACE}", f"verify-attestation {words} --type slsaprovenance1 {PLACE}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "err", "raised", "told"),
    [
        (10, "Error: no signatures found\n", NotSigned, "there is no signature"),
        (12, "Error: no matching signatures: invalid\n", NotSigned, "there is no signature by the key k.pub"),
        (1, "Error: getting Rekor public keys: no such host\n", Undecided, "no such host"),
    ],
)
def test_no_signature_and_no_answer_are_told_apart(
    cosign: Cosign, tmp_path: Path, status: int, err: str, raised: type[Exception], told: str
) -> None:
    cosign.answers(status, err=err)
    with pytest.raises(raised, match=told):
        signing.verify(SUBJECT, Trusted(key="k.pub"), mirrors=load_mirrors(tmp_path))


def test_no_attestation_and_no_answer_are_told_apart(cosign: Cosign, tmp_path: Path) -> None:
    for err, raised in (("no matching attestations: ", NotSigned), ("connection refused", Undecided)):
        cosign.answers(1, err=f"Error: {err}\n")
        with pytest.raises(raised):
            signing.attested(SUBJECT, Trusted(key="k.pub"), mirrors=load_mirrors(tmp_path))


def test_a_signer_is_tried_before_anything_is_built(
    cosign: Cosign, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_signable(signer(key, log=False), SUBJECT.at())
    assert cosign.calls == [f"public-key --key {key}"]
    cosign.answers(1, err="Error: decrypt: encrypted: decryption failed\n")
    with pytest.raises(RecipeError, match=r"cannot be used") as caught:
        require_signable(signer(key, log=False), SUBJECT.at())
    assert caught.value.details == ("decrypt: encrypted: decryption failed",)
    monkeypatch.delenv("COSIGN_PASSWORD")
    with pytest.raises(RecipeError, match=r"the password of .* is not in the variable COSIGN_PASSWORD"):
        require_signable(signer(key, log=False), SUBJECT.at())
    with pytest.raises(RecipeError, match=r"there is no key nowhere\.key"):
        require_signable(signer("nowhere.key", log=False), SUBJECT.at())


def test_what_cosign_cannot_sign_is_refused_and_nothing_is_asked_for_without_a_signer(cosign: Cosign) -> None:
    require_signable(None, None)
    for target, told in (
        (None, "nothing is published"),
        (LayoutReference(folder="x"), "oci:x is an image layout"),
    ):
        with pytest.raises(RecipeError, match=told):
            require_signable(signer("keyless", log=False), target)


def test_without_cosign_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("builder.host.programs._SYSTEM_FOLDERS", ())
    with pytest.raises(EngineError, match="cosign is not on this machine") as caught:
        require_signable(signer("keyless", log=False), SUBJECT.at())
    assert caught.value.hint == "rocm-images install --signing"
