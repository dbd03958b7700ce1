"""The two patches of vLLM in its shipped images, as hooks and in source: judged at two releases, and at work."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from ..conftest import removed_afterwards
from ..project import REPOSITORY, Ended, Project, make_project

pytestmark = [pytest.mark.engine, pytest.mark.network]

Built = tuple[Project, dict[str, Ended]]
HOOKED, IN_SOURCE = "vllm-debian", "vllm-debian-patched"
VALUES = {
    "kv-connector": {"before": False, "after": True},
    "skinny-gate": {"before": 32768, "after": 39321},
}
LEDGER = "import json; print(json.dumps(json.load(open('/usr/share/rocm-images/patches.json'))))"
# The kernels themselves need a card. Which of them is called, and which backend is refused, vLLM decides before.
CALLERS = """
import json
import torch
import vllm._custom_ops as ops
from vllm.model_executor.kernels.linear.mixed_precision import rdna_hybrid_w4a16 as kernel
from vllm.v1.attention.backends.rocm_aiter_unified_attn import RocmAiterUnifiedAttentionBackend
from vllm.v1.attention.backends.rocm_attn import RocmAttentionBackend

ops.wvSplitK_int4_g = lambda *words: "skinny"
kernel.triton_w4a16_skinny_fmt_gemm = lambda **words: "triton"

def taken(rows, width):
    x = torch.zeros(rows, width, dtype=torch.float16)
    weights = torch.zeros(1, width // 2, dtype=torch.int8)
    return kernel._rdna_hybrid_w4a16_apply_impl(x, weights, x, None, None, 1, 128)

def refused(backend):
    return backend.validate_configuration(
        head_size=128, dtype=torch.float16, kv_cache_dtype="auto", block_size=64, use_mla=False, has_sink=False,
        use_sparse=False, use_mm_prefix=False, use_per_head_quant_scales=False, device_capability=None,
        attn_type="decoder", use_kv_connector=True,
    )

print(json.dumps({
    "gate": [taken(1, 32768), taken(1, 32776), taken(3, 13104), taken(1, 39320), taken(1, 39328), taken(6, 8)],
    "unified": refused(RocmAiterUnifiedAttentionBackend),
    "plain": refused(RocmAttentionBackend),
}))
"""


@pytest.fixture(scope="module")
def vllm(namespace: Callable[[], str], shared: dict[str, Path], engine: docker.DockerClient) -> Iterator[Built]:
    """Both images as they are shipped, built and tested by the command line; and what each run said."""
    with removed_afterwards(engine) as projects:
        project = make_project(namespace(), shared)
        projects.append(project)
        shutil.copytree(REPOSITORY / "patches/vllm", project.workspace.root / "patches/vllm")
        ended = {}
        for image in (HOOKED, IN_SOURCE):
            shutil.copytree(REPOSITORY / "images" / image, project.workspace.images / image)
            ended[image] = project.build(image)
            assert ended[image].status == 0, ended[image].stderr
        yield project, ended


@pytest.fixture(params=[HOOKED, IN_SOURCE])
def image(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def said(engine: docker.DockerClient, reference: str, program: str) -> Any:
    """Return what a program says last in an image, as its user, read-only and without a network, as JSON."""
    writable = engine.images.get(reference).labels["rocm-images.writable"].split(",")
    out = engine.containers.run(
        reference, ["python3", "-c", program], read_only=True, network_mode="none", remove=True,
        tmpfs=dict.fromkeys(writable, "uid=1000,gid=1000"),
    )  # fmt: skip
    return json.loads(out.splitlines()[-1])  # vLLM logs to standard output


def record(vllm: Built, image: str) -> dict[str, Any]:
    return dict(json.loads(vllm[0].workspace.pin(image).read_text()))


def test_both_patches_have_their_effect_and_the_ledger_says_so_wherever_it_is(
    vllm: Built, engine: docker.DockerClient, image: str
) -> None:
    reference = vllm[1][image].result
    ledger = said(engine, reference, LEDGER)["patches"]
    assert {patch["name"]: patch["state"] for patch in ledger} == dict.fromkeys(VALUES, "effective")
    assert {patch["name"]: patch["probe"]["found"] for patch in ledger} == VALUES
    recorded = record(vllm, image)["patches"]
    assert {patch["name"]: patch["probe"]["found"] for patch in recorded} == VALUES
    assert all(patch["upstream"].startswith("https://github.com/vllm-project/vllm/pull/") for patch in recorded)
    label = json.loads(engine.images.get(reference).labels["rocm-images.patches"])
    assert {patch["name"]: {key: patch[key] for key in ("before", "after")} for patch in label} == VALUES
    tests = record(vllm, image)["smoke"]["tests"]
    effects = {name: outcome for name, outcome in tests.items() if "effect" in name}
    assert len(effects) == (4 if image == HOOKED else 2)
    assert set(effects.values()) == {"passed"}


def test_callers_inside_vllm_read_the_new_values(vllm: Built, engine: docker.DockerClient, image: str) -> None:
    found = said(engine, vllm[1][image].result, CALLERS)
    assert found["gate"] == ["skinny", "skinny", "skinny", "skinny", "triton", "triton"]
    assert found["unified"] == []
    assert "KV connector not supported" in found["plain"]


def test_the_two_images_differ_in_what_is_patched_alone(vllm: Built) -> None:
    project, _ = vllm
    layers = {
        image: {layer["owner"]: layer["digest"] for layer in record(vllm, image)["layers"]}
        for image in (HOOKED, IN_SOURCE)
    }
    assert set(layers[HOOKED]) - set(layers[IN_SOURCE]) == {"hooks"}
    differing = {owner for owner in layers[IN_SOURCE] if layers[IN_SOURCE][owner] != layers[HOOKED][owner]}
    assert differing == {"vllm", "manifest", "patches"}
    trees = {
        image: next(each for each in record(vllm, image)["components"] if each["name"] == "vllm").get("patched")
        for image in (HOOKED, IN_SOURCE)
    }
    assert trees[HOOKED] is None
    assert f'patched = "{trees[IN_SOURCE]}"' in project.workspace.lock(IN_SOURCE).read_text()


@pytest.mark.parametrize(
    ("version", "states"),
    [
        ("0.28.0", {HOOKED: ("applies", "applies"), IN_SOURCE: ("applies", "applies")}),
        ("0.33.0", {HOOKED: ("redundant", "applies"), IN_SOURCE: ("redundant", "conflicts")}),
    ],
)
def test_a_bump_is_judged_without_building_anything(
    vllm: Built, image: str, version: str, states: dict[str, tuple[str, str]]
) -> None:
    ended = vllm[0].run("patches", image, "--at", f"vllm={version}", "--no-suggest", "--json")
    (tree,) = json.loads(ended.stdout)["trees"]
    assert tuple(patch["state"] for patch in tree["patches"]) == states[image]
    assert ended.status == (4 if "conflicts" in states[image] else 0)
    (gate,) = (patch for patch in tree["patches"] if patch["name"] == "skinny-gate")
    assert "32768" in "\n".join(gate["notes"])
