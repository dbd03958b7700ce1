from aiter.ops.triton.unified_attention import unified_attention  # noqa: F401


class RocmAttentionBackend:
    @classmethod
    def supports_kv_connector(cls) -> bool:
        return False


class RocmAiterUnifiedAttentionBackend(RocmAttentionBackend):
    @classmethod
    def supports_mm_prefix(cls) -> bool:
        return False

    forward_includes_kv_cache_update: bool = False

