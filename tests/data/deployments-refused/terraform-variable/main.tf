engine = "registry.example.org/llm/sglang-gfx1201:${var.tag}"
