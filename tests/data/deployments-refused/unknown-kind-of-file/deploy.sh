docker run registry.example.org/llm/sglang-gfx1201:1
