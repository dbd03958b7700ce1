job "engine" {
  datacenters = ["dc1"]
  group "serve" {
    task "sglang" {
      driver = "docker"
      config {
        image   = "registry.example.org/llm/sglang-gfx1201:0.5.15-9ab0c4d2e1f0"
        devices = [{ host_path = "/dev/kfd" }, { host_path = "/dev/dri" }]
      }
    }
  }
}
