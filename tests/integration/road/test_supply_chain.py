"""A published image has valid documents beside it and a signature, and `verify` finds out when one was touched."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
import requests
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from builder.mirrors import load_mirrors
from builder.reference import ImageReference, parse_reference
from builder.registries.artifacts import Attachment
from builder.registries.referrers import attach, fetched, referrers

from ..conftest import removed_afterwards
from ..project import MANIFEST, Ended, Project, make_project

pytestmark = pytest.mark.engine

PASSWORD = "correct-horse-battery-staple"
SAID = "passed", "FAILED", "not checked"


@dataclass
class Signed:
    """The project whose image was published and signed, what that run said, and the keys."""

    project: Project
    built: Ended
    key: Path
    public: Path
    others: Path

    @property
    def reference(self) -> ImageReference:
        return parse_reference(self.built.result)

    @property
    def record(self) -> Path:
        return self.project.workspace.pin("tiny")

    def documents(self, reference: ImageReference | None = None) -> dict[str, Attachment]:
        """Return what is beside an image, by what the files are called."""
        subject, mirrors = reference or self.reference, load_mirrors(self.project.folder)
        found = [fetched(subject, each.digest, mirrors=mirrors) for each in referrers(subject, mirrors=mirrors)]
        return {each.title: each for each in found}

    def checked(self, *words: str) -> tuple[int, dict[str, str], str]:
        """Verify; return the exit code, what every check came to, and all that was said."""
        ended = self.project.run("verify", *words)
        lines = [line for line in ended.stdout.splitlines() if line.startswith(SAID)]
        states = {line[13:].split()[0]: line[:13].strip() for line in lines}
        return ended.status, states, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def signed(
    locked: Project, shared: dict[str, Path], engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Signed]:
    """The image that is published already, signed afterwards: it is not built and not tested again for that."""
    keys = tmp_path_factory.mktemp("keys")
    for name in ("own", "other"):
        subprocess.run(
            ["cosign", "generate-key-pair", "--output-key-prefix", name], cwd=keys, check=True,
            capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": str(keys), "COSIGN_PASSWORD": PASSWORD},
        )  # fmt: skip
    with removed_afterwards(engine) as projects:
        project = make_project(locked.publish, shared)
        projects.append(project)
        for name in ("images", "dist", "pins"):
            shutil.copytree(locked.workspace.root / name, project.workspace.root / name, dirs_exist_ok=True)
        project.env["COSIGN_PASSWORD"] = PASSWORD
        built = project.run(
            "--verbose", "build", "tiny", "--publish", project.publish, "--sign", str(keys / "own.key")
        )
        assert built.status == 0, built.stderr
        assert "tiny: skip" in built.stderr
        yield Signed(
            project=project, built=built, key=keys / "own.key", public=keys / "own.pub", others=keys / "other.pub"
        )


def test_both_bills_of_materials_are_valid_and_those_of_the_record(signed: Signed) -> None:
    documents = signed.documents()
    assert set(documents) == {f"tiny.{kind}.json" for kind in ("spdx", "cdx", "record", "provenance")}
    spdx, cyclonedx = documents["tiny.spdx.json"].content, documents["tiny.cdx.json"].content
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(cyclonedx.decode()) is None
    read = JsonLikeDictParser().parse(json.loads(spdx))
    assert [message.validation_message for message in validate_full_spdx_document(read)] == []

    record = json.loads(signed.record.read_text())
    assert record["sbom"] == {"spdx": _digest(spdx), "cyclonedx": _digest(cyclonedx)}
    assert documents["tiny.record.json"].content == signed.record.read_bytes()
    packages = {each["name"]: each for each in json.loads(spdx)["packages"]}
    assert packages["packaging"]["licenseDeclared"] == "Apache-2.0 OR BSD-2-Clause", "as its metadata says"
    assert packages["tiny"]["checksums"][0]["checksumValue"] == str(signed.reference.digest).partition(":")[2]
    assert "marker" in packages


def test_cosign_verifies_the_provenance_that_is_beside_the_image(signed: Signed) -> None:
    ended = subprocess.run(
        ["cosign", "verify-attestation", "--key", signed.public, "--insecure-ignore-tlog=true", "--type",
         "slsaprovenance1", str(signed.reference.at(digest=signed.reference.digest))],
        capture_output=True, check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(signed.project.folder)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    attested = json.loads(base64.b64decode(json.loads(ended.stdout)["payload"]))
    beside = json.loads(signed.documents()["tiny.provenance.json"].content)
    assert attested["predicateType"] == beside["predicateType"] == "https://slsa.dev/provenance/v1"
    assert attested["subject"][0]["digest"] == beside["subject"][0]["digest"]
    definitions = [each["predicate"]["buildDefinition"] for each in (attested, beside)]
    assert definitions[0] == definitions[1]
    lock = hashlib.sha256(signed.project.workspace.lock("tiny").read_bytes()).hexdigest()
    assert {"name": "images/tiny/recipe.lock", "digest": {"sha256": lock}} in definitions[1][
        "resolvedDependencies"
    ]


def test_everything_is_verified_and_published_once(signed: Signed) -> None:
    status, states, said = signed.checked("tiny", "--key", str(signed.public), "--deep")
    assert (status, set(states.values())) == (0, {"passed"}), said
    assert set(states) == {
        "tag", "image", "record", "contents", "sbom", "provenance", "signature", "attestation",
    }  # fmt: skip
    before = signed.documents()
    again = signed.project.build("tiny", "--sign", str(signed.key))
    assert again.result == signed.built.result
    assert "signing" not in again.stderr
    assert signed.documents() == before

    told = json.loads(signed.project.done("verify", signed.built.result, "--json").stdout)
    assert told["verified"] is True
    assert {each["name"]: each["state"] for each in told["checks"]}["signature"] == "not checked"


def test_a_key_that_did_not_sign_is_told(signed: Signed) -> None:
    status, states, said = signed.checked("tiny", "--key", str(signed.others))
    assert (status, states["signature"], states["attestation"]) == (7, "FAILED", "FAILED")
    assert "2 of 8 checks failed: signature, attestation" in said
    assert "there is no signature by the key" in said


def test_a_record_that_was_tampered_with_is_told(signed: Signed, tmp_path: Path) -> None:
    table = json.loads(signed.record.read_text())
    table["smoke"]["tiers"]["gpu"] = "passed"
    forged = tmp_path / "tiny.json"
    forged.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n")
    status, states, said = signed.checked("tiny", "--record", str(forged), "--key", str(signed.public))
    assert (status, states["record"], states["contents"]) == (7, "FAILED", "passed")
    assert f"{forged} is not the one beside the image: it differs in smoke" in said


def test_a_record_forged_beside_the_image_is_told_by_the_one_at_hand_and_by_the_signature(
    signed: Signed,
) -> None:
    copy = _copied(signed, "forged", signature=True)
    table = json.loads(signed.record.read_text())
    table["smoke"]["tiers"]["gpu"] = "passed"
    forged = json.dumps(table, indent=2, sort_keys=True).encode()
    for each in signed.documents().values():
        content = forged if "record" in each.title else each.content
        attach(copy, _with(each, content), mirrors=load_mirrors(signed.project.folder))
    status, states, said = signed.checked(str(copy), "--record", str(signed.record), "--key", str(signed.public))
    assert (status, states["record"], states["signature"]) == (7, "FAILED", "passed")
    assert "is not the one beside the image: it differs in smoke" in said
    status, states, said = signed.checked(str(copy), "--key", str(signed.public))
    assert (status, states["provenance"], states["attestation"]) == (7, "FAILED", "FAILED")
    assert "it does not name the record" in said


def test_a_tag_that_was_moved_to_another_image_is_told(signed: Signed) -> None:
    copy = _copied(signed, "moved", signature=True)
    manifest = signed.project.served("tiny", str(signed.reference.digest)).json()
    other = json.dumps({**manifest, "annotations": {"note": "another image"}}).encode()
    _put(copy, str(copy.tag), other)
    for asked in (copy, copy.at(tag=copy.tag)):
        status, states, said = signed.checked(str(asked), "--record", str(signed.record))
        assert (status, states["tag"], states["image"]) == (7, "FAILED", "passed")
        assert f"{copy.tag} names {_digest(other)}, " in said
        assert f"pins {signed.reference.digest}" in said


def test_a_signature_that_was_stripped_is_told_with_a_key_and_without(signed: Signed) -> None:
    copy = _copied(signed, "stripped", signature=False)
    for each in signed.documents().values():
        attach(copy, each, mirrors=load_mirrors(signed.project.folder))
    status, states, said = signed.checked(str(copy), "--key", str(signed.public))
    assert (status, states["signature"], states["attestation"]) == (7, "FAILED", "FAILED")
    assert "signature    there is no signature" in said
    status, states, said = signed.checked(str(copy))
    assert (status, states["signature"], states["provenance"]) == (7, "FAILED", "passed")
    assert "the record says that it is signed with a key; there is no signature and no attestation" in said


def test_keyless_signatures_that_cannot_be_looked_for_are_not_passed_over(signed: Signed) -> None:
    status, states, said = signed.checked("tiny", "--identity", "ci@example.org", "--issuer", "https://i.invalid")
    assert status in (7, 8), said
    assert states["signature"] != "passed"


@pytest.mark.parametrize(
    ("words", "env", "told"),
    [
        (["--sign", "{key}"], {}, "error: --sign: nothing is published"),
        (
            ["--publish", "oci:{folder}/layouts", "--sign", "{key}"],
            {},
            "is an image layout; cosign signs images in",
        ),
        (["--publish", "{publish}", "--sign", "nowhere.key"], {}, "error: --sign: there is no key nowhere.key"),
        (["--publish", "{publish}", "--sign", "{key}"], {"COSIGN_PASSWORD": "wrong"}, "decryption failed"),
    ],
)
def test_what_could_not_be_signed_in_the_end_is_not_begun(
    signed: Signed, words: list[str], env: dict[str, str], told: str
) -> None:
    given = {"key": signed.key, "folder": signed.project.folder, "publish": signed.project.publish}
    ended = signed.project.run("build", "tiny", *(word.format(**given) for word in words), env=env)
    assert (ended.status, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert "tiny:" not in ended.stderr.partition("error:")[0]


def test_no_secret_is_in_anything_that_was_said_or_published(signed: Signed) -> None:
    said = [path.read_bytes() for path in signed.project.folder.glob("run-*.*")]
    assert any(b"run /usr/bin/cosign sign" in text or b"cosign sign --yes" in text for text in said)
    kept = [path.read_bytes() for path in signed.project.workspace.dist.rglob("*") if path.is_file()]
    published = [each.content for each in signed.documents().values()]
    secrets = [PASSWORD.encode(), *signed.key.read_bytes().splitlines()[1:-1]]
    for text in (*said, *kept, *published, signed.record.read_bytes()):
        assert not [secret for secret in secrets if secret in text]


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _with(attachment: Attachment, content: bytes) -> Attachment:
    return Attachment(
        artifact_type=attachment.artifact_type, media_type=attachment.media_type, title=attachment.title,
        content=content, annotations=attachment.annotations,
    )  # fmt: skip


def _copied(signed: Signed, name: str, *, signature: bool) -> ImageReference:
    """Copy the image within its registry, without what refers to it; with cosign's tags or without them."""
    source = signed.reference
    target = ImageReference(
        host=source.host, path=source.path.replace("/tiny", f"-{name}/tiny"), tag=source.tag, digest=source.digest
    )
    named = f"sha256-{str(source.digest).partition(':')[2]}"
    tags = [str(source.tag), *([f"{named}.sig", f"{named}.att"] if signature else [])]
    for tag in tags:
        answer = requests.get(_url(source, f"manifests/{tag}"), headers={"Accept": MANIFEST}, timeout=30)
        answer.raise_for_status()
        table: dict[str, Any] = answer.json()
        for part in (table["config"], *table["layers"]):
            mounted = requests.post(
                _url(target, f"blobs/uploads/?mount={part['digest']}&from={source.path}"), timeout=30
            )
            assert mounted.status_code == 201, mounted.text
        _put(target, tag, answer.content)
    return target


def _put(place: ImageReference, tag: str, manifest: bytes) -> None:
    answer = requests.put(
        _url(place, f"manifests/{tag}"), data=manifest, timeout=30,
        headers={"Content-Type": json.loads(manifest)["mediaType"]},
    )  # fmt: skip
    assert answer.status_code == 201, answer.text


def _url(place: ImageReference, rest: str) -> str:
    return f"http://{place.host}/v2/{place.path}/{rest}"
