"""Computes on the GPU what the processor computes as well, by torch, by a Triton kernel, by a HIP program."""

from __future__ import annotations

import importlib
import importlib.util
import time
from pathlib import Path
from typing import Any

from builder.smoke.inside.evidence import Wrong, find_hipcc, run, scratch, telling_lines

_KERNEL = """
import triton
import triton.language as tl

@triton.jit
def fused(left, right, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.load(left + at, mask=inside) + 2.0 * tl.load(right + at, mask=inside)
    tl.store(out + at, tl.exp(-total * total), mask=inside)
"""
_PROGRAM = """
#include <hip/hip_runtime.h>
#include <cmath>
#include <cstdio>
#include <vector>

#define DO(call) do { hipError_t e = (call); if (e != hipSuccess) { \\
  std::printf("%s: %s\\n", #call, hipGetErrorString(e)); return 2; } } while (0)

__global__ void root(float *values, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) values[at] = std::sqrt(values[at]) + 1.0f;
}

int main() {
  const int count = 100000;
  std::vector<float> values(count);
  for (int at = 0; at < count; ++at) values[at] = static_cast<float>(at);
  float *device = nullptr;
  DO(hipMalloc(&device, count * sizeof(float)));
  DO(hipMemcpy(device, values.data(), count * sizeof(float), hipMemcpyHostToDevice));
  hipLaunchKernelGGL(root, dim3((count + 255) / 256), dim3(256), 0, 0, device, count);
  DO(hipGetLastError());
  DO(hipDeviceSynchronize());
  DO(hipMemcpy(values.data(), device, count * sizeof(float), hipMemcpyDeviceToHost));
  DO(hipFree(device));
  for (int at = 0; at < count; ++at) {
    const float wanted = std::sqrt(static_cast<float>(at)) + 1.0f;
    if (std::fabs(values[at] - wanted) > 1e-3f * wanted) {
      std::printf("element %d is %f, expected %f\\n", at, values[at], wanted);
      return 1;
    }
  }
  std::printf("%d\\n", count);
  return 0;
}
"""
# The largest difference that rounding explains, for sums of 512 products of numbers around 1.
_TOLERANCES = {"float32": 1e-3, "float16": 0.25, "bfloat16": 2.0}
_SIDE = 512


def probe(what: str, targets: list[str], writable: list[str]) -> dict[str, Any]:
    """Compute `matmul`, `triton` or `hip`; `targets` are what a HIP program is compiled for."""
    begun = time.monotonic()
    match what:
        case "matmul":
            figures = _matmul(_torch())
        case "triton":
            figures = _triton(_torch(), scratch(writable))
        case "hip":
            figures = _hip(targets, Path(scratch(writable)))
        case _:
            raise Wrong(f"there is nothing called {what} to compute")
    return {**figures, "seconds": round(time.monotonic() - begun, 3)}


def _torch() -> Any:  # noqa: ANN401 -- the image's torch
    torch = importlib.import_module("torch")
    if torch.version.hip is None:
        raise Wrong(f"torch {torch.__version__} is no HIP build")
    if not torch.cuda.is_available():
        raise Wrong(f"torch {torch.__version__} sees no GPU")
    return torch


def _matmul(torch: Any) -> dict[str, Any]:  # noqa: ANN401 -- the image's torch
    torch.manual_seed(7)
    left, right = (torch.randn(_SIDE, _SIDE, dtype=torch.float64) for _ in range(2))
    differences = {}
    for name, tolerance in _TOLERANCES.items():
        kind = getattr(torch, name)
        wanted = left.to(kind).double() @ right.to(kind).double()
        got = (left.to(kind).cuda() @ right.to(kind).cuda()).double().cpu()
        differences[name] = float((got - wanted).abs().max())
        if not differences[name] <= tolerance:
            raise Wrong(
                f"a {name} matmul differs by {differences[name]:g} from the processor's, at most {tolerance}"
            )
    return {"differences": differences}


def _triton(torch: Any, folder: str) -> dict[str, Any]:  # noqa: ANN401 -- the image's torch
    path = Path(folder, "smoke_gpu_kernel.py")
    path.write_text(_KERNEL, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("smoke_gpu_kernel", path)
    if spec is None or spec.loader is None:
        raise Wrong(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    count = 100_003
    left, right = (torch.randn(count, device="cuda") for _ in range(2))
    out = torch.empty_like(left)
    module.fused[(count + 255) // 256,](left, right, out, count, BLOCK=256)
    wanted = torch.exp(-((left.double() + 2.0 * right.double()) ** 2))
    difference = float((out.double() - wanted).abs().max())
    if not difference <= 1e-5:
        raise Wrong(f"a Triton kernel differs by {difference:g} from the reference, at most 1e-05")
    return {"difference": difference}


def _hip(targets: list[str], folder: Path) -> dict[str, Any]:
    source, program = folder / "smoke_gpu.hip.cpp", folder / "smoke_gpu"
    source.write_text(_PROGRAM, encoding="utf-8")
    flags = [f"--offload-arch={gfx}" for gfx in targets]
    status, said = run([find_hipcc(), *flags, "-std=c++17", "-O2", str(source), "-o", str(program)], str(folder))
    if status != 0:
        lines = telling_lines(said) or said.splitlines()[-10:]
        raise Wrong(f"hipcc ended with status {status}: {lines[0] if lines else 'it said nothing'}", lines)
    status, said = run([str(program)])
    if status != 0:
        raise Wrong(f"a HIP program ended with status {status}: {' '.join(said.split())[:400]}")
    return {"elements": int(said)}
