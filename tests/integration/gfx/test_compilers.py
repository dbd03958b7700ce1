"""What real compilers write, beside what LLVM's own tools read in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builder.audit.folder import read_folder, read_single
from builder.audit.subject import judge
from builder.codeobjects.processors import MACH
from builder.codeobjects.reading import FileCode

from ..project import REPOSITORY
from .conftest import Compiler

pytestmark = [pytest.mark.engine, pytest.mark.network]

LIBRARY = ("-fPIC", "-shared")
TRITON = """\
import os, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)

for gfx, wave in (("gfx1201", 32), ("gfx1100", 32), ("gfx942", 64), ("gfx950", 64)):
    signature = {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(fn=scale, signature=signature, constexprs={"BLOCK": 256})
    triton.compile(source, target=GPUTarget("hip", gfx, wave))
"""


def targets(found: FileCode | None) -> list[list[str]]:
    assert found is not None
    assert found.problems == ()
    assert [bundle.problem for bundle in found.bundles if bundle.problem] == []
    return [[each.target for each in bundle.objects] for bundle in found.bundles]


@pytest.mark.parametrize("options", [(), LIBRARY], ids=["program", "library"])
def test_hipcc_7_for_several_targets(hipcc_7: Compiler, options: tuple[str, ...]) -> None:
    wanted = ["gfx1201", "gfx942", "gfx90a:xnack+", "gfx90a:xnack-", "gfx12-generic", "gfx9-4-generic"]
    found = hipcc_7.hipcc("several", wanted, *options)
    assert [sorted(each) for each in targets(found)] == [sorted(wanted)]
    assert found.bundles[0].compression is None
    assert hipcc_7.listed("several") == targets(found)[0]


@pytest.mark.parametrize("version", ["2", "3"])
def test_hipcc_7_compresses(hipcc_7: Compiler, version: str) -> None:
    wanted = ["gfx1201", "gfx942"]
    plain = hipcc_7.hipcc("plain.so", wanted, *LIBRARY)
    env = [f"COMPRESSED_BUNDLE_FORMAT_VERSION={version}"]
    found = hipcc_7.hipcc("packed.so", wanted, *LIBRARY, "--offload-compress", env=env)
    assert targets(found) == [wanted]
    assert found.bundles[0].compression == f"zstd, version {version}"
    assert found.bundles[0].objects == plain.bundles[0].objects
    assert found.stored < plain.stored / 4
    assert hipcc_7.listed("packed.so") == wanted


def test_hipcc_7_writes_bundles_and_code_objects_as_files_of_their_own(hipcc_7: Compiler) -> None:
    plain = hipcc_7.hipcc("k.co", ["gfx1201", "gfx942"], "--genco")
    packed = hipcc_7.hipcc("kc.co", ["gfx1201", "gfx942"], "--genco", "--offload-compress")
    bare = hipcc_7.hipcc("k.hsaco", ["gfx1201"], "--genco", "--no-gpu-bundle-output")
    assert (plain.kind, packed.kind, bare.kind) == ("bundle", "bundle", "code object")
    assert targets(plain) == targets(packed) == [["gfx1201", "gfx942"]]
    assert targets(bare) == [["gfx1201"]]
    assert hipcc_7.bundled("k.co") == hipcc_7.bundled("kc.co") == ["gfx1201", "gfx942"]


def test_several_sources_are_several_bundles(hipcc_7: Compiler) -> None:
    """With one of them for other targets than the rest: what LLVM's tools list in one row is told apart."""
    hipcc_7.run("sh", "-c", "sed 's/scale/shift/; s/run(/walk(/; /main/d' kernel.hip > other.hip")
    for name, source, asked in (("a.o", "kernel.hip", ["gfx1201", "gfx942"]), ("b.o", "other.hip", ["gfx942"])):
        hipcc_7.run("hipcc", *[f"--offload-arch={target}" for target in asked], "-fPIC", "-c", source, "-o", name)
    hipcc_7.run("hipcc", "-shared", "a.o", "b.o", "-o", "two.so")
    found = hipcc_7.read("two.so")
    assert targets(found) == [["gfx1201", "gfx942"], ["gfx942"]]
    (part,) = judge(read_single(hipcc_7.out / "two.so"), ["gfx1201", "gfx942"]).parts
    assert (part.missing, [(each.target, each.without) for each in part.partly]) == ((), [("gfx1201", 1)])


def test_every_processor_that_llvm_22_knows_has_the_number_it_gives_it(hipcc_7: Compiler) -> None:
    listed = hipcc_7.run(
        "sh", "-c", f"{hipcc_7.tools}/clang --target=amdgcn-amd-amdhsa --print-supported-cpus 2>&1"
    )
    known = sorted(word for word in listed.split() if word in MACH.values())
    assert len(known) > 50
    hipcc_7.run("sh", "-c", "echo '__attribute__((amdgpu_kernel)) void f(void) {}' > f.c")
    script = " && ".join(
        f"{hipcc_7.tools}/clang --target=amdgcn-amd-amdhsa -mcpu={name} -nogpulib -c f.c -o {name}.hsaco"
        for name in known
    )
    hipcc_7.run("sh", "-c", f"mkdir -p all && cd all && cp ../f.c . && {script}")
    found = read_folder(hipcc_7.fetch("all")).code
    assert {path: targets(code) for path, code in found.items()} == {f"{name}.hsaco": [[name]] for name in known}


def test_hipcc_5_for_several_targets(hipcc_5: Compiler, hipcc_7: Compiler) -> None:
    """LLVM 17 cannot list the bundles of a program; LLVM 22 can, also of those that 17 wrote."""
    wanted = ["gfx1100", "gfx90a", "gfx942:xnack-"]
    for name, options in (("program", ()), ("library.so", LIBRARY)):
        found = hipcc_5.hipcc(name, wanted, *options)
        assert [sorted(each) for each in targets(found)] == [wanted]
        assert found.bundles[0].compression is None
        hipcc_7.give(hipcc_5.out / name)
        assert hipcc_7.listed(name) == targets(found)[0]
    found = hipcc_5.hipcc("k5.co", wanted, "--genco")
    assert found.kind == "bundle"
    assert hipcc_5.bundled("k5.co") == sorted(targets(found)[0])


def test_tritons_code_objects_are_in_its_cache_for_any_target(hipcc_5: Compiler, hipcc_7: Compiler) -> None:
    script = hipcc_5.out / "compile.py"
    script.write_text(TRITON)
    hipcc_5.give(script)
    hipcc_5.run("python3", "compile.py", env=["TRITON_CACHE_DIR=/srv/gfx/cache", "HOME=/srv/gfx"])
    contents = read_folder(hipcc_5.fetch("cache"))
    judged = judge(contents, ["gfx1201"])
    (part,) = judged.parts
    assert [each.target for each in part.targets] == ["gfx942", "gfx950", "gfx1100", "gfx1201"]
    assert (part.path, part.files, judged.failed) == ("./", 4, ())
    for path, code in contents.code.items():
        copy = hipcc_7.out / "triton.hsaco"
        copy.write_bytes((hipcc_5.out / "cache" / path).read_bytes())
        hipcc_7.give(copy)
        header = hipcc_7.run(f"{hipcc_7.tools}/llvm-readelf", "--file-header", "triton.hsaco")
        (flags,) = (line for line in header.splitlines() if "Flags:" in line)
        assert targets(code)[0][0].partition(":")[0] in flags.replace(",", " ").split()


def test_a_compressed_bundle_of_the_first_version_is_read() -> None:
    (code,) = read_single(REPOSITORY / "tests/data/gpu-code/bundle-version-1.co").code.values()
    assert (targets(code), code.bundles[0].compression) == ([["gfx1201"]], "zstd, version 1")


def test_llvm_finds_the_same_in_libraries_that_nobody_here_made(
    hipcc_7: Compiler, unpacked: Callable[[str], Path]
) -> None:
    for library in sorted((unpacked("bitsandbytes-") / "bitsandbytes").glob("libbitsandbytes_rocm*.so")):
        (code,) = read_single(library).code.values()
        hipcc_7.give(library)
        assert hipcc_7.listed(library.name) == [target for bundle in targets(code) for target in bundle]
