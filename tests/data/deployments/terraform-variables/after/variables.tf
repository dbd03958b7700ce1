variable "engine_image_repository" {
  type    = string
  default = "registry.example.org/llm/sglang-gfx1201"
}

variable "engine_image_tag" {
  description = "Changes with every \"tested\" build."
  type        = string
  default     = "0.5.16-12feef147c7d@sha256:c41f0a9be7d2536880f1c3a4d5e6b7980a1b2c3d4e5f60718293a4b5c6d7e8f9"
}

/* variable "engine_image_tag" { default = "1.0" } */
variable "replicas" { default = 1 }
