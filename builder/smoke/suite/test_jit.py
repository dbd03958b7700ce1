"""What compiles at run time does so in the final image: offline, as its user, from a cold cache, each alone."""

from __future__ import annotations

import pytest

from builder.smoke.contract import Contract
from builder.smoke.plugin import Probe
from builder.target import GfxTarget


@pytest.mark.jit("sglang-hash")
@pytest.mark.hint("the runtime stage needs a C++ compiler, ninja, and the headers of Python, pybind11 and OpenSSL")
def test_the_hash_extension_compiles_from_a_cold_cache(probe: Probe) -> None:
    """The scheduler would die on the first prefill, after start-up and health checks have passed."""
    assert probe("hash_extension")["digest"]


@pytest.mark.jit("triton")
@pytest.mark.hint("the runtime stage needs a C compiler, Python's headers, and a Triton that knows the GPU")
def test_triton_compiles_a_kernel_from_a_cold_cache(triton_gfx: str, probe: Probe, contract: Contract) -> None:
    """The first Triton kernel, or the launcher that goes with it, would not compile for this GPU."""
    target = GfxTarget(triton_gfx)
    figures = probe(
        "triton_compile",
        targets=[(target.text, target.wave_size)],
        writable=list(contract.writable),
        limit_seconds=120,
    )
    assert figures["targets"][target.text]["bytes"] > 0


@pytest.mark.jit("hipcc")
@pytest.mark.hint("the runtime stage needs hipcc, the HIP headers, and the headers of the C++ that hipcc picks")
def test_hipcc_compiles_and_links_a_program(hip_gfx: str, probe: Probe, contract: Contract) -> None:
    """Kernels that the engine compiles with hipcc would die, although `hipcc --version` works."""
    figures = probe("hip_compile", targets=[hip_gfx], writable=list(contract.writable), limit_seconds=180)
    assert figures["targets"][hip_gfx]["found"] == [hip_gfx]
