// one file for each stage
region = "eu-central-1"
engine = {
  repository = "registry.example.org/llm/sglang-gfx1201"
  tag        = "0.5.16-12feef147c7d"
  digest     = "sha256:c41f0a9be7d2536880f1c3a4d5e6b7980a1b2c3d4e5f60718293a4b5c6d7e8f9"
}
