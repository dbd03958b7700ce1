"""Compiles a Python module with hipcc, as AITER does: a kernel, pybind11 and the C++ library; and loads it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import math
import sysconfig
import time
from pathlib import Path
from typing import Any

from builder.smoke.inside import code_object
from builder.smoke.inside.evidence import Wrong, find_hipcc, run, scratch, telling_lines

_SOURCE = """
#include <hip/hip_runtime.h>
#include <pybind11/pybind11.h>
#include <cmath>
#include <vector>

__global__ void root(float *values, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) values[at] = std::sqrt(std::fabs(values[at]));
}

void launch(float *values, int count) { hipLaunchKernelGGL(root, dim3(1), dim3(64), 0, 0, values, count); }

double length_of(int count) {
  std::vector<double> values(count, 2.0);
  double sum = 0;
  for (double value : values) sum += std::pow(value, 2.0);
  return std::sqrt(sum);
}

PYBIND11_MODULE(smoke_hip, module) {
  module.def("length_of", &length_of);
  module.def("kernel", [] { return reinterpret_cast<std::uintptr_t>(&launch); });
}
"""


def probe(targets: list[str], writable: list[str]) -> dict[str, Any]:
    """Return the module's file, the targets of its code, and seconds."""
    begun = time.monotonic()
    hipcc = find_hipcc()
    folder = Path(scratch(writable))
    source = folder / "smoke_hip.hip.cpp"
    source.write_text(_SOURCE, encoding="utf-8")
    built = folder / f"smoke_hip{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = [f"--offload-arch={gfx}" for gfx in targets]
    includes = [f"-I{path}" for path in (sysconfig.get_paths()["include"], *_pybind11())]
    status, said = run(
        [hipcc, *flags, "-shared", "-fPIC", "-std=c++17", "-O1", *includes, str(source), "-o", str(built)],
        cwd=str(folder),
    )
    if status != 0:
        lines = telling_lines(said) or said.splitlines()[-10:]
        raise Wrong(f"hipcc ended with status {status}: {lines[0] if lines else 'it said nothing'}", lines)
    loaded = _load(built)
    if not math.isclose(loaded.length_of(4), 4.0):
        raise Wrong(f"the compiled module gives {loaded.length_of(4)}, expected 4.0")
    return {
        "loaded": str(built),
        "targets": code_object.bundle_targets(built.read_bytes()),
        "seconds": round(time.monotonic() - begun, 3),
    }


def _pybind11() -> list[str]:
    """Return where pybind11's headers are beside those of the system: its own wheel, or torch's copy."""
    for name in ("pybind11", "torch"):
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or []) if spec is not None else []:
            if Path(place, "include", "pybind11", "pybind11.h").is_file():
                return [str(Path(place, "include"))]
    return []


def _load(built: Path) -> Any:  # noqa: ANN401 -- a module that is made here
    loader = importlib.machinery.ExtensionFileLoader("smoke_hip", str(built))
    spec = importlib.util.spec_from_file_location("smoke_hip", built, loader=loader)
    if spec is None:
        raise Wrong(f"{built} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
