"""That the changes of this image have their effect: asked of the finished image, so that vLLM is compiled once."""

import json

import pytest
from testinfra.host import Host

PROGRAM = """
import json
from vllm.model_executor.kernels.linear.mixed_precision import rdna_hybrid_w4a16 as gemm
from vllm.v1.attention.backends.rocm_aiter_unified_attn import RocmAiterUnifiedAttentionBackend as backend
print(json.dumps([gemm.LDS_CAPACITY_ELEMENTS, backend.supports_kv_connector()]))
"""


@pytest.mark.hint("rocm-images patches IMAGE says what became of the two changes in this release")
def test_the_gate_is_open_and_the_backend_takes_connectors(host: Host) -> None:
    """Without the one, wide layers run at the speed of the fallback; without the other, no KV connector starts."""
    ended = host.run("python3 -c %s", PROGRAM)
    assert ended.rc == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == [39321, True]
