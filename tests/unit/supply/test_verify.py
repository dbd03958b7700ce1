"""What was changed after an image was published is found, and the words say what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from builder import record as records
from builder.errors import LockError
from builder.project import Prepared
from builder.reference import Digest
from builder.schema import verify_schema
from builder.supply.signing import Trusted
from builder.supply.verdicts import Verdict

from .everything import everything
from .published import TAG, Published, blob_path, published, put_image


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return everything(tmp_path_factory.mktemp("project"))


@pytest.fixture
def whole(tmp_path: Path, prepared: Prepared) -> Published:
    return published(tmp_path, prepared)


@pytest.fixture
def bare(tmp_path: Path, prepared: Prepared) -> Published:
    """The same without documents."""
    return published(tmp_path, prepared, attached=False)


def states(verdict: Verdict) -> dict[str, str]:
    return {check.name: check.state for check in verdict.checks}


def words(verdict: Verdict, name: str) -> str:
    return "\n".join(line for check in verdict.checks if check.name == name for line in check.words)


def failed(verdict: Verdict) -> set[str]:
    return {check.name for check in verdict.failed}


def test_everything_passes_as_it_was_published(whole: Published) -> None:
    verdict = whole.verdict()
    assert states(verdict) == {
        "tag": "passed", "image": "passed", "record": "passed", "contents": "passed", "sbom": "passed",
        "provenance": "passed", "signature": "not checked",
    }  # fmt: skip
    assert words(verdict, "provenance").endswith("agrees with the record and the lock at hand")
    assert "--deep reads and hashes them" in words(verdict, "image")
    assert words(whole.verdict(deep=True), "image").endswith("all read and hashed")
    assert verdict.to_plain()["verified"] is True
    jsonschema.Draft7Validator(verify_schema()).validate(verdict.to_plain())


def test_without_a_record_at_hand_the_one_beside_the_image_counts_and_it_is_said(whole: Published) -> None:
    verdict = whole.verdict(at_hand=False, lock=False)
    assert states(verdict)["record"] == "not checked"
    assert failed(verdict) == set()


def test_a_record_that_was_tampered_with_is_not_the_one_beside_the_image(whole: Published) -> None:
    smoke = {"tiers": {"cpu": "passed", "gpu": "passed"}, "tests": {}}
    verdict = whole.verdict(record=whole.record | {"smoke": smoke})
    assert failed(verdict) >= {"record"}
    assert words(verdict, "record") == ("pins/probe.json is not the one beside the image: it differs in smoke")


def test_a_record_that_was_tampered_with_beside_the_image_is_not_the_one_at_hand(bare: Published) -> None:
    forged = records.dump(bare.record | {"fingerprint": "0" * 16}).encode()
    bare.attach(record=forged)
    verdict = bare.verdict()
    assert failed(verdict) == {"record"}, "the provenance names the record at hand"
    assert words(verdict, "record").endswith("it differs in fingerprint")
    alone = bare.verdict(at_hand=False, lock=False)
    assert failed(alone) == {"contents", "provenance"}
    assert "fingerprint: the record says 0000000000000000, the image" in words(alone, "contents")
    assert "it does not name the record" in words(alone, "provenance")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"digest": "sha256:" + "0" * 64}, "digest: the record is of sha256:0000"),
        ({"content-key": "0" * 64}, "content-key: the record says 0000"),
        ({"layers": []}, "layers: the record does not have sha256:"),
        ({"version": "2.0"}, "version: the record says 2.0, the image 1.0"),
        ({"reference": "registry.example.org/llm/probe:other@sha256:" + "0" * 64, "tags": []},
         f"tag: the record is of other, not {TAG}"),
    ],
)  # fmt: skip
def test_a_record_of_another_image_does_not_agree_with_this_one(
    whole: Published, change: dict[str, Any], line: str
) -> None:
    verdict = whole.verdict(record=whole.record | change)
    assert failed(verdict) >= {"record", "contents"}
    assert line in words(verdict, "contents")


def test_a_tag_that_was_moved_to_another_image_is_told_with_both_digests(whole: Published) -> None:
    other = put_image(whole.layout, whole.prepared, "another")
    for place in (whole.place, whole.place.at(tag=TAG)):
        verdict = whole.verdict(place=place)
        assert failed(verdict) == {"tag"}, "the image that is pinned is still whole"
        assert f"{TAG} names {other.digest}, " in words(verdict, "tag")
        assert words(verdict, "tag").endswith(f"pins {whole.image.digest}")


def test_a_tag_that_was_moved_with_documents_of_its_own_is_told_by_the_record_alone(
    tmp_path: Path, whole: Published
) -> None:
    other = put_image(whole.layout, whole.prepared, "another")
    forged = dict(whole.record, digest=str(other.digest))
    verdict = whole.verdict(place=whole.place.at(tag=TAG, digest=other.digest), record=forged)
    assert failed(verdict) >= {"record", "contents"}
    assert "there is no record beside the image" in words(verdict, "record")


def test_a_document_that_is_not_the_one_of_the_record_is_told(bare: Published) -> None:
    bare.attach(cdx=b'{"components": []}')
    verdict = bare.verdict()
    assert failed(verdict) == {"sbom"}
    assert "cyclonedx: the record names sha256:" in words(verdict, "sbom")
    assert "beside the image is only sha256:" in words(verdict, "sbom")


def test_documents_that_are_gone_are_told(bare: Published) -> None:
    bare.attach(spdx=None, provenance=None)
    verdict = bare.verdict()
    assert failed(verdict) == {"sbom", "provenance"}
    assert words(verdict, "provenance") == "there is none beside the image"
    nothing = bare.verdict(at_hand=False)
    assert failed(nothing) == {"sbom", "provenance"}


def test_an_image_with_nothing_beside_it_is_not_verified(bare: Published) -> None:
    verdict = bare.verdict(at_hand=False)
    assert failed(verdict) == {"record"}
    assert states(verdict)["provenance"] == "not checked"
    assert "--record names one" in words(verdict, "record")


def statement(of: Published) -> dict[str, Any]:
    return dict(json.loads(next(each.content for each in of.attachments if "provenance" in each.title)))


def test_provenance_of_another_image_is_told(bare: Published) -> None:
    table = statement(bare)
    table["subject"][0]["digest"]["sha256"] = "0" * 64
    bare.attach(provenance=json.dumps(table).encode())
    verdict = bare.verdict()
    assert failed(verdict) == {"provenance"}
    assert f"it is about sha256:{'0' * 64}" in words(verdict, "provenance")


@pytest.mark.parametrize("lock", [True, False])
def test_provenance_that_says_other_inputs_is_told_with_their_names(bare: Published, *, lock: bool) -> None:
    table = statement(bare)
    listed = table["predicate"]["buildDefinition"]["resolvedDependencies"]
    (torch,) = (each for each in listed if each["name"] == "torch")
    torch["digest"]["sha256"] = "0" * 64
    libc = next(each for each in listed if each["name"] == "libc6")
    libc["uri"] = libc["uri"].replace("2.41-12", "2.41-11")
    bare.attach(provenance=json.dumps(table).encode())
    verdict = bare.verdict(lock=lock)
    assert failed(verdict) == {"provenance"}
    assert f"it lacks torch, {'c' * 64}" in words(verdict, "provenance")
    assert "it lacks libc6 2.41-12+deb13u1" in words(verdict, "provenance")


def test_provenance_with_something_more_is_told_by_the_lock(bare: Published) -> None:
    table = statement(bare)
    more = {"name": "backdoor", "digest": {"sha256": "0" * 64}}
    table["predicate"]["buildDefinition"]["resolvedDependencies"].append(more)
    bare.attach(provenance=json.dumps(table).encode())
    assert failed(bare.verdict(lock=False)) == set()
    verdict = bare.verdict()
    assert failed(verdict) == {"provenance"}
    assert "the statement has backdoor, the lock another or none" in words(verdict, "provenance")


def test_a_part_that_is_gone_or_cut_is_told_and_other_bytes_of_the_same_size_with_deep(whole: Published) -> None:
    path = blob_path(whole.layout, b"one")
    path.write_bytes(b"two")
    assert failed(whole.verdict(place=whole.place.at(digest=whole.image.digest))) == set()
    verdict = whole.verdict(place=whole.place.at(digest=whole.image.digest), deep=True)
    assert failed(verdict) == {"image"}
    assert f"{path.name} has the bytes of sha256:" in words(verdict, "image")
    path.write_bytes(b"o")
    assert f"{path.name} is not there with 3 bytes" in words(
        whole.verdict(place=whole.place.at(digest=whole.image.digest)), "image"
    )
    path.unlink()
    assert "1 of 2 parts" in words(whole.verdict(place=whole.place.at(digest=whole.image.digest)), "image")


def test_an_image_that_is_gone_is_told(whole: Published) -> None:
    gone = Digest("sha256:" + "0" * 64)
    verdict = whole.verdict(place=whole.place.at(digest=gone))
    assert states(verdict) == {"tag": "not checked", "image": "failed"}
    assert states(whole.verdict(place=whole.place.at(tag="none"), at_hand=False)) == {"tag": "failed"}


def test_a_record_that_says_signed_where_signatures_cannot_be_is_not_passed_over(whole: Published) -> None:
    verdict = whole.verdict(trusted=Trusted(key="cosign.pub"))
    assert verdict.undecided == ("signature",)
    assert verdict.to_plain()["verified"] is False


def test_of_several_records_beside_an_image_none_is_taken_by_chance(whole: Published) -> None:
    whole.attach(record=records.dump(whole.record | {"test-key": "0" * 64}).encode())
    verdict = whole.verdict(at_hand=False)
    assert failed(verdict) == {"record"}
    assert "there are 2 beside the image" in words(verdict, "record")
    assert failed(whole.verdict()) == set(), "the one at hand is among them"


def test_a_record_at_hand_that_cannot_be_read_is_an_error(whole: Published) -> None:
    with pytest.raises(LockError, match=r"pins/probe\.json"):
        whole.verdict(record={"schema": 0})
