resource "helm_release" "sglang" {
  name  = "sglang"
  chart = "oci://charts.example.org/llm-engine"

  set {
    name  = "image.repository"
    value = "registry.example.org/llm/sglang-gfx1201"
  }
  set {
    name  = "image.tag"
    value = "0.5.16-12feef147c7d"
  }
  set {
    name  = "image.digest"
    value = "sha256:c41f0a9be7d2536880f1c3a4d5e6b7980a1b2c3d4e5f60718293a4b5c6d7e8f9"
  }
}
