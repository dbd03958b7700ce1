"""What stops a build or a publication: the compiler, two components in each other's way, a tag that is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from builder import process

from ..project import MANIFEST, REPOSITORY, SAFETY_SECONDS, Ended, Project
from .conftest import Tiny
from .loopback import Relay

pytestmark = pytest.mark.engine

Recipe = dict[str, Any]


def failed_build(project: Project, image: str) -> Ended:
    """Return a run that has to end with exit code 5 and without a trace of an image."""
    ended = project.build(image)
    assert ended.status == 5, ended.stderr
    assert ended.stdout == ""
    assert project.tags(image) == []
    folder = project.workspace.dist / image
    assert {path.name for path in folder.iterdir()} == {"build.log", "report.html"}
    assert 'class="box failed"' in (folder / "report.html").read_text()
    return ended


def test_a_target_that_the_compiler_does_not_know_ends_in_its_own_words(
    sglang_debian: tuple[Project, Ended], project: Project
) -> None:
    def only_the_probe(recipe: Recipe) -> None:
        recipe["gfx"] = ["gfx1201"]
        recipe["base"]["runtime"]["apt"] = []
        recipe["component"] = [part for part in recipe["component"] if part["name"] == "gfx-probe"]
        recipe["engine"] = "gfx-probe"
        recipe["smoke"] = {}

    # The build stage is the shipped one, so its layers are in the build cache.
    project.add("gfx-probe", REPOSITORY / "images/sglang-debian", only_the_probe)
    project.done("lock", "gfx-probe")
    ended = failed_build(project, "gfx-probe")
    assert "error: the build failed in [component-gfx-probe] sh build-source.sh" in ended.stderr
    evidence = [line for line in ended.stderr.splitlines() if line.startswith("  | ")]
    assert any("invalid target ID 'gfx1201'" in line for line in evidence), ended.stderr
    assert "  | stage component-gfx-probe, made of component.gfx-probe, source.gfx-probe" in ended.stderr
    assert "  | no earlier build is known to compare with" in ended.stderr
    hint = ended.stderr.splitlines()[-1]
    assert hint.startswith("hint: take a compiler that does (LLVM 18 or newer for gfx12)")
    command = hint.partition("the whole step: ")[2].partition(";")[0]
    assert "invalid target ID" in process.run(["sh", "-c", command]).stdout


def test_two_components_that_write_the_same_file_are_both_named(tiny: Tiny) -> None:
    def doubled(recipe: Recipe) -> None:
        recipe["component"].append({**recipe["component"][1], "name": "other"})

    ended = failed_build(tiny(doubled, relock=True), "tiny")
    assert "  | two components write /usr/share/tiny/marker: marker other" in ended.stderr


def test_a_component_that_replaces_a_file_of_the_runtime_stage_is_named(tiny: Tiny) -> None:
    def replacing(recipe: Recipe) -> None:
        recipe["component"][1]["build"] = ["mkdir -p {destdir}/etc", "cp marker {destdir}/etc/debian_version"]

    ended = failed_build(tiny(replacing), "tiny")
    assert "  | component marker would replace /etc/debian_version of the runtime stage" in ended.stderr


def test_a_tag_that_names_other_content_is_not_moved_unless_told_so(tiny: Tiny) -> None:
    project = tiny()
    first = project.build("tiny")
    assert first.status == 0, first.stderr
    name, _, digest = first.result.partition("@")
    tag = name.rpartition(":")[2]

    def other(recipe: Recipe) -> None:
        recipe["image"]["env"]["OTHER"] = "content"

    project.edit("tiny", other)
    foreign = project.build("tiny").result.rpartition("@")[2]
    project.edit("tiny", lambda recipe: recipe["image"]["env"].pop("OTHER"))
    retag(project, foreign, tag)

    refused = project.build("tiny")
    assert refused.status == 7, refused.stderr
    assert refused.stdout == ""
    assert f"error: {name}: the tag names other bytes already" in refused.stderr
    assert f"  | published {foreign}" in refused.stderr
    assert f"which is {digest} here" in refused.stderr
    assert "hint: publish under another tag, or move this one with --move-tag" in refused.stderr
    assert project.served("tiny", tag).headers["Docker-Content-Digest"] == foreign
    assert (
        json.loads(project.workspace.pin("tiny").read_text())["digest"] == foreign
    )  # still the last one published

    moved = project.build("tiny", "--move-tag")
    assert moved.status == 0, moved.stderr
    assert moved.stdout == f"{name}@{digest}\n"
    assert project.served("tiny", tag).headers["Docker-Content-Digest"] == digest
    assert json.loads(project.workspace.pin("tiny").read_text())["moved-from"] == foreign


def test_a_tag_that_names_other_bytes_of_the_same_content_is_not_moved_by_a_rebuild(tiny: Tiny) -> None:
    project = tiny()
    name, _, digest = project.build("tiny").result.partition("@")
    tag = name.rpartition(":")[2]
    manifest = project.served("tiny", digest).json()
    manifest["annotations"] = {"org.example": "the same image in another manifest"}
    other = put(project, tag, json.dumps(manifest).encode(), manifest["mediaType"])
    assert other != digest

    refused = project.build("tiny", "--no-cache")
    assert refused.status == 7, refused.stderr
    assert f"  | published {other}" in refused.stderr
    assert f"  | tested    {digest}" in refused.stderr
    assert project.served("tiny", tag).headers["Docker-Content-Digest"] == other
    assert json.loads(project.workspace.pin("tiny").read_text())["digest"] == digest


def test_a_registry_that_breaks_off_in_the_middle_of_a_push_leaves_no_version_tag_and_no_pin(tiny: Tiny) -> None:
    project = tiny()
    host, _, namespace = project.publish.partition("/")
    relay = Relay(host, at=rb"PUT /v2/[^ ]*/manifests/")
    run = project.start("build", "tiny", "--publish", f"{relay.address}/{namespace}")
    assert relay.gate.reached.wait(timeout=SAFETY_SECONDS)
    relay.close()
    ended = run.wait()
    assert ended.status == 7, ended.stderr
    assert f"error: {relay.address}/{namespace}/tiny: the registry did not take the image" in ended.stderr
    assert set(project.tags("tiny")) <= {"candidate"}  # what was under way may have come through
    assert not project.workspace.pin("tiny").exists()
    assert project.build("tiny").status == 0


def test_an_image_in_two_registries_is_pinned_where_the_last_run_was_told_to_publish(tiny: Tiny) -> None:
    project = tiny()
    places = [f"{project.publish}/{folder}" for folder in ("a", "b", "a")]
    for place in places:
        ended = project.run("build", "tiny", "--publish", place)
        assert ended.status == 0, ended.stderr
        assert ended.result.startswith(f"{place}/tiny:")
        assert project.done("pin", "tiny").result == ended.result
    assert "tiny: skip - " in ended.stderr


def test_an_image_that_is_built_for_this_engine_alone_is_looked_for_in_the_engine(tiny: Tiny) -> None:
    project = tiny()
    first = project.done("build", "tiny")
    again = project.done("build", "tiny")
    assert again.stdout == first.stdout
    assert f"tiny: skip - the engine holds {first.result}, it is tested, and no input changed" in again.stderr
    assert project.run("pin", "tiny").status == 3


def retag(project: Project, digest: str, tag: str) -> None:
    served = project.served("tiny", digest)
    assert put(project, tag, served.content, served.headers["Content-Type"]) == digest


def put(project: Project, tag: str, manifest: bytes, media_type: str) -> str:
    """Write a manifest into the registry, past everything that is tested here, and return its digest."""
    host, _, namespace = project.publish.partition("/")
    answer = requests.put(
        f"http://{host}/v2/{namespace}/tiny/manifests/{tag}", data=manifest, timeout=30,
        headers={"Content-Type": media_type, "Accept": MANIFEST},
    )  # fmt: skip
    assert answer.status_code == 201, answer.text
    return answer.headers["Docker-Content-Digest"]
