"""The two patches of vLLM in its shipped images, as hooks and in source: judged at two releases, and at work.

The nightly is stood in for by the real Python tree of the release, on the base that it has there.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from builder import process

from ..conftest import forget, removed_afterwards
from ..project import REPOSITORY, Ended, Project, make_project

pytestmark = [pytest.mark.engine, pytest.mark.network]

Built = tuple[Project, dict[str, Ended]]
NIGHTLY, PUBLISHED = "vllm-nightly-gfx1201", "vllm/vllm-openai-rocm:nightly"
# What the published image sets, and what of it a recipe does not choose.
PUBLISHED_ENV = {
    "AITER_ROCM_ARCH": "gfx942;gfx950", "CCACHE_COMPILERCHECK": "content", "CCACHE_DIR": "/root/.cache/ccache",
    "DEBIAN_FRONTEND": "noninteractive", "HIP_FORCE_DEV_KERNARG": "1", "HSA_ENABLE_IPC_MODE_LEGACY": "1",
    "HSA_NO_SCRATCH_RECLAIM": "1", "KINETO_CONFIG": "/app/libkineto.conf",
    "LD_LIBRARY_PATH": "/opt/rocm/lib:/usr/local/lib:", "MAX_JOBS": "", "PYTORCH_ROCM_ARCH": "gfx942;gfx1201",
    "ROCM_PATH": "/opt/rocm", "SAFETENSORS_FAST_GPU": "1", "SCCACHE_BUCKET": "", "SCCACHE_REGION": "",
    "TOKENIZERS_PARALLELISM": "false", "UV_HTTP_TIMEOUT": "500", "UV_INDEX_STRATEGY": "unsafe-best-match",
    "UV_LINK_MODE": "copy",
}  # fmt: skip
# What a published image has not: hooks, the user, the files of this project. What it has beside: AITER, by name.
AS_PUBLISHED = """\
USER 0:0
WORKDIR /app
RUN cd /usr/local/lib/python3.11/dist-packages \\
  && rm -rf rocm_images_hooks* /usr/share/rocm-images /var/cache/rocm-images \\
  && sed -i '/^engine:/d' /etc/passwd /etc/group /etc/shadow \\
  && mkdir aiter amd_aiter-0.1.19.dist-info && touch aiter/__init__.py \\
  && printf 'Metadata-Version: 2.1\\nName: amd-aiter\\nVersion: 0.1.19\\n' >amd_aiter-0.1.19.dist-info/METADATA \\
  && printf 'aiter/__init__.py,,\\n' >amd_aiter-0.1.19.dist-info/RECORD
ENTRYPOINT ["vllm", "serve"]
"""
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
    held = engine.images.get(reference)
    writable = held.labels["rocm-images.writable"].split(",")
    owner = held.attrs["Config"]["User"].partition(":")[0]
    out = engine.containers.run(
        reference, ["python3", "-c", program], read_only=True, network_mode="none", remove=True,
        tmpfs=dict.fromkeys(writable, f"uid={owner},gid={owner}"),
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


@pytest.fixture(scope="module")
def nightly(
    vllm: Built, registry: str, namespace: Callable[[], str], shared: dict[str, Path], engine: docker.DockerClient
) -> Iterator[Project]:
    """A project with the recipe of the nightly as it ships, its open pins closed, and what stands in published."""
    hub = f"{registry}/hub-{secrets.token_hex(4)}"
    there = f"{hub}/{PUBLISHED}"
    with removed_afterwards(engine) as projects:
        try:
            for words in (["build", "--quiet", "--network=none", "--tag", there, "-"], ["push", "--quiet", there]):
                done = process.run(["docker", *words], stdin=published(vllm[1][HOOKED].result))
                assert done.status == 0, done.stderr
            named = process.run(["docker", "image", "inspect", "--format", "{{index .RepoDigests 0}}", there])
            image = f"docker.io/{PUBLISHED}@{named.stdout.strip().partition('@')[2]}"

            def closed(recipe: dict[str, Any]) -> None:
                recipe["base"] = {stage: {"image": image} for stage in ("build", "runtime")}
                for component in recipe["component"]:
                    component["version"] = {"vllm": "0.28.0", "amd-aiter": "0.1.19"}[component["name"]]
                del recipe["open"]
                recipe["python"] = "3.11"
                recipe["build"]["disk"] = "1g"
                recipe["smoke"]["contracts"] = []  # this AITER is a name

            project = make_project(namespace(), shared)
            projects.append(project)
            project.add(NIGHTLY, REPOSITORY / "images" / NIGHTLY, closed)
            (project.workspace.root / "mirrors.toml").write_text(f'[registries]\n"docker.io" = "{hub}"\n')
            project.done("lock", NIGHTLY)
            yield project
        finally:
            forget(engine, f"{hub}/")


def published(base: str) -> str:
    """Return a Dockerfile for what stands in for the nightly."""
    env = "".join(f'ENV {name}="{value}"\n' for name, value in PUBLISHED_ENV.items())
    return f"FROM {base.partition('@')[0]}\n{env}{AS_PUBLISHED}"


def test_on_a_published_nightly_both_hooks_are_effective_and_nothing_is_installed(
    nightly: Project, engine: docker.DockerClient
) -> None:
    ended = nightly.build(NIGHTLY)
    assert ended.status == 0, ended.stderr
    record = json.loads(nightly.workspace.pin(NIGHTLY).read_text())
    assert {patch["name"]: patch["probe"]["found"] for patch in record["patches"]} == VALUES
    assert {patch["state"] for patch in record["patches"]} == {"effective"}
    assert record["distributions"] == []
    owners = {layer["owner"] for layer in record["layers"]}
    assert owners == {"base", "user", "workdir", "hooks", "manifest", "patches"}
    found = said(engine, ended.result, CALLERS)
    assert found["gate"] == ["skinny", "skinny", "skinny", "skinny", "triton", "triton"]
    assert found["unified"] == []


def test_a_nightly_with_another_value_than_the_hook_was_made_for_stops_the_build_with_both(
    nightly: Project,
) -> None:
    def made_for_another(recipe: dict[str, Any]) -> None:
        gate = recipe["patch"][1]
        gate["probe"]["before"] = gate["hook"]["expect"] = 65536

    before = nightly.tags(NIGHTLY)
    nightly.edit(NIGHTLY, made_for_another)
    nightly.done("lock", NIGHTLY)
    ended = nightly.build(NIGHTLY)
    assert ended.status == 4, ended.stderr
    assert "skinny-gate" in ended.stderr
    assert "32768" in ended.stderr
    assert "65536" in ended.stderr
    assert nightly.tags(NIGHTLY) == before
