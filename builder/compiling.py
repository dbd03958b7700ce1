"""Which functions and decorators compile while a program runs, and what each compiling system needs to do so.

This is knowledge of other projects' interfaces, written down as data; what a tree does with them is found by
`builder.callsites`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiling:
    """A function that compiles what it is given: its kind, and which parameters carry the sources.

    The values are positions, None for keyword-only parameters.
    """

    kind: str
    sources: Mapping[str, int | None]


FUNCTIONS: Mapping[str, Compiling] = {
    "torch.utils.cpp_extension.load": Compiling(kind="cpp-extension", sources={"sources": 1}),
    "torch.utils.cpp_extension.load_inline": Compiling(
        kind="cpp-extension", sources={"cpp_sources": 1, "cuda_sources": 2}
    ),
    "tvm_ffi.cpp.load": Compiling(kind="tvm-ffi", sources={"cpp_files": None, "cuda_files": None}),
    "tvm_ffi.cpp.load_inline": Compiling(kind="tvm-ffi", sources={"cpp_sources": None, "cuda_sources": None}),
    "tvm_ffi.cpp.build": Compiling(kind="tvm-ffi", sources={"cpp_files": None, "cuda_files": None}),
    "tvm_ffi.cpp.build_inline": Compiling(kind="tvm-ffi", sources={"cpp_sources": None, "cuda_sources": None}),
    "aiter.jit.core.compile_ops": Compiling(kind="aiter", sources={"_md_name": 0}),
    "torch.cuda._compile_kernel": Compiling(kind="rtc", sources={"kernel_source": 0}),
    "cupy.RawKernel": Compiling(kind="rtc", sources={"code": 0}),
    "cupy.RawModule": Compiling(kind="rtc", sources={"code": 0}),
    "hip.hiprtc.hiprtcCreateProgram": Compiling(kind="rtc", sources={"src": 0}),
    "cuda.bindings.nvrtc.nvrtcCreateProgram": Compiling(kind="rtc", sources={"src": 0}),
    "cutlass.cute.compile": Compiling(kind="cute", sources={}),
    "flydsl.compiler.compile": Compiling(kind="flydsl", sources={}),
    "triton.compile": Compiling(kind="triton", sources={"src": 0}),
    "torch.compile": Compiling(kind="torch-compile", sources={}),
}
DECORATORS: Mapping[str, str] = {
    "triton.jit": "triton",
    "triton.autotune": "triton",
    "triton.heuristics": "triton",
    "triton.experimental.gluon.jit": "triton",
    "tilelang.jit": "tilelang",
    "flydsl.compiler.jit": "flydsl",
    "flydsl.compiler.kernel": "flydsl",
    "cutlass.cute.jit": "cute",
    "cutlass.cute.kernel": "cute",
    "cutlass.cute.experimental.jit": "cute",
    "cutlass.cute.experimental.kernel": "cute",
    "numba.jit": "numba",
    "numba.njit": "numba",
    "numba.vectorize": "numba",
    "numba.guvectorize": "numba",
}
RUNNERS = frozenset(
    {f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")} | {"os.system"}
)
COMPILERS = frozenset({"hipcc", "amdclang", "amdclang++", "clang", "clang++", "gcc", "g++", "cc", "c++",
                        "ninja", "make", "cmake"})  # fmt: skip
# Kinds that hand C++ to a compiler: files with such sites are searched for flags and inline sources.
NATIVE_KINDS = frozenset({"cpp-extension", "tvm-ffi", "aiter", "rtc"})
# What a compiling system itself starts or includes, besides what the engine's sources ask for. Triton compiles its
# launcher with the host's C compiler; PyTorch's and AITER's extensions are C++ for Python, built by ninja.
KIND_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "aiter": ("c++", "ninja", "hipcc"),
    "cpp-extension": ("c++", "ninja"),
    "torch-compile": ("c++",),
    "triton": ("cc",),
    "tvm-ffi": ("c++", "ninja"),
}
# PyTorch imports setuptools to build an extension; its wheel's metadata asks for it, Debian's package does not.
KIND_MODULES: Mapping[str, tuple[str, ...]] = {"cpp-extension": ("setuptools",)}
KIND_HEADERS: Mapping[str, tuple[str, ...]] = {
    "aiter": ("Python.h",),
    "cpp-extension": ("Python.h",),
    "torch-compile": ("Python.h",),
    "triton": ("Python.h",),
}
