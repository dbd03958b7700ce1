"""What counts as a call site, and how a name in a file is followed to what it stands for."""

from __future__ import annotations

from collections import Counter
from textwrap import dedent

import pytest

from builder.callsites import find_call_sites
from builder.sourcetree import SourceTree


def sites(**files: str) -> list[tuple[str, str, str]]:
    """Return file, kind and name of the sites in files given as `package__module=text`."""
    tree = SourceTree.of({f"{name.replace('__', '/')}.py": dedent(text) for name, text in files.items()})
    return [(site.file, site.kind, site.name) for site in find_call_sites(tree).sites]


@pytest.mark.parametrize(
    "text",
    [
        "from torch.utils.cpp_extension import load\nload('m', ['m.cpp'])",
        "from torch.utils.cpp_extension import load as build\nbuild('m', ['m.cpp'])",
        "from torch.utils import cpp_extension\ncpp_extension.load(name='m', sources=['m.cpp'])",
        "from torch.utils import cpp_extension as ext\next.load('m', ['m.cpp'])",
        "import torch\ntorch.utils.cpp_extension.load('m', ['m.cpp'])",
        "import torch.utils.cpp_extension as c\nc.load('m', ['m.cpp'])",
        "import torch.utils.cpp_extension\nmake = torch.utils.cpp_extension.load\nmake('m', ['m.cpp'])",
        "import importlib\ne = importlib.import_module('torch.utils.cpp_extension')\ne.load('m', ['m.cpp'])",
        "def f():\n    from torch.utils.cpp_extension import load\n    return load('m', ['/x/m.cpp'])",
        "def f(here):\n    from torch.utils.cpp_extension import load\n    return load('m', [f'{here}/m.cpp'])",
        "try:\n    from torch.utils.cpp_extension import load\nexcept E:\n    load = 0\nload('m', ['m.cpp'])",
    ],
)
def test_a_call_is_found_however_its_name_was_imported(text: str) -> None:
    assert sites(a=text) == [("a.py", "cpp-extension", "m.cpp")]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.load('m.cpp')",
        "import json\njson.load(open('m.cpp'))",
        "from torch.utils.cpp_extension import load\n# load('m', ['m.cpp'])",
        "from torch.utils.cpp_extension import load\ntext = \"load('m', ['m.cpp'])\"",
        "from torch.utils.cpp_extension import load\ndef f(load):\n    load('m', ['m.cpp'])",
        "from torch.utils.cpp_extension import CppExtension\nCppExtension('m', ['m.cpp'])",
        "def load(*a): ...\nload('m', ['m.cpp'])",
        "import re\nre.compile('x')",
    ],
)
def test_what_only_looks_like_a_call_is_none(text: str) -> None:
    assert sites(a=text) == []


def test_a_name_is_followed_through_the_re_exports_of_the_tree() -> None:
    tree = SourceTree.of(
        {
            "pkg/tools.py": "from torch.utils.cpp_extension import load as build_extension",
            "pkg/__init__.py": "from .tools import build_extension",
            "pkg/kernels/star.py": "from pkg import *\nbuild_extension('m', ['m.cpp'])",
            "pkg/kernels/direct.py": "from .. import build_extension as b\nb('n', ['n.cpp'])",
        }
    )
    assert [(site.file, site.kind, site.name) for site in find_call_sites(tree).sites] == [
        ("pkg/kernels/direct.py", "cpp-extension", "n.cpp"),
        ("pkg/kernels/star.py", "cpp-extension", "m.cpp"),
    ]


LOADER = """
    def load_jit(*args, cpp_files=None, cuda_files=None, wrappers=None):
        from tvm_ffi.cpp import load, load_inline
        cuda_files = [str(ROOT / f) for f in cuda_files or []]
        sources = [f'#include "{path}"' for path in cuda_files]
        sources += [wrap(w) for w in wrappers or []]
        if wrappers:
            return load_inline('_'.join(args), cuda_sources=sources)
        return load('_'.join(args), cpp_files=cpp_files, cuda_files=cuda_files)
"""


def test_calls_of_a_loader_are_the_sites_and_not_its_body() -> None:
    tree = SourceTree.of(
        {
            "e/utils/compile.py": dedent(LOADER),
            "e/utils/__init__.py": "from e.utils.compile import load_jit",
            "e/norm.py": dedent("""
                from e.utils import load_jit
                def norm(dtype):
                    return load_jit('norm', dtype, cuda_files=['norm.cuh'], wrappers=[('n', f'Norm<{dtype}>')])
                def fused(dtype):
                    return load_jit('fused', dtype, cuda_files=['fused.cuh'])
            """),
        }
    )
    found = find_call_sites(tree)
    assert found.loaders == ("e.utils.compile.load_jit",)
    assert [(s.file, s.line, s.kind, s.name, s.via) for s in found.sites] == [
        ("e/norm.py", 4, "tvm-ffi", "norm.cuh", "e.utils.compile.load_jit"),
        ("e/norm.py", 6, "tvm-ffi", "fused.cuh", "e.utils.compile.load_jit"),
    ]


def test_a_loader_of_a_loader_is_followed_too() -> None:
    found = sites(
        e__a="def first(files):\n    from tvm_ffi.cpp import load\n    return load('x', cuda_files=files)",
        e__b="from e.a import first\ndef second(paths):\n    return first(list(paths))",
        e__c="from e.b import second\nsecond(['one.cu'])\nsecond(paths=['two.cu'])",
    )
    assert found == [("e/c.py", "tvm-ffi", "one.cu"), ("e/c.py", "tvm-ffi", "two.cu")]


def test_a_function_whose_parameters_only_choose_flags_is_no_loader() -> None:
    text = """
        from torch.utils.cpp_extension import load
        def build(flags, name):
            return load(name, ['hash.cpp'], extra_cflags=flags)
        build(['-O3'], 'a')
    """
    assert sites(a=text) == [("a.py", "cpp-extension", "hash.cpp")]


def test_a_source_written_in_the_file_is_a_site_where_it_is_compiled() -> None:
    text = '''
        import torch.utils.cpp_extension
        SOURCE = """
        #include <nccl.h>
        extern "C" int f() { return 0; }
        """
        def build(directory):
            return torch.utils.cpp_extension.load_inline('alloc', SOURCE, build_directory=directory)
    '''
    tree = SourceTree.of({"a.py": dedent(text)})
    found = find_call_sites(tree)
    assert [(site.line, site.name) for site in found.sites] == [(8, "alloc")]
    assert b"#include <nccl.h>" in found.inline["a.py"]


def test_a_decorated_function_is_one_site_of_its_own_kind() -> None:
    text = """
        import triton
        import triton.language as tl
        from triton import autotune
        import cutlass.cute as cute
        from numba import njit
        import tilelang

        @autotune(configs=[], key=['n'])
        @triton.jit
        def one(x): ...

        class K:
            @cute.jit
            def two(self): ...

        @tilelang.jit(out_idx=[1])
        def three(): ...

        @njit
        def four(): ...

        @other.jit
        def five(): ...

        six = triton.jit(one)
    """
    assert Counter((kind, name) for _, kind, name in sites(a=text)) == Counter(
        [("triton", "one"), ("cute", "K.two"), ("tilelang", "three"), ("numba", "four"), ("triton", "one")]
    )


def test_torch_compile_counts_as_decorator_and_as_call() -> None:
    text = (
        "from torch import compile\n@compile\ndef a(): ...\n@compile(dynamic=True)\ndef b(): ...\nc = compile(a)"
    )
    assert [name for _, kind, name in sites(m=text) if kind == "torch-compile"] == ["a", "b", "m"]


def test_aiter_ops_are_sites_named_after_their_module() -> None:
    found = sites(
        aiter__jit__core="def compile_ops(_md_name, fc_name=None): ...",
        aiter__ops__norm="from ..jit.core import compile_ops\n@compile_ops('module_norm')\ndef layernorm(x): ...",
    )
    assert found == [("aiter/ops/norm.py", "aiter", "module_norm")]


@pytest.mark.parametrize(
    ("call", "program"),
    [
        ("subprocess.run(['/opt/rocm/bin/hipcc', '-c', src])", "hipcc"),
        ("subprocess.check_output('ninja --version'.split())", "ninja"),
        ("subprocess.check_call(('g++', src))", "g++"),
        ("os.system(f'hipcc {flag} -x hip /dev/null')", "hipcc"),
        ("subprocess.run(['nvidia-smi'])", None),
        ("subprocess.run(command)", None),
    ],
)
def test_a_started_compiler_is_a_site_of_its_own(call: str, program: str | None) -> None:
    found = sites(a=f"import os, subprocess\ndef f(src, flag, command):\n    {call}")
    assert found == ([("a.py", "program", program)] if program else [])


def test_libraries_are_read_from_the_flags_of_compiling_calls_only() -> None:
    text = """
        from torch.utils.cpp_extension import load
        FLAGS = ['-lnuma', '-O3']
        load('m', ['m.cpp'], extra_ldflags=['-lcrypto', *FLAGS])
        other(['-lnothing'])
    """
    found = find_call_sites(SourceTree.of({"a.py": dedent(text)}))
    assert dict(found.libraries) == {"crypto": ("a.py",), "numa": ("a.py",)}


def test_tests_benchmarks_and_examples_are_left_out() -> None:
    text = "from torch.utils.cpp_extension import load\nload('m', ['m.cpp'])"
    paths = [
        "e/test/a.py",
        "e/x/tests/a.py",
        "e/benchmark/a.py",
        "e/test_a.py",
        "e/a_test.py",
        "e/examples/a.py",
        "setup.py",
    ]
    tree = SourceTree.of(dict.fromkeys([*paths, "e/a.py"], text))
    assert [site.file for site in find_call_sites(tree).sites] == ["e/a.py"]


def test_files_that_do_not_parse_are_reported_and_the_rest_is_read() -> None:
    tree = SourceTree.of(
        {
            "e/broken.py": "def f(:\n",
            "e/broken_with_a_site.py": "from torch.utils.cpp_extension import load\nload('m', ['m.cpp'\n",
            "e/nul.py": b"x = 1\0",
            "e/marked.py": b"\xef\xbb\xbffrom torch.utils.cpp_extension import load\nload('m', ['m.cpp'])",
            "e/latin.py": "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1"),
        }
    )
    found = find_call_sites(tree)
    assert [site.file for site in found.sites] == ["e/marked.py"]
    assert set(found.unparsed) == {"e/broken.py", "e/broken_with_a_site.py", "e/nul.py"}
    assert found.unparsed["e/broken.py"].startswith("line 1: ")


def test_import_circles_and_self_references_end() -> None:
    found = sites(
        e__a="from e.b import load\nload('m', ['m.cpp'])\nx = x.y\nx()",
        e__b="from e.a import load\nfrom e.c import *",
        e__c="from e.b import *",
    )
    assert found == []


@pytest.mark.filterwarnings("error")
def test_doubtful_escapes_in_an_engine_are_no_concern_of_this_program() -> None:
    assert (
        find_call_sites(SourceTree.of({"a.py": "import triton\n@triton.jit\ndef f():\n    '\\('\n"})).unparsed
        == {}
    )
