"""What takes the place of callables of vLLM 0.28.0."""


def supports_kv_connector(cls: type) -> bool:
    """Say that the backend works with KV connectors.

    It inherits the refusal of ROCM_ATTN, which is about another layout of the cache; its own is blocks-first.
    """
    return True
