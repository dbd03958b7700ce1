"""Both bills of materials are valid by the official validators, whole, the same every time, and hold no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from builder.project import Prepared
from builder.reference import Digest
from builder.supply.documents import Bills, bills
from builder.supply.licences import licences

from .everything import COMMIT, IMAGE, INNER, ROCM, SECRET, above, everything

LICENCES = licences(
    {
        "Jinja2": {"expression": "BSD-3-Clause", "license": "", "classifiers": []},
        "torch": {"license": "as the authors\nlike it, in the long run"},
    }
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return everything(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def both(prepared: Prepared) -> Bills:
    return bills(prepared, digest=IMAGE, licences=LICENCES)


@pytest.fixture
def cyclonedx(both: Bills) -> dict[str, Any]:
    return dict(json.loads(both.cyclonedx))


@pytest.fixture
def spdx(both: Bills) -> dict[str, Any]:
    return dict(json.loads(both.spdx))


def require_valid(both: Bills) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(both.cyclonedx.decode()) is None
    read = JsonLikeDictParser().parse(json.loads(both.spdx))
    assert [message.validation_message for message in validate_full_spdx_document(read)] == []


def test_both_are_valid_by_the_official_validators(both: Bills) -> None:
    require_valid(both)


def test_both_of_an_image_on_another_image_are_valid_and_hold_what_is_below(tmp_path: Path) -> None:
    made = bills(above(tmp_path), digest=IMAGE, licences={})
    require_valid(made)
    named = {each["name"]: each for each in json.loads(made.cyclonedx)["components"]}
    assert named["libc6"]["version"] == "2.41-12+deb13u1"
    assert named["jinja2"]["version"] == "3.2.0", "its own wheel counts, not the one of the image below"
    assert named["engine"]["pedigree"]["commits"][0]["uid"] == COMMIT
    assert "setuptools" not in named


def test_validators_refuse_what_is_wrong(cyclonedx: dict[str, Any], spdx: dict[str, Any]) -> None:
    cyclonedx["components"][0]["hashes"] = [{"alg": "SHA-256", "content": "short"}]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(cyclonedx)) is not None
    spdx["packages"][1]["licenseDeclared"] = "a licence that nobody knows"
    assert validate_full_spdx_document(JsonLikeDictParser().parse(spdx))


def test_the_same_image_has_the_same_documents_to_the_byte(tmp_path: Path, both: Bills) -> None:
    again = bills(everything(tmp_path / "elsewhere"), digest=IMAGE, licences=LICENCES)
    assert again == both
    other = bills(everything(tmp_path / "another"), digest=Digest("sha256:" + "0" * 64), licences=LICENCES)
    for one, two in ((both.spdx, other.spdx), (both.cyclonedx, other.cyclonedx)):
        first, second = json.loads(one), json.loads(two)
        key = "documentNamespace" if "documentNamespace" in first else "serialNumber"
        assert first[key].startswith("urn:uuid:")
        assert first[key] != second[key]


def test_their_time_is_the_lock_s(cyclonedx: dict[str, Any], spdx: dict[str, Any]) -> None:
    assert cyclonedx["metadata"]["timestamp"] == spdx["creationInfo"]["created"] == "2026-11-21T09:15:44Z"


def test_no_secret_is_in_any(both: Bills, prepared: Prepared) -> None:
    assert SECRET in str(prepared.recipe.patch), "or this test shows nothing"
    assert SECRET in str(prepared.lock.source), "or this test shows nothing"
    assert SECRET not in (both.spdx + both.cyclonedx).decode()


TORCH = "torch-2.11.0%2Brocm7.2-cp313-cp313-manylinux_2_28_x86_64.whl"
KERNELS = f"git%2Bhttps://git.example.org/rocm/composable_kernel.git%40{INNER}"


@pytest.mark.parametrize(
    ("name", "purl"),
    [
        ("torch", f"pkg:pypi/torch@2.11.0%2Brocm7.2?file_name={TORCH}&repository_url={ROCM}"),
        ("jinja2", "pkg:pypi/jinja2@3.1.6?file_name=jinja2-3.1.6-py3-none-any.whl"),
        ("numpy", "pkg:pypi/numpy@2.2.4"),
        ("libc6", "pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64&distro=trixie&upstream=glibc"),
        ("libstdc++6", "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64&distro=trixie&upstream=gcc-14"),
        ("python3-torch", "pkg:deb/debian/python3-torch@1:2.6.0%2Bdfsg-7?arch=all&distro=trixie&upstream=pytorch"),
        ("composable_kernel", f"pkg:generic/composable_kernel@{INNER}?vcs_url={KERNELS}"),
        ("release-tool", "pkg:pypi/release-tool@2.0"),
    ],
)
def test_each_thing_has_the_name_that_scanners_know(
    name: str, purl: str, cyclonedx: dict[str, Any], spdx: dict[str, Any]
) -> None:
    component = next(each for each in cyclonedx["components"] if each["name"] == name)
    package = next(each for each in spdx["packages"] if each["name"] == name)
    assert component["purl"] == purl == package["externalRefs"][0]["referenceLocator"]
    assert PackageURL.from_string(purl).to_string() == purl


def test_git_sources_are_there_with_their_commit_and_submodules(
    cyclonedx: dict[str, Any], spdx: dict[str, Any]
) -> None:
    sources = {each["bom-ref"]: each for each in cyclonedx["components"] if each["bom-ref"].startswith("source-")}
    engine = sources["source-probe-engine"]
    assert engine["purl"] == f"pkg:github/example/engine@{COMMIT}"
    assert engine["pedigree"]["commits"] == [
        {"uid": COMMIT, "url": f"git+https://github.com/Example/Engine.git@{COMMIT}"}
    ]
    assert sources["source-probe-kernels"]["externalReferences"] == [
        {"type": "vcs", "url": f"git+ssh://git.example.org/rocm/kernels@{INNER}"}
    ]
    inner = "source-probe-engine-third_party-composable_kernel"
    depends = {each["ref"]: each["dependsOn"] for each in cyclonedx["dependencies"]}
    assert depends["source-probe-engine"] == [inner]
    assert "source-probe-engine" in depends["python-engine"]
    related = {
        (each["spdxElementId"], each["relationshipType"], each["relatedSpdxElement"])
        for each in spdx["relationships"]
    }
    assert ("SPDXRef-python-engine", "GENERATED_FROM", "SPDXRef-source-probe-engine") in related
    assert ("SPDXRef-source-probe-engine", "CONTAINS", f"SPDXRef-{inner.replace('_', '.5f.')}") in related


def test_sdists_and_archives_have_their_hash_and_where_they_are(spdx: dict[str, Any]) -> None:
    packages = {each["SPDXID"]: each for each in spdx["packages"]}
    archive, release = packages["SPDXRef-source-probe-archive"], packages["SPDXRef-source-probe-release"]
    assert archive["checksums"] == [{"algorithm": "SHA256", "checksumValue": "e" * 64}]
    assert archive["downloadLocation"] == "https://files.example.org/archive-1.0.tar.gz"
    assert release["checksums"] == [{"algorithm": "SHA256", "checksumValue": "4" * 64}]
    assert release["packageFileName"] == "release_tool-2.0.tar.gz"


def test_patches_are_the_pedigree_of_what_they_change(cyclonedx: dict[str, Any], spdx: dict[str, Any]) -> None:
    named = {each["bom-ref"]: each for each in cyclonedx["components"]}
    patches = named["python-engine"]["pedigree"]["patches"]
    assert [(each["type"], each["resolves"][0]["id"], each["resolves"][0]["name"]) for each in patches] == [
        ("unofficial", "connector", "patches/probe/0001-connector.patch"),
        ("unofficial", "connector", "patches/probe/0002-more.patch"),
        ("monkey", "capacity", "capacity"),
    ]
    assert patches[0]["resolves"][0]["description"] == "without it the engine refuses"
    assert [each["resolves"][0]["id"] for each in named["python-torch"]["pedigree"]["patches"]] == ["wider"]
    applied = [
        (each["spdxElementId"], each["relatedSpdxElement"])
        for each in spdx["relationships"]
        if each["relationshipType"] == "PATCH_APPLIED"
    ]
    assert applied == [
        ("SPDXRef-patch-probe-connector-1", "SPDXRef-python-engine"),
        ("SPDXRef-patch-probe-connector-2", "SPDXRef-python-engine"),
        ("SPDXRef-patch-probe-capacity", "SPDXRef-python-engine"),
        ("SPDXRef-patch-probe-wider", "SPDXRef-python-torch"),
    ]


def test_the_base_image_of_the_build_and_what_it_builds_with_are_not_of_the_image(
    cyclonedx: dict[str, Any], spdx: dict[str, Any]
) -> None:
    for names in ({each["name"] for each in cyclonedx["components"]}, {each["name"] for each in spdx["packages"]}):
        assert names.isdisjoint({"setuptools", "docker.io/rocm/dev", "git"})
    assert {"type": "operating-system", "bom-ref": "debian", "name": "debian", "version": "trixie"} in cyclonedx[
        "components"
    ]


def test_a_published_base_is_there_by_digest_and_what_floats_on_it_without_a_version(tmp_path: Path) -> None:
    from ..recipe.kinds import ON_IMAGES
    from ..recipe.on_disk import on_disk

    made = bills(on_disk(tmp_path, ON_IMAGES).prepared(), digest=IMAGE, licences={})
    require_valid(made)
    named = {each["bom-ref"]: each for each in json.loads(made.cyclonedx)["components"]}
    base = named["base-runtime"]
    assert base["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert base["purl"] == (f"pkg:oci/debian@sha256:{'a' * 64}?repository_url=docker.io/library/debian&tag=13")
    assert "version" not in named["deb-python3"]
    assert "on the day of the build" in named["deb-python3"]["properties"][0]["value"]
    spdx = json.loads(made.spdx)
    assert {"spdxElementId": "SPDXRef-image", "relationshipType": "DESCENDANT_OF",
            "relatedSpdxElement": "SPDXRef-base-runtime"} in spdx["relationships"]  # fmt: skip


def test_licences_are_those_that_the_metadata_declares(cyclonedx: dict[str, Any], spdx: dict[str, Any]) -> None:
    packages = {each["name"]: each for each in spdx["packages"]}
    assert packages["jinja2"]["licenseDeclared"] == "BSD-3-Clause"
    assert packages["torch"]["licenseDeclared"] == packages["libc6"]["licenseDeclared"] == "NOASSERTION"
    assert {each["licenseConcluded"] for each in spdx["packages"]} == {"NOASSERTION"}
    licensed = {each["name"]: each["licenses"] for each in cyclonedx["components"] if "licenses" in each}
    assert licensed == {"jinja2": [{"expression": "BSD-3-Clause", "acknowledgement": "declared"}]}


def test_every_dependency_and_relationship_names_something_that_is_there(
    cyclonedx: dict[str, Any], spdx: dict[str, Any]
) -> None:
    named = {each["bom-ref"] for each in cyclonedx["components"]} | {"image"}
    assert {each["ref"] for each in cyclonedx["dependencies"]} == named - {"debian"}
    assert {other for each in cyclonedx["dependencies"] for other in each["dependsOn"]} <= named
    packages = {each["SPDXID"] for each in spdx["packages"]}
    contained = {each["relatedSpdxElement"] for each in spdx["relationships"]}
    related = contained | {each["spdxElementId"] for each in spdx["relationships"]}
    assert packages == related - {"SPDXRef-DOCUMENT"}
