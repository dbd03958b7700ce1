"""What compiles at run time does so in the final image: offline, as its user, from a cold cache, each alone.

The longest come first: probes start in this order, as many at a time as there are processors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builder.smoke.contract import Contract
from builder.target import GfxTarget

Probed = Callable[[], dict[str, Any]]


def _nothing(_contract: Contract) -> dict[str, Any]:
    return {}


def _in_writable(contract: Contract) -> dict[str, Any]:
    return {"writable": list(contract.writable)}


def _loader(contract: Contract, loader: str) -> dict[str, Any]:
    return {"loader": loader, "writable": list(contract.writable)}


def _hip_target(contract: Contract, hip_gfx: str) -> dict[str, Any]:
    return {"targets": [hip_gfx], "writable": list(contract.writable), "limit_seconds": 180}


def _hip_targets(contract: Contract) -> dict[str, Any]:
    return {"targets": list(contract.hip_gfx[:1]), "writable": list(contract.writable)}


def _triton_target(contract: Contract, triton_gfx: str) -> dict[str, Any]:
    target = GfxTarget(triton_gfx)
    return {
        "targets": [(target.text, target.wave_size)], "writable": list(contract.writable), "limit_seconds": 120,
    }  # fmt: skip


@pytest.mark.jit("sglang-hash")
@pytest.mark.ahead("hash_extension", _nothing)
@pytest.mark.hint("the runtime stage needs a C++ compiler, ninja, and the headers of Python, pybind11 and OpenSSL")
def test_the_hash_extension_compiles_from_a_cold_cache(probed: Probed) -> None:
    """The scheduler would die on the first prefill, after start-up and health checks have passed."""
    assert probed()["digest"]


@pytest.mark.jit("torch-inline")
@pytest.mark.ahead("torch_inline", _in_writable)
@pytest.mark.hint("the runtime stage needs a C++ compiler, ninja, and the headers of Python, torch and pybind11")
def test_torch_compiles_inline_source_into_the_temporary_directory(probed: Probed) -> None:
    """Kernels that the engine writes as text and hands to torch would die on the first request."""
    assert probed()["loaded"]


@pytest.mark.asks("loaders")
@pytest.mark.ahead("extension_loader", _loader)
@pytest.mark.hint(
    "run the loader in a container of the image; what it compiles with belongs into the runtime stage"
)
def test_the_loader_ends_with_an_extension_loaded(loader: str, probed: Probed) -> None:
    """A module that the engine compiles on first use would be missing, in the middle of a request."""
    assert probed()["loaded"]


@pytest.mark.jit("hip-module")
@pytest.mark.ahead("hip_module", _hip_targets)
@pytest.mark.hint(
    "the runtime stage needs hipcc, the headers of HIP, of the C++ that hipcc picks, and of pybind11"
)
def test_hipcc_compiles_a_python_module_that_loads(probed: Probed) -> None:
    """AITER and its like, which build Python modules with hipcc, would die on their first kernel."""
    assert probed()["loaded"]


@pytest.mark.jit("hipcc")
@pytest.mark.ahead("hip_compile", _hip_target)
@pytest.mark.hint("the runtime stage needs hipcc, the HIP headers, and the headers of the C++ that hipcc picks")
def test_hipcc_compiles_and_links_a_program(hip_gfx: str, probed: Probed) -> None:
    """Kernels that the engine compiles with hipcc would die, although `hipcc --version` works."""
    assert probed()["targets"][hip_gfx]["found"] == [hip_gfx]


@pytest.mark.jit("triton")
@pytest.mark.ahead("triton_compile", _triton_target)
@pytest.mark.hint("the runtime stage needs a C compiler, Python's headers, and a Triton that knows the GPU")
def test_triton_compiles_a_kernel_from_a_cold_cache(triton_gfx: str, probed: Probed) -> None:
    """The first Triton kernel, or the launcher that goes with it, would not compile for this GPU."""
    assert probed()["targets"][GfxTarget(triton_gfx).text]["bytes"] > 0
