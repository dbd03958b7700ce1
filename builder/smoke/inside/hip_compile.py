"""Compiles and links a HIP program that uses the C++ standard library on both sides, for a GPU not there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from builder.smoke.inside import code_object
from builder.smoke.inside.evidence import Wrong, find_hipcc, run, scratch, telling_lines

_PROGRAM = """
#include <hip/hip_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void smooth(float *out, const float *in, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) out[at] = std::sqrt(std::fabs(in[at])) + std::fma(in[at], 2.0f, std::floor(in[at]));
}

extern "C" float host_side(int count) {
  std::vector<float> values(count);
  for (int at = 0; at < count; ++at) values[at] = std::pow(static_cast<float>(count - at), 2.0f);
  std::sort(values.begin(), values.end());
  return std::sqrt(values.back());
}

int main() {
  int devices = 0;
  if (hipGetDeviceCount(&devices) == hipSuccess && devices > 0) {
    hipLaunchKernelGGL(smooth, dim3(1), dim3(64), 0, 0, nullptr, nullptr, 0);
  }
  std::printf("%.0f\\n", host_side(7));
  return 0;
}
"""
_EXPECTED = "7"


def probe(targets: list[str], writable: list[str]) -> dict[str, Any]:
    """Build one program per target, look for the target's entry in it and run its host side."""
    hipcc = find_hipcc()
    folder = Path(scratch(writable))
    source = folder / "smoke.hip.cpp"
    source.write_text(_PROGRAM, encoding="utf-8")
    figures: dict[str, Any] = {"hipcc": hipcc, "targets": {}}
    for gfx in targets:
        begun = time.monotonic()
        program = folder / ("smoke-" + gfx.replace(":", "-"))
        _build(hipcc, gfx, source, program, [])
        found = _targets_of(hipcc, gfx, source, program)
        if gfx not in found:
            there = ", ".join(found) or "none"
            raise Wrong(f"hipcc was asked for {gfx} and linked a program with code for: {there}")
        _run_host_side(program)
        figures["targets"][gfx] = {
            "bytes": program.stat().st_size, "seconds": round(time.monotonic() - begun, 3), "found": found,
        }  # fmt: skip
    return figures


def _build(hipcc: str, gfx: str, source: Path, program: Path, more: list[str]) -> None:
    argv = [hipcc, "--offload-arch=" + gfx, "-std=c++17", "-O2", *more, str(source), "-o", str(program)]
    status, said = run(argv, cwd=str(source.parent))
    if status != 0:
        lines = telling_lines(said) or said.splitlines()[-10:]
        raise Wrong(
            f"hipcc ended with status {status} for {gfx}: {lines[0] if lines else 'it said nothing'}", lines
        )


def _targets_of(hipcc: str, gfx: str, source: Path, program: Path) -> list[str]:
    data = program.read_bytes()
    if not code_object.bundle_targets(data) and code_object.has_compressed_bundle(data):
        # Newer compilers compress the bundle, mostly with zstd, which Python reads only from 3.14 on.
        _build(hipcc, gfx, source, program, ["--no-offload-compress"])
        data = program.read_bytes()
    return code_object.bundle_targets(data)


def _run_host_side(program: Path) -> None:
    """Run what was linked: it needs the HIP runtime library, and no GPU."""
    status, said = run([str(program)])
    if status != 0 or said.strip().splitlines()[-1:] != [_EXPECTED]:
        lines = said.splitlines()[-10:]
        raise Wrong(f"the linked HIP program ended with status {status}: {' '.join(lines)[:400]}", lines)
