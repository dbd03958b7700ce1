"""A base image asked for at a real registry: served, gone, and its tag moved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest
import requests

from builder.errors import LockError
from builder.mirrors import Mirrors
from builder.reference import Digest, parse_reference
from builder.registries.reading import Served, probe_images

pytestmark = pytest.mark.engine

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Repository:
    """A repository of a registry that manifests are put into, over the registry's own API."""

    def __init__(self, host: str) -> None:
        self.name = f"{host}/checks/base"
        self.url = f"http://{host}/v2/checks/base"
        self.put_in: set[str] = set()

    def blob(self, data: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        place = requests.post(f"{self.url}/blobs/uploads/", timeout=30).headers["Location"]
        sign = "&" if "?" in place else "?"
        requests.put(f"{place}{sign}digest={digest}", data=data, timeout=30).raise_for_status()
        return digest

    def image(self, tag: str, word: str) -> Digest:
        """Put an image without files under a tag and return its digest."""
        config = json.dumps({"architecture": "amd64", "os": "linux", "author": word}).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2, "mediaType": MANIFEST, "layers": [],
                "config": {
                    "mediaType": "application/vnd.oci.image.config.v1+json", "digest": self.blob(config),
                    "size": len(config),
                },
            }
        ).encode()  # fmt: skip
        put = requests.put(
            f"{self.url}/manifests/{tag}", data=manifest, headers={"Content-Type": MANIFEST}, timeout=30
        )
        put.raise_for_status()
        digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
        self.put_in.add(digest)
        return Digest(digest)

    def delete(self, digest: str) -> int:
        return requests.delete(f"{self.url}/manifests/{digest}", timeout=30).status_code


@pytest.fixture
def repository(registry: str) -> Iterator[Repository]:
    there = Repository(registry)
    yield there
    for digest in there.put_in:
        there.delete(digest)


def test_a_registry_says_whether_a_digest_is_served_and_where_its_tag_went(repository: Repository) -> None:
    first = repository.image("1", "first")
    named = parse_reference(f"{repository.name}:1@{first}")
    assert probe_images([named], mirrors=Mirrors()) == [Served(tag_now=first)]
    second = repository.image("1", "second")
    assert probe_images([named], mirrors=Mirrors()) == [Served(tag_now=second)]
    absent = parse_reference(f"{repository.name}@sha256:{'0' * 64}")
    (gone,) = probe_images([absent], mirrors=Mirrors())
    assert isinstance(gone, LockError)
    assert gone.message.endswith("can no longer be fetched: the registry does not serve this digest")
