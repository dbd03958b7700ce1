"""The static checks on the engines they were written for, read from the files that their indexes serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builder.interfaces import Contract, check_contract
from builder.inventory import Inventory, difference, missing_packages, take_inventory
from builder.mirrors import load_mirrors
from builder.sources.index import LockedFile, fetch_wheels
from builder.sources.store import Store
from builder.sources.trees import read_tree
from builder.story import Silent
from builder.workspace import Workspace

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[3]
FILES = {
    "sglang-0.5.14-cp312-cp312-manylinux_2_34_x86_64.whl": (
        "4573aac774045ba926bab2f7efaaad7b120e4f84695ccf27c59d276f856deca8"
    ),
    "sglang-0.5.15-cp312-cp312-manylinux_2_34_x86_64.whl": (
        "b737df527bbba96fe098a02d182e98f72a1b3564d7fc754629041129a5d8edc1"
    ),
    "sglang-0.5.16-cp312-cp312-manylinux_2_34_x86_64.whl": (
        "b8ed16e72c7d6a643e31ba52e3ff106439e9dbb78543950e4c810158b826ea8e"
    ),
    "amd_aiter-0.1.7.post2.dev18-py3-none-any.whl": (
        "fe139d74438217c35e87e3b961166bac8db2d381eadccb371da2e63615f05a31"
    ),
    "vllm-0.28.0.tar.gz": "ac96dd0ec5be9c13f2aa4bfb50498c4727110406f6e4980b58a4097e4d18634a",
}
# What the recipe of an SGLang image for one gfx1201 card lists for its runtime stage, and its base carries.
RUNTIME = ("g++", "ninja-build", "python3-dev", "hipcc", "libamdhip64-dev")


@pytest.fixture(scope="session")
def fetched() -> Callable[[str], Path]:
    """Return a file of the table, from the store of this checkout or from its index."""
    store, mirrors = Store(Workspace(root=ROOT).store), load_mirrors(ROOT)

    def fetch(start: str) -> Path:
        (name,) = (name for name in FILES if name.startswith(start))
        project = name.partition("-")[0].replace("_", "-")
        locked = LockedFile(project=project, filename=name, sha256=FILES[name])
        return fetch_wheels([locked], store=store, mirrors=mirrors, story=Silent())[FILES[name]]

    return fetch


@pytest.fixture(scope="session")
def sglang(fetched: Callable[[str], Path]) -> dict[str, Inventory]:
    """Return the inventories of three releases."""
    return {
        version: take_inventory(read_tree(fetched(f"sglang-{version}-")))
        for version in ("0.5.14", "0.5.15", "0.5.16")
    }


@pytest.fixture(scope="session")
def contract(fetched: Callable[[str], Path]) -> Contract:
    """Return the contract of vLLM 0.28.0 with an AITER that is much older than its pin."""
    vllm = read_tree(fetched("vllm-"), packages=["vllm"])
    return check_contract(vllm, read_tree(fetched("amd_aiter-")), roots=["aiter"])


def test_f01_sglang_0_5_15_asks_for_openssl_and_python_headers(sglang: dict[str, Inventory]) -> None:
    found = difference(sglang["0.5.14"].summary(), sglang["0.5.15"])
    assert [need.header for need in found.headers] == ["Python.h", "openssl/sha.h"]
    assert {file for need in found.headers for file in need.files} == {
        "sglang/srt/mem_cache/cpp_utils/hash_binding.cpp"
    }
    assert [need.library for need in found.libraries] == ["crypto"]
    assert found.packages == ("libssl-dev", "python3-dev")
    assert found.sites["cpp-extension"] == (5, 6)
    assert found.sites["tvm-ffi"] == (94, 105)


def test_f01_the_runtime_stage_of_0_5_15_lacks_libssl_dev(sglang: dict[str, Inventory]) -> None:
    distributions = ["torch", "apache-tvm-ffi", "setuptools"]
    before = missing_packages(sglang["0.5.14"], RUNTIME, distributions=distributions)
    after = missing_packages(sglang["0.5.15"], RUNTIME, distributions=distributions)
    assert (before.missing, before.unknown) == ((), ())
    assert [missing.package for missing in after.missing] == ["libssl-dev"]
    assert missing_packages(sglang["0.5.15"], [*RUNTIME, "libssl-dev"], distributions=distributions).missing == ()


def test_the_call_sites_of_three_sglang_releases(sglang: dict[str, Inventory]) -> None:
    assert {version: len(inventory.native_sites) for version, inventory in sglang.items()} == {
        "0.5.14": 99, "0.5.15": 111, "0.5.16": 125,
    }  # fmt: skip
    assert sglang["0.5.16"].kinds == {
        "cpp-extension": 7, "cute": 306, "flydsl": 6, "numba": 1, "tilelang": 11, "torch-compile": 60,
        "triton": 530, "tvm-ffi": 118,
    }  # fmt: skip
    assert sglang["0.5.16"].loaders == (
        "sglang.jit_kernel.utils.compile.load_jit",
        "sglang.kernels.ops.diffusion.render.load_extension_with_recovery",
    )
    assert all(not inventory.unparsed for inventory in sglang.values())


def test_the_hash_extension_is_a_call_site_from_0_5_15_on(sglang: dict[str, Inventory]) -> None:
    places = {
        version: [(site.file, site.line) for site in inventory.sites if site.name == "hash_binding.cpp"]
        for version, inventory in sglang.items()
    }
    hashing = [("sglang/srt/mem_cache/cpp_utils/native_hash.py", 33)]
    assert places == {"0.5.14": [], "0.5.15": hashing, "0.5.16": hashing}


def test_no_cuda_only_need_reaches_a_rocm_image(sglang: dict[str, Inventory]) -> None:
    needed = sglang["0.5.16"].summary()
    assert not [header for header in needed.headers if header.startswith(("cu", "cutlass", "cute", "nv", "flash"))]
    assert needed.libraries == ("crypto",)
    assert needed.cuda_headers > 50


def test_aiter_compiles_its_ops_at_run_time(fetched: Callable[[str], Path]) -> None:
    inventory = take_inventory(read_tree(fetched("amd_aiter-")))
    assert inventory.kinds == {"aiter": 168, "program": 3, "triton": 271}
    assert inventory.programs == ("c++", "cc", "hipcc", "ninja")


def test_f34_the_contract_lists_what_an_old_aiter_lacks_for_vllm_0_28_0(contract: Contract) -> None:
    assert contract.checked == 151
    assert contract.unparsed == {}
    assert contract.unknown == ()
    wanted = [breach.wanted for breach in contract.missing]
    assert len(wanted) == 23
    assert {
        "aiter.paged_attention_common",
        "aiter.ops.fused_qk_rmsnorm_group_quant",
        "aiter.ops.gemm_op_a8w8.AITER_CONFIGS",
        "aiter.ops.mhc",
        "aiter.ops.triton.rope.rope",
    } <= set(wanted)
    assert "aiter.ops.triton.unified_attention" not in wanted
    assert [breach.wanted for breach in contract.optional] == [
        "aiter.ops.flydsl.utils",
        "aiter.ops.triton.gated_delta_net",
        "aiter.ops.triton.gluon.mla_decode_gluon",
        "aiter.ops.triton.gluon.mla_gluon",
        "aiter.ops.triton.moe.moe_routing",
    ]


def test_the_contract_says_where_and_when_a_missing_name_hurts(contract: Contract) -> None:
    said = {breach.wanted: str(breach) for breach in contract.missing}
    assert said["aiter.ops.gemm_op_a8w8.AITER_CONFIGS"] == (
        "aiter.ops.gemm_op_a8w8.AITER_CONFIGS: no such name in aiter/ops/gemm_op_a8w8.py; "
        "needed when called, vllm/_aiter_ops.py:2990 and 1 more"
    )
