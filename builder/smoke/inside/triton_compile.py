"""Compiles a Triton kernel that no cache can hold for a GPU that is not there, and Triton's host launcher."""

from __future__ import annotations

import importlib
import importlib.util
import time
from pathlib import Path
from typing import Any

from builder.smoke.inside import code_object
from builder.smoke.inside.evidence import Wrong, scratch

# Triton reads a kernel's source back from its file. The salt makes every run a cache miss.
_KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scaled_add(left, right, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.load(left + at, mask=inside) + {salt}.0 * tl.load(right + at, mask=inside)
    tl.store(out + at, tl.exp(total), mask=inside)
"""
_LAUNCHER = """
#include <Python.h>
static PyObject *salt(PyObject *self, PyObject *args) {{ return PyLong_FromLong({salt}L); }}
static PyMethodDef methods[] = {{{{"salt", salt, METH_NOARGS, NULL}}, {{NULL, NULL, 0, NULL}}}};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "smoke_launcher", NULL, -1, methods}};
PyMODINIT_FUNC PyInit_smoke_launcher(void) {{ return PyModule_Create(&module); }}
"""


def probe(targets: list[tuple[str, int]], writable: list[str]) -> dict[str, Any]:
    """Compile for each target (processor, wave size). Return bytes and seconds per target, and the launcher's."""
    folder = scratch(writable)
    salt = time.time_ns() % 1_000_000_007
    begun = time.monotonic()
    triton = importlib.import_module("triton")
    target = importlib.import_module("triton.backends.compiler").GPUTarget
    ast_source = importlib.import_module("triton.compiler").ASTSource
    figures: dict[str, Any] = {"triton": triton.__version__, "import_seconds": _since(begun), "targets": {}}
    kernel = _kernel(folder, salt)
    signature = {"left": "*fp32", "right": "*fp32", "out": "*fp32", "count": "i32", "BLOCK": "constexpr"}
    for gfx, wave_size in targets:
        begun = time.monotonic()
        source = ast_source(fn=kernel, signature=signature, constexprs={"BLOCK": 256})
        binary = triton.compile(source, target=target("hip", gfx, wave_size)).asm["hsaco"]
        figures["targets"][gfx] = {"bytes": len(binary), "seconds": _since(begun)}
        _require_code_for(gfx, binary)
    figures["launcher_seconds"] = _launcher(salt)
    return figures


def _kernel(folder: str, salt: int) -> object:
    path = Path(folder, "smoke_kernel.py")
    path.write_text(_KERNEL.format(salt=salt), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("smoke_kernel", path)
    if spec is None or spec.loader is None:
        raise Wrong(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel: object = module.scaled_add
    return kernel


def _require_code_for(gfx: str, binary: bytes) -> None:
    if not binary:
        raise Wrong(f"triton gave an empty code object for {gfx}")
    if not code_object.is_amdgpu(binary):
        raise Wrong(f"triton gave no AMD GPU code for {gfx}: it begins with {binary[:8].hex()}")
    actual = code_object.processor(binary)
    if actual is not None and actual != gfx.partition(":")[0]:
        raise Wrong(f"triton was asked for {gfx} and compiled for {actual}")


def _launcher(salt: int) -> float:
    """Build what Triton builds before the first launch: a small C extension, with its own compiler call."""
    begun = time.monotonic()
    build = importlib.import_module("triton.runtime.build")
    module = build.compile_module_from_src(_LAUNCHER.format(salt=salt), "smoke_launcher")
    if module.salt() != salt:
        raise Wrong("triton loaded another launcher than the one it was asked to compile")
    return _since(begun)


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 3)
