image = {
  repository = "registry.example.org/llm/sglang-gfx1201"
  tag = local.tag
}
