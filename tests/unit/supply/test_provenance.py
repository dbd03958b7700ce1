"""The statement of how an image was made names all that the lock pins, with digests and without secrets."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from builder.project import Prepared
from builder.supply.documents import Bills, bills, provenance

from .everything import COMMIT, IMAGE, INNER, SECRET, above, everything

RECORD = b'{"schema": 1}\n'


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return everything(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def both(prepared: Prepared) -> Bills:
    return bills(prepared, digest=IMAGE, licences={})


def made(prepared: Prepared, both: Bills) -> bytes:
    return provenance(prepared, digest=IMAGE, recipe="7" * 64, record=RECORD, made=both)


@pytest.fixture
def statement(prepared: Prepared, both: Bills) -> dict[str, Any]:
    return dict(json.loads(made(prepared, both)))


def dependencies(statement: dict[str, Any]) -> list[dict[str, Any]]:
    return list(statement["predicate"]["buildDefinition"]["resolvedDependencies"])


def test_it_is_a_statement_about_the_image_with_the_predicate_of_slsa(statement: dict[str, Any]) -> None:
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": "probe", "digest": {"sha256": IMAGE.hex}}]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"image": "probe", "recipe": "images/probe/recipe.toml"}
    assert definition["buildType"].startswith("urn:")
    assert statement["predicate"]["runDetails"]["builder"]["id"].startswith("urn:")


def test_everything_the_lock_pins_is_in_it_with_its_digest(prepared: Prepared, statement: dict[str, Any]) -> None:
    digests = [value for each in dependencies(statement) for value in each.get("digest", {}).values()]
    lock = prepared.lock
    pinned = [each.sha256 for each in (*lock.deb, *lock.python)]
    pinned += [file.sha256 for patch in lock.patch for file in patch.file]
    pinned += [COMMIT, INNER, "1" * 40, "4" * 64, "e" * 64, "5" * 64, "b" * 64, prepared.lock_hash, "7" * 64]
    assert set(pinned) <= set(digests)


def test_only_what_floats_has_no_digest_and_it_says_so(statement: dict[str, Any]) -> None:
    without = {each["name"]: each for each in dependencies(statement) if "digest" not in each}
    assert set(without) == {"git", "numpy"}
    assert without["git"]["uri"] == "apt:git"
    assert "on the day of the build" in without["git"]["annotations"]["floating"]


def test_what_came_out_of_the_build_is_no_dependency_of_it(statement: dict[str, Any]) -> None:
    assert [each["annotations"]["kind"] for each in dependencies(statement) if each["name"] == "engine"] == ["git"]


def test_an_image_below_is_named_by_its_lock(tmp_path: Path) -> None:
    image = above(tmp_path)
    told = json.loads(made(image, bills(image, digest=IMAGE, licences={})))
    named = {each["name"]: each for each in dependencies(told)}
    assert named["images/probe/recipe.lock"]["digest"] == {"sha256": image.below["probe"].lock_hash}
    assert named["images/above/recipe.lock"]["digest"] == {"sha256": "0" * 64}


def test_the_documents_beside_it_are_named_by_hash(both: Bills, statement: dict[str, Any]) -> None:
    beside = {
        each["name"]: each["digest"]["sha256"] for each in statement["predicate"]["runDetails"]["byproducts"]
    }
    assert f"sha256:{beside['probe.spdx.json']}" == both.digests["spdx"]
    assert f"sha256:{beside['probe.cdx.json']}" == both.digests["cyclonedx"]
    assert beside["probe.record.json"] == hashlib.sha256(RECORD).hexdigest()


def test_it_has_no_secret_and_no_time_and_is_the_same_every_time(
    tmp_path: Path, prepared: Prepared, both: Bills
) -> None:
    text = made(prepared, both)
    assert SECRET not in text.decode()
    assert made(everything(tmp_path / "elsewhere"), both) == text
    assert b"startedOn" not in text
    assert b"2026" not in text
