"""Which includes a ROCm build meets."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.includes import Truth, find_headers, includes_of
from builder.sourcetree import SourceTree


def needs(files: dict[str, str], *, cuda: bool = False) -> dict[str, tuple[str, ...]]:
    tree = SourceTree.of({path: dedent(text) for path, text in files.items()})
    return {need.header: need.files for need in find_headers(tree, {}) if need.cuda_only is cuda}


def test_headers_of_the_standard_libraries_and_of_the_tree_are_no_needs() -> None:
    files = {
        "e/a.cpp": """
            #include <vector>
            #include <unistd.h>
            #include <linux/futex.h>
            #include <immintrin.h>
            #  include   <openssl/sha.h>
            #include "beside.h"
            #include "../include/e/up.h"
            #include <e/up.h>
            #include <Python.h> // for the binding
        """,
        "e/beside.h": "",
        "include/e/up.h": "",
    }
    assert needs(files) == {"Python.h": ("e/a.cpp",), "openssl/sha.h": ("e/a.cpp",)}


def test_a_need_names_every_file_that_has_it() -> None:
    files = {"b.cu": "#include <numa.h>", "a.hip": "#include <numa.h>", "c.py": "#include <numa.h>"}
    assert needs(files) == {"numa.h": ("a.hip", "b.cu")}


def test_comments_and_strings_include_nothing() -> None:
    text = """
        // #include <a1.h>
        /* #include <a2.h>
        #include <a3.h> */ int x;
        const char* s = "/* not a comment";
        #include <seen.h>
        const char* t = "*/";
        #inc\\
        lude <joined.h>
    """
    assert [include.name for include in includes_of(dedent(text).encode())] == ["seen.h", "joined.h"]


@pytest.mark.parametrize(
    ("condition", "skipped"),
    [
        ("#ifdef USE_ROCM", False),
        ("#ifndef USE_ROCM", True),
        ("#if defined(__HIPCC__) && !defined(USE_CUDA)", False),
        ("#if defined(__CUDACC__) || defined USE_ROCM", False),
        ("#if !defined(USE_ROCM) && SOMETHING", True),
        ("#if SOMETHING(1, (2)) && defined(__CUDA_ARCH__)", True),
        ("#if SOMETHING(1, (2)) || defined(__CUDA_ARCH__)", False),
        ("#if CUDA_VERSION >= 12000", True),
        ("#if CUDA_VERSION < 12000", False),
        ("#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))", True),
        ("#if 0", True),
        ("#if 1", False),
        ("#if HIP_VERSION > 60000000", False),
        ("#if __cplusplus >= 202002L", False),
        ("#if )(", False),
        ("#ifdef", False),
        ("#ifdef UNKNOWN", False),
    ],
)
def test_a_condition_is_weighed_for_rocm_and_taken_when_unknown(condition: str, *, skipped: bool) -> None:
    assert [i.skipped for i in includes_of(f"{condition}\n#include <x.h>\n#endif\n".encode())] == [skipped]


def test_the_other_branches_are_what_the_first_leaves_over() -> None:
    text = """
        #ifdef USE_ROCM
        #include <rocm.h>
        #elif defined(ANY)
        #include <never.h>
        #else
        #include <cuda-side.h>
        #endif
        #ifdef ANY
        #include <maybe.h>
        #elif defined(USE_CUDA)
        #include <cuda.h>
        #else
        #include <otherwise.h>
        #endif
        #include <after.h>
        #else
        #endif
        #include <end.h>
    """
    assert {include.name: include.skipped for include in includes_of(dedent(text).encode())} == {
        "rocm.h": False, "never.h": True, "cuda-side.h": True,
        "maybe.h": False, "cuda.h": True, "otherwise.h": False, "after.h": False, "end.h": False,
    }  # fmt: skip


def test_cuda_headers_and_blocks_are_marked_and_not_needed() -> None:
    files = {
        "a.cu": """
            #include <cuda_runtime.h>
            #ifdef USE_ROCM
            #include <hip/hip_bf16.h>
            #else
            #include <only_there.h>
            #endif
        """
    }
    assert needs(files) == {"hip/hip_bf16.h": ("a.cu",)}
    assert set(needs(files, cuda=True)) == {"cuda_runtime.h", "only_there.h"}


def test_a_source_that_needs_what_hip_has_not_is_for_cuda_only_with_all_it_includes() -> None:
    files = {
        "gemm.cu": '#include "traits.cuh"\n#include <xxhash.h>',
        "traits.cuh": "#include <cutlass/cutlass.h>",
        "plain.cu": "#include <cuda_fp16.h>\n#include <zlib.h>",
        "both.cu": "#include <numa.h>\n#ifndef USE_ROCM\n#include <cute/tensor.hpp>\n#endif",
    }
    assert needs(files) == {"numa.h": ("both.cu",), "zlib.h": ("plain.cu",)}
    assert "xxhash.h" in needs(files, cuda=True)


def test_a_header_wanted_for_cuda_and_for_rocm_is_needed_by_the_latter() -> None:
    files = {"a.cu": "#include <cutlass/cutlass.h>\n#include <zlib.h>", "b.cpp": "#include <zlib.h>"}
    assert needs(files) == {"zlib.h": ("b.cpp",)}


def test_source_texts_inside_python_files_count() -> None:
    tree = SourceTree.of({"a.py": "x"})
    found = find_headers(tree, {"a.py": b"#include <mutex>\n#include <numa.h>\n"})
    assert [(need.header, need.files) for need in found] == [("numa.h", ("a.py",))]


@given(st.sampled_from(Truth), st.sampled_from(Truth))
def test_what_is_known_of_a_condition_obeys_de_morgan(one: Truth, other: Truth) -> None:
    assert min(one, other).inverse == max(one.inverse, other.inverse)


@given(st.text(alphabet='#if elsdnc<>"/*\\\n()!&|0aA_ ', max_size=200))
def test_no_text_confuses_the_reader(text: str) -> None:
    for include in includes_of(text.encode()):
        assert include.name.strip()
