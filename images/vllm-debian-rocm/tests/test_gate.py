"""Tests of the parts that only this image has."""

import json

import pytest
from testinfra.host import Host

# Neither kernel runs without a card. Which of them is called, vLLM decides before.
ASK = """
import json
import torch
import vllm._custom_ops as ops
from vllm.model_executor.kernels.linear.mixed_precision import rdna_hybrid_w4a16 as kernel

ops.wvSplitK_int4_g = lambda *words: "skinny"
kernel.triton_w4a16_skinny_fmt_gemm = lambda **words: "triton"

def taken(rows, width):
    x = torch.zeros(rows, width, dtype=torch.float16)
    weights = torch.zeros(1, width // 2, dtype=torch.int8)
    return kernel._rdna_hybrid_w4a16_apply_impl(x, weights, x, None, None, 1, 128)

print(json.dumps([taken(1, 32768), taken(1, 32776), taken(1, 39320), taken(1, 39328), taken(1, 47184)]))
"""


@pytest.mark.hint("compare patches/vllm-0.33 with the gate in front of wvSplitK_int4_g, and with its TORCH_CHECK")
def test_the_skinny_gemm_gets_what_it_takes_and_nothing_more(host: Host) -> None:
    """Requests of some widths would be slower than they need to be, or end with the kernel's refusal."""
    said = host.run("python3 -c %s", ASK)
    assert said.rc == 0, said.stderr
    assert json.loads(said.stdout.splitlines()[-1]) == ["skinny", "skinny", "skinny", "triton", "triton"]
