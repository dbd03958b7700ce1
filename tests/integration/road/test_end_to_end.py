"""The shipped engine image goes the whole road: built, tested, published and pinned under one digest."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
from typing import Any

import docker
import pytest
import tomli

from ..project import Ended, Project

pytestmark = pytest.mark.engine

Built = tuple[Project, Ended]
HASH = (
    "from sglang.srt.mem_cache.cpp_utils.native_hash import get_native_hash\n"
    "print(get_native_hash([1, 2, 3, 4], None))"
)
ZSTD_LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"


@pytest.fixture
def reference(sglang_debian: Built) -> str:
    return sglang_debian[1].result


@pytest.fixture
def pin(sglang_debian: Built) -> dict[str, Any]:
    return dict(json.loads(sglang_debian[0].workspace.pin("sglang-debian").read_text()))


def test_the_result_is_one_line_on_stdout_and_the_registry_serves_that_digest(
    sglang_debian: Built, reference: str, pin: dict[str, Any]
) -> None:
    project, ended = sglang_debian
    assert ended.stdout == f"{reference}\n"
    name, _, digest = reference.partition("@")
    tag = name.rpartition(":")[2]
    assert name == f"{project.publish}/sglang-debian:{tag}"
    assert tag.startswith("0.5.16-")

    for asked in (tag, digest):
        answer = project.served("sglang-debian", asked)
        assert answer.headers["Docker-Content-Digest"] == digest
        assert f"sha256:{hashlib.sha256(answer.content).hexdigest()}" == digest
    assert project.tags("sglang-debian") == [tag]
    assert (pin["reference"], pin["digest"]) == (reference, digest)
    assert project.done("pin", "sglang-debian").stdout == f"{reference}\n"


def test_the_engine_knows_the_image_by_the_digest_of_the_registry(
    engine: docker.DockerClient, reference: str, pin: dict[str, Any]
) -> None:
    digests = engine.images.get(reference.partition("@")[0]).attrs["RepoDigests"]
    assert any(each.endswith(f"@{pin['digest']}") for each in digests)


def test_the_image_says_of_itself_what_the_pin_says(
    sglang_debian: Built, engine: docker.DockerClient, reference: str, pin: dict[str, Any]
) -> None:
    labels = engine.images.get(reference).labels
    assert labels["rocm-images.content-key"] == pin["content-key"]
    assert labels["rocm-images.fingerprint"] == pin["fingerprint"]
    assert labels["rocm-images.gfx"] == ",".join(pin["gfx"])
    assert labels["org.opencontainers.image.title"] == "sglang-debian"
    assert labels["org.opencontainers.image.version"] == pin["version"] == "0.5.16"
    assert pin["reference"].partition("@")[0].endswith(f":0.5.16-{pin['content-key'][:12]}")

    said = json.loads(_run(reference, "cat", "/usr/share/rocm-images/manifest.json"))
    for key in ("content-key", "fingerprint", "version", "gfx", "python", "components"):
        assert said[key] == pin[key], key
    lock = sglang_debian[0].workspace.lock("sglang-debian").read_bytes()
    assert pin["lock"] == f"sha256:{hashlib.sha256(lock).hexdigest()}"
    locked = {file["project"]: file["sha256"] for file in tomli.loads(lock.decode())["python"]}
    assert {name: entry["sha256"] for name, entry in said["distributions"].items()} == locked


def test_every_layer_has_an_owner_and_the_size_the_registry_serves(
    sglang_debian: Built, reference: str, pin: dict[str, Any]
) -> None:
    project, _ = sglang_debian
    served = project.served("sglang-debian", pin["digest"]).json()["layers"]
    assert [(layer["digest"], layer["size"]) for layer in pin["layers"]] == [
        (layer["digest"], layer["size"]) for layer in served
    ]
    assert {layer["mediaType"] for layer in served} == {ZSTD_LAYER}
    assert pin["size"] == sum(layer["size"] for layer in served)
    owners = [layer["owner"] for layer in pin["layers"]]
    large = ["hf-xet", "jedi", "pillow", "transformers", "xgrammar"]
    divided = [f"dependencies.{part}" for part in (*range(1, 9), *large)]
    components = [*divided, "triton", "gfx-probe", "sglang"]
    assert owners == ["base", "packages", "user", "workdir", *components, "manifest"]
    parts = json.loads(_run(reference, "cat", "/usr/share/rocm-images/components.json"))
    assert list(parts) == components
    assert all(part["files"] > 0 and part["bytes"] > 0 for part in parts.values())


def test_the_record_of_the_tests_is_in_the_pin(pin: dict[str, Any]) -> None:
    assert pin["smoke"]["tiers"] == {"cpu": "passed", "gpu": "not run"}
    outcomes = set(pin["smoke"]["tests"].values())
    assert "passed" in outcomes
    assert outcomes <= {"passed", "not run"}


def test_the_served_image_computes_the_hash_without_network_on_a_read_only_root(
    engine: docker.DockerClient, reference: str
) -> None:
    writable = engine.images.get(reference).labels["rocm-images.writable"].split(",")
    digest = _run(reference, "python3", "-c", HASH, writable=writable).splitlines()[-1]
    assert digest == hashlib.sha256(struct.pack("<4I", 1, 2, 3, 4)).hexdigest()


def test_a_second_run_builds_nothing_and_prints_the_same_line(sglang_debian: Built, reference: str) -> None:
    project, _ = sglang_debian
    results = project.workspace.dist / "sglang-debian"
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in results.iterdir()}
    again = project.build("sglang-debian")
    assert again.status == 0, again.stderr
    assert again.stdout == f"{reference}\n"
    assert "sglang-debian: skip - " in again.stderr
    assert "==> building" not in again.stderr
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in results.iterdir()} == before


def test_a_clone_that_has_the_record_alone_builds_nothing_either(sglang_debian: Built, reference: str) -> None:
    project, _ = sglang_debian
    record, kept = project.workspace.pin("sglang-debian"), project.workspace.root / "kept"
    before = record.read_bytes()
    project.workspace.dist.rename(kept)
    try:
        again = project.build("sglang-debian")
        assert again.status == 0, again.stderr
        assert again.stdout == f"{reference}\n"
        assert "sglang-debian: skip - " in again.stderr
        assert "==> " not in again.stderr
        assert not (project.workspace.dist / "sglang-debian/smoke.json").exists()
        assert record.read_bytes() == before
    finally:
        shutil.rmtree(project.workspace.dist, ignore_errors=True)
        kept.rename(project.workspace.dist)


def _run(reference: str, *words: str, writable: list[str] | None = None) -> str:
    """Run words in a container as a node would: no network, a read-only root, the declared folders alone."""
    mounts = [f"--tmpfs={folder}:rw,exec,nosuid,nodev,uid=1000,gid=1000,mode=0755" for folder in writable or ()]
    done = subprocess.run(
        ["docker", "run", "--rm", "--network", "none", "--read-only", *mounts, reference, *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
