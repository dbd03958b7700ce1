resource "kubernetes_deployment" "sglang" {
  metadata { name = "sglang" }
  spec {
    template {
      spec {
        container {
          name  = "engine"
          image = "registry.example.org/llm/sglang-gfx1201:0.5.16-12feef147c7d@sha256:c41f0a9be7d2536880f1c3a4d5e6b7980a1b2c3d4e5f60718293a4b5c6d7e8f9" # tested
          args  = ["--model-path", "${var.models}/qwen3", "--host=0.0.0.0"]
        }
        container {
          name  = "router"
          image = "registry.example.org/llm/router:${var.router}"
        }
      }
    }
  }
}
