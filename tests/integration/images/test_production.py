"""The recipes for production end to end on stand-ins under the real names; then one decoy at a time is let in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import docker
import pytest

from ..project import Ended, Project
from . import standins
from .conftest import IMAGES, SGLANG, VLLM, Change, Recipe, World

pytestmark = [pytest.mark.engine, pytest.mark.network]

Built = tuple[str, Project, Ended]
Projects = Callable[[str, Change | None], Project]
TWO_CARDS, RDNA = "sglang-gfx1201-tp2", "vllm-rdna"
# What has GPU code, and for which targets: what is compiled here is for the card, what AITER brings is for CDNA.
CODE = {
    SGLANG: {
        "awq-gemv-hip-ext": ["gfx1201"], "sglang-kernel": ["gfx1201"], "skinny-gemms-int4-ext": ["gfx1201"]
    },
    VLLM: {"amd-aiter": ["gfx942", "gfx950"], "vllm": ["gfx1201"]},
}  # fmt: skip
FILES = {
    SGLANG: {
        "rdna4": [
            "patches/003-rdna4-sgl-kernel-fallbacks.patch", "patches/008-rdna4-sgl-kernel-build-arch.patch",
            "patches/032-rdna4-hybrid-w4a16-moe.patch",
        ],
    },
    VLLM: {
        "kv-connector": ["patches/vllm/0001-kv-connector.patch"],
        "skinny-gate": ["patches/vllm/0002-skinny-gate.patch"],
    },
}  # fmt: skip
DECOYS = {"kernels", "nvidia-cublas", "flashinfer-python"}
# What the two edits of one rank have made of the engine's own text.
EDITED = """
import pathlib, sglang
root = pathlib.Path(sglang.__file__).parent
print("get_tensor_model_parallel_world_size() == 1:" in (root / "jit_kernel/kvcache.py").read_text(),
      "dist.get_world_size(group=self.tp_sync_group) == 1:" in (root / "srt/layers/sampler.py").read_text())
"""


def record_of(project: Project, image: str) -> dict[str, Any]:
    return dict(json.loads(project.workspace.pin(image).read_text()))


def component(recipe: Recipe, name: str) -> dict[str, Any]:
    return next(each for each in recipe["component"] if each["name"] == name)


def test_a_recipe_is_locked_built_tested_published_and_pinned(built: Built) -> None:
    image, project, ended = built
    record = record_of(project, image)
    assert record["reference"] == ended.result
    assert record["smoke"]["tiers"] == {"cpu": "passed", "gpu": "not run"}
    assert project.served(image, record["digest"]).status_code == 200
    planned = project.done("plan", image, "--publish", project.publish).stdout
    assert planned.startswith(f"{image}: skip - ")


def test_no_decoy_got_in_and_torch_and_triton_are_those_of_the_rocm_index(built: Built) -> None:
    image, project, _ = built
    found = {each["name"]: each for each in record_of(project, image)["distributions"]}
    assert not DECOYS & found.keys()
    versions = {name: found[name]["version"] for name in ("torch", "torchvision", "triton")}
    assert versions == {"torch": "2.11.0+rocm7.2", "torchvision": "0.26.0+rocm7.2", "triton": "3.6.0"}
    assert {found[name]["index"] for name in versions} == {"https://download.pytorch.org/whl/rocm7.2"}


def test_what_is_compiled_has_code_for_the_card_alone(built: Built) -> None:
    image, project, _ = built
    parts = json.loads(project.done("inspect", image, "--gfx", "--json").stdout)["components"]
    found = {
        each["name"]: sorted(target["target"] for target in each["targets"]) for each in parts if each["judged"]
    }
    assert found == CODE[image]


def test_every_patch_is_in_the_ledger_and_every_edit_in_the_image(
    built: Built, engine: docker.DockerClient
) -> None:
    image, project, ended = built
    ledger = {patch["name"]: patch for patch in record_of(project, image)["patches"]}
    assert {patch["state"] for patch in ledger.values()} == {"applies"}
    for name, files in FILES[image].items():
        assert [file["file"] for file in ledger[name]["files"]] == files, name
    if image == SGLANG:
        reference = ended.result.partition("@")[0]
        said = engine.containers.run(
            reference, ["python3", "-c", EDITED], network_mode="none", remove=True,
            tmpfs=dict.fromkeys(("/tmp", "/var/cache/rocm-images"), ""),
        )  # fmt: skip
        assert said == b"True True\n"


def test_an_image_for_two_cards_has_the_layers_of_that_for_one(built: Built) -> None:
    image, project, _ = built
    if image == VLLM:
        shutil.copytree(IMAGES / RDNA, project.workspace.images / RDNA)
        project.done("lock", RDNA)
        made = project.done("render", RDNA).stdout
        assert '"PYTORCH_ROCM_ARCH=gfx1100;gfx1101;gfx1102;gfx1150;gfx1151;gfx1200;gfx1201"' in made
        return
    shutil.copytree(IMAGES / TWO_CARDS, project.workspace.images / TWO_CARDS)
    project.done("lock", TWO_CARDS)
    ended = project.build(TWO_CARDS)
    assert ended.status == 0, ended.stderr
    one, two = (record_of(project, name) for name in (SGLANG, TWO_CARDS))
    layers = [{layer["owner"]: layer["digest"] for layer in record["layers"]} for record in (one, two)]
    assert {owner for owner in layers[0] if layers[0][owner] != layers[1][owner]} == {"manifest"}
    assert one["fingerprint"] == two["fingerprint"]
    assert (one["contract"]["shm"], two["contract"]["shm"]) == ("8g", "16g")


# One decoy at a time. What stops it says why.


def a_newer_triton_that_somebody_asks_for(recipe: Recipe, world: World) -> None:
    standins.wheel(world.index("simple"), "impatient", "1.0", {"impatient.py": b""}, ["triton>=3.7"])
    component(recipe, "sglang")["requires"].append("impatient")


def the_generic_triton(recipe: Recipe, world: World) -> None:
    triton = component(recipe, "triton")
    del triton["index"]
    triton["version"] = "3.8.0"


def a_torch_for_cuda(recipe: Recipe, world: World) -> None:
    torch = component(recipe, "torch")
    for key in ("index", "requires", "reason"):
        del torch[key]
    torch["version"] = "2.13.0"
    beside = ("torchvision", "torchaudio", "triton")
    recipe["component"] = [each for each in recipe["component"] if each["name"] not in beside]
    sglang = component(recipe, "sglang")
    sglang["requires"] = [each for each in sglang["requires"] if each not in beside]
    for each in recipe["component"]:
        each["needs"] = [need for need in each.get("needs", ()) if need != "triton"]
        if not each["needs"]:
            del each["needs"]


def what_the_engines_own_metadata_asks_for(recipe: Recipe, world: World) -> None:
    sglang = component(recipe, "sglang")
    del sglang["requires"]


def the_commit_of_another_tag(recipe: Recipe, world: World) -> None:
    world.repositories["sgl-project/sglang"].commit({}, tag="v0.5.17", branch="next")
    recipe["source"]["sglang"]["tag"] = "v0.5.17"


def a_release_that_the_series_is_not_made_for(recipe: Recipe, world: World) -> None:
    of_next = world.repositories["sgl-project/sglang"].commit({}, tag="v0.5.18", branch="next")
    recipe["source"]["sglang"] |= {"tag": "v0.5.18", "commit": of_next}


def a_release_in_which_an_edit_finds_nothing(recipe: Recipe, world: World) -> None:
    sampler = {"python/sglang/srt/layers/sampler.py": b"def sync(): ...\n"}
    of_next = world.repositories["sgl-project/sglang"].commit(sampler, tag="v0.5.19", branch="edited")
    recipe["source"]["sglang"] |= {"tag": "v0.5.19", "commit": of_next}
    recipe["patch"][0]["series"]["made-for"] = of_next


@pytest.mark.parametrize(
    ("decoy", "code", "reasons"),
    [
        (a_newer_triton_that_somebody_asks_for, 3, ("impatient", "triton>=3.7", "triton==3.6.0")),
        (the_generic_triton, 3, ("triton==3.6.0", "triton==3.8.0")),
        (a_torch_for_cuda, 3, ("would contain nvidia-cublas", "via torch")),
        (what_the_engines_own_metadata_asks_for, 3, ("kernels", "flashinfer-python", "nvidia-ml-py")),
        (the_commit_of_another_tag, 3, ("tag 'v0.5.17' has moved: pinned is",)),
        (a_release_that_the_series_is_not_made_for, 4, ("patch.rdna4.series", "sglang")),
        (a_release_in_which_an_edit_finds_nothing, 4, ("token-ids-of-one-rank", "sampler.py")),
    ],
)
def test_a_decoy_is_refused_while_it_is_locked(
    projects: Projects, world: World, decoy: Callable[[Recipe, World], None], code: int, reasons: tuple[str, ...]
) -> None:
    project = projects(SGLANG, lambda recipe: decoy(recipe, world))
    world.listed()
    ended = project.run("lock", SGLANG)
    assert ended.status == code, ended.stderr
    said = ended.stderr.partition("error: ")[2]
    assert all(reason in said for reason in reasons), said


def kernels_for_another_card(recipe: Recipe) -> None:
    component(recipe, "sglang-kernel")["build-env"]["AMDGPU_TARGET"] = "gfx942"


def a_target_that_the_compiler_does_not_know(recipe: Recipe) -> None:
    component(recipe, "awq-gemv-hip-ext")["build-env"]["PYTORCH_ROCM_ARCH"] = "gfx1299"


def no_target_so_that_the_card_is_asked(recipe: Recipe) -> None:
    del component(recipe, "awq-gemv-hip-ext")["build-env"]["PYTORCH_ROCM_ARCH"]


@pytest.mark.parametrize(
    ("decoy", "code", "reasons"),
    [
        (a_target_that_the_compiler_does_not_know, 5, ("invalid target ID 'gfx1299'",)),
        (no_target_so_that_the_card_is_asked, 5, ("cannot determine amdgcn architecture", "no such device")),
        (kernels_for_another_card, 6, ("of sglang-kernel has no code for gfx1201, it has gfx942",)),
    ],
)
def test_f75_f77_a_decoy_stops_the_build(
    projects: Projects, decoy: Change, code: int, reasons: tuple[str, ...]
) -> None:
    project = projects(SGLANG, decoy)
    project.done("lock", SGLANG)
    ended = project.build(SGLANG)
    assert ended.status == code, ended.stderr
    assert all(reason in ended.stderr for reason in reasons), ended.stderr
    assert project.tags(SGLANG) == []
    assert not project.workspace.pin(SGLANG).exists()


def openssl_in_the_build_stage_alone(recipe: Recipe, world: World) -> None:
    recipe["base"]["runtime"]["apt"].remove("libssl-dev")
    recipe["base"]["build"]["apt"].append("libssl-dev")


def an_aiter_that_moved_what_vllm_imports(recipe: Recipe, world: World) -> None:
    repository = world.repositories["ROCm/aiter"]
    repository.git("checkout", "--quiet", "-B", "later")
    repository.git("mv", "aiter/ops/triton/unified_attention.py", "aiter/ops/triton/attention.py")
    moved = repository.commit({}, tag="v0.1.24", branch="later")
    recipe["source"]["aiter"] |= {"tag": "v0.1.24", "commit": moved}
    component(recipe, "amd-aiter")["version"] = "0.1.24"


@pytest.mark.parametrize(
    ("image", "decoy", "reasons"),
    [
        (SGLANG, openssl_in_the_build_stage_alone, ("libssl-dev is missing in the runtime stage", "-lcrypto")),
        (
            VLLM,
            an_aiter_that_moved_what_vllm_imports,
            ("AITER 0.1.24 has moved modules", "aiter.ops.triton.unified_attention"),
        ),
    ],
)
def test_f01_f34_a_decoy_is_found_before_anything_is_built(
    projects: Projects, world: World, image: str, decoy: Callable[[Recipe, World], None], reasons: tuple[str, ...]
) -> None:
    project = projects(image, lambda recipe: decoy(recipe, world))
    project.done("lock", image)
    ended = project.run("check", image)
    assert ended.status == 2, ended.stdout
    assert all(reason in ended.stdout for reason in reasons), ended.stdout
