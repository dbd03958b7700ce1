// one file for each stage
region = "eu-central-1"
engine = {
  repository = "registry.example.org/llm/sglang-gfx1201"
  tag        = "0.5.15-9ab0c4d2e1f0"
  digest     = "sha256:3b1d5c7e9f2a4b6c8d0e1f3a5b7c9d2e4f6a8b0c1d3e5f7a9b2c4d6e8f0a1b3c"
}
