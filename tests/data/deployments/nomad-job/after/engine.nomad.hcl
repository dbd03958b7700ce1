job "engine" {
  datacenters = ["dc1"]
  group "serve" {
    task "sglang" {
      driver = "docker"
      config {
        image   = "registry.example.org/llm/sglang-gfx1201:0.5.16-12feef147c7d@sha256:c41f0a9be7d2536880f1c3a4d5e6b7980a1b2c3d4e5f60718293a4b5c6d7e8f9"
        devices = [{ host_path = "/dev/kfd" }, { host_path = "/dev/dri" }]
      }
    }
  }
}
