"""Documents beside an image: the same is put there once, listed by either way of registries, and fetched whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from builder.errors import EngineError, LockError, PublishError
from builder.mirrors import Mirrors
from builder.reference import Digest, ImageReference, parse_reference
from builder.registries.client import INDEX, MANIFEST
from builder.registries.referrers import Attachment, attach, fetched, referrers
from builder.sources.transport import Patience

from .server import Registry, digest_of

QUICK = Patience(attempts=2, first=0.01, longest=0.02)
SBOM = Attachment(
    artifact_type="application/spdx+json", media_type="application/spdx+json", title="image.spdx.json",
    content=b'{"spdxVersion": "SPDX-2.3"}', annotations={"org.example.made-for": "a test"},
)  # fmt: skip
OTHER = replace(SBOM, artifact_type="application/vnd.cyclonedx+json", content=b"{}", annotations={})
BOTH = pytest.mark.parametrize("has_referrers", [True, False], ids=["api", "tag"])


@pytest.fixture
def subject(registry: Registry) -> ImageReference:
    content = b'{"schemaVersion": 2, "config": {}, "layers": []}'
    registry.manifests[digest_of(content)] = (MANIFEST, content)
    registry.tags["1.0"] = digest_of(content)
    return parse_reference(f"{registry.host}/team/image:1.0@{digest_of(content)}")


def put(subject: ImageReference, attachment: Attachment) -> Digest:
    return attach(subject, attachment, mirrors=Mirrors(), patience=QUICK)


def listed(subject: ImageReference, artifact_type: str | None = None) -> list[Digest]:
    found = referrers(subject, mirrors=Mirrors(), artifact_type=artifact_type, patience=QUICK)
    return [each.digest for each in found]


@BOTH
def test_a_document_is_put_once_listed_and_fetched_whole(
    registry: Registry, subject: ImageReference, *, has_referrers: bool
) -> None:
    registry.has_referrers, registry.page = has_referrers, 1
    first = put(subject, SBOM)
    second = put(subject, OTHER)
    assert put(subject, SBOM) == first
    assert listed(subject) == [first, second]
    assert listed(subject.at(tag="1.0")) == [first, second]
    assert listed(subject, SBOM.artifact_type) == [first]
    assert listed(subject, "something/else") == []
    assert fetched(subject, first, mirrors=Mirrors(), patience=QUICK) == SBOM
    assert registry.tags["1.0"] == str(subject.digest)
    assert set(registry.tags) == {"1.0"} | (set() if has_referrers else {f"sha256-{subject.digest.hex}"})


def test_the_manifest_of_a_document_is_that_of_the_specification(
    registry: Registry, subject: ImageReference
) -> None:
    digest = put(subject, SBOM)
    media_type, content = registry.manifests[str(digest)]
    table = json.loads(content)
    assert media_type == table["mediaType"] == MANIFEST
    assert table["artifactType"] == SBOM.artifact_type
    assert table["config"]["mediaType"] == "application/vnd.oci.empty.v1+json"
    _, image = registry.manifests[str(subject.digest)]
    assert table["subject"] == {"mediaType": MANIFEST, "digest": str(subject.digest), "size": len(image)}
    (layer,) = table["layers"]
    assert layer["annotations"] == {"org.opencontainers.image.title": SBOM.title}
    assert {table["config"]["digest"], layer["digest"]} <= set(registry.blobs)


def test_entries_of_others_stay_in_the_index_under_the_tag(registry: Registry, subject: ImageReference) -> None:
    theirs = {"mediaType": MANIFEST, "digest": f"sha256:{'7' * 64}", "size": 7, "artifactType": "their/kind"}
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [theirs]}).encode()
    registry.manifests[digest_of(index)] = (INDEX, index)
    registry.tags[f"sha256-{subject.digest.hex}"] = digest_of(index)
    own = put(subject, SBOM)
    assert listed(subject) == [Digest(theirs["digest"]), own]


def test_an_index_that_another_writer_wrote_over_is_written_again(
    registry: Registry, subject: ImageReference
) -> None:
    tag, lost = f"sha256-{subject.digest.hex}", []

    def another_writer(name: str) -> None:
        if name == tag and not lost:
            lost.append(registry.tags.pop(tag))

    registry.after_put = another_writer
    own = put(subject, SBOM)
    assert lost
    assert listed(subject) == [own]


def test_an_image_that_is_not_there_gets_no_document(registry: Registry, subject: ImageReference) -> None:
    registry.manifests.clear()
    with pytest.raises(PublishError, match="does not serve it, so nothing can be put beside it"):
        put(subject, SBOM)
    with pytest.raises(LockError, match="the registry has no such image"):
        listed(subject.at(tag="2.0"))


def test_a_document_of_another_image_or_with_other_bytes_is_not_taken(
    registry: Registry, subject: ImageReference
) -> None:
    digest = put(subject, SBOM)
    other = subject.at(digest=Digest(f"sha256:{'1' * 64}"))
    with pytest.raises(LockError, match=rf"{digest} is about {subject.digest}"):
        fetched(other, digest, mirrors=Mirrors(), patience=QUICK)
    registry.blobs[digest_of(SBOM.content)] = SBOM.content.replace(b"2.3", b"2.4")
    with pytest.raises(EngineError, match="answers with the bytes of sha256:"):
        fetched(subject, digest, mirrors=Mirrors(), patience=QUICK)
    del registry.blobs[digest_of(SBOM.content)]
    with pytest.raises(LockError, match=f"does not serve {digest_of(SBOM.content)}, part of {digest}"):
        fetched(subject, digest, mirrors=Mirrors(), patience=QUICK)


def test_an_index_that_is_none_is_an_error(registry: Registry, subject: ImageReference) -> None:
    registry.manifests[digest_of(b"[]")] = (INDEX, b"[]")
    registry.tags[f"sha256-{subject.digest.hex}"] = digest_of(b"[]")
    with pytest.raises(EngineError, match="what the registry has beside it is no index"):
        listed(subject)
