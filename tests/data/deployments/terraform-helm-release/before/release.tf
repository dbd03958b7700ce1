resource "helm_release" "sglang" {
  name  = "sglang"
  chart = "oci://charts.example.org/llm-engine"

  set {
    name  = "image.repository"
    value = "registry.example.org/llm/sglang-gfx1201"
  }
  set {
    name  = "image.tag"
    value = "0.5.15-9ab0c4d2e1f0"
  }
  set {
    name  = "image.digest"
    value = "sha256:3b1d5c7e9f2a4b6c8d0e1f3a5b7c9d2e4f6a8b0c1d3e5f7a9b2c4d6e8f0a1b3c"
  }
}
