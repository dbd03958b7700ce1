"""Which of the engine's modules for ROCm import without a card: all but those that ask for one while they do."""

import json

import pytest
from testinfra.host import Host

ASK = """
import importlib, json
from pathlib import Path
import vllm

root = Path(vllm.__file__).parent
said = {}
for path in sorted(root.rglob("*.py")):
    name = ".".join(("vllm", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
    if any(word in name for word in ("rocm", "aiter", "rdna")):
        try:
            importlib.import_module(name)
            said[name] = ""
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""
# What these ask for while they are imported: a torch that is built for HIP and a card, or the compiled kernels.
DEVICE, KERNELS = "Torch not compiled with CUDA enabled", "'_OpNamespace' '_C' object has no attribute"
LEFT = {
    "vllm.compilation.passes.fusion.rocm_aiter_fusion": KERNELS,
    "vllm.model_executor.layers.fused_moe.router.rocm_fp32_router_gemm": DEVICE,
    "vllm.models.deepseek_v4.amd.rocm": DEVICE,
    "vllm.models.deepseek_v41.amd.rocm": DEVICE,
    "vllm.platforms.rocm": DEVICE,
    "vllm.v1.attention.backends.rocm_aiter_unified_attn": DEVICE,
}


@pytest.mark.hint("import the module in a container of the image; what it lacks belongs to a component")
def test_the_modules_for_rocm_that_ask_for_no_device_import(host: Host) -> None:
    """The engine would die on a card, at the first use of a backend, for a reason that is no card's."""
    asked = host.run("python3 -c %s", ASK)
    assert asked.rc == 0, asked.stderr
    said = json.loads(asked.stdout.splitlines()[-1])
    assert len(said) > 40
    for module, why in LEFT.items():
        assert why in said.pop(module, "it imports")
    assert {module: why for module, why in said.items() if why} == {}
