"""The contract survives its trip to the process that runs the tests."""

from __future__ import annotations

import pytest

from builder.errors import RecipeError
from builder.smoke.contract import ComponentVersion, Contract
from builder.smoke.pythonset import Accepted, LockedDistribution, PythonSet


def full() -> Contract:
    return Contract(
        image="sglang-debian",
        user="engine",
        workdir="/srv",
        env={"PATH": "/usr/bin:/bin", "HOME": "/var/cache/engine"},
        writable=("/tmp", "/var/cache/engine"),
        gfx=("gfx1100",),
        components=(
            ComponentVersion(name="triton", distribution="triton", version="3.6.0"),
            ComponentVersion(name="hipcc", apt="hipcc", version="5.7.1-6+deb13u1"),
        ),
        imports=("sglang",),
        absent=("nvidia-cublas-cu12",),
        jit=("sglang-hash", "triton"),
        triton_gfx=("gfx1100", "gfx1201"),
        hip_gfx=("gfx1100",),
        packages={"base.build": ("g++",), "base.runtime": ("g++", "ninja-build")},
        shm="8g",
        python_set=PythonSet(
            distributions=(
                LockedDistribution(
                    project="triton", version="3.6.0", layer="triton", file="t.whl", sha256="5" * 64, record="r"
                ),
                LockedDistribution(project="vllm", version="0.28.0", layer="vllm"),
            ),
            debian={"torch": "python3-torch"},
            protected=("torch", "triton"),
            requires={"sglang": ("orjson",)},
            extras={"sglang": ("srt",)},
            forbid=("nvidia-*",),
            foreign_base="docker.io/rocm/dev",
        ),
        rocm="7.2.4",
        dlopen=("libnuma.so.1",),
        accepted=(Accepted(finding="library", subject="libcuda*", reason="no card", until="torch==2.6.0"),),
    )


def test_a_contract_read_back_is_the_contract_written() -> None:
    assert Contract.from_json(full().to_json()) == full()


def test_the_same_contract_is_the_same_text_whatever_the_order_of_its_tables() -> None:
    contract = full()
    turned = Contract.from_json(contract.to_json())
    assert turned.to_json() == contract.to_json()
    assert list(contract.env) != sorted(contract.env)
    assert contract.to_json().index('"HOME"') < contract.to_json().index('"PATH"')


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"image": "x", "components": [], "packages": {}, "colour": 1}'])
def test_what_is_no_contract_is_refused(text: str) -> None:
    with pytest.raises(RecipeError, match="the smoke contract cannot be read"):
        Contract.from_json(text)
