"""Binaries that nobody here made, out of wheels of the Python index; and those, mangled."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.audit.folder import read_folder
from builder.audit.subject import judge
from builder.codeobjects.limits import Limits
from builder.codeobjects.reading import FileCode, read_file

pytestmark = pytest.mark.network

_RDNA3 = ["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]
_RDNA4 = ["gfx1200", "gfx1201"]
ROCM_6 = ["gfx908", "gfx90a", "gfx942", "gfx1030", *_RDNA3, *_RDNA4]
ROCM_7 = ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", *_RDNA3, *_RDNA4]
ROCM_714 = [
    "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012",
    *(f"gfx103{stepping}" for stepping in range(7)), *_RDNA3, *_RDNA4, "gfx1250",
]  # fmt: skip
LIBRARIES = {
    "64": (2, ROCM_6), "70": (2, ROCM_7), "71": (3, ROCM_7), "72": (3, ROCM_7), "714": (3, ROCM_714),
    "715": (3, ROCM_714),
}  # fmt: skip


@pytest.mark.parametrize("rocm", sorted(LIBRARIES))
def test_the_rocm_libraries_of_bitsandbytes(unpacked: Callable[[str], Path], rocm: str) -> None:
    version, targets = LIBRARIES[rocm]
    contents = read_folder(unpacked("bitsandbytes-"))
    code: FileCode = contents.code[f"bitsandbytes/libbitsandbytes_rocm{rocm}.so"]
    assert [bundle.compression for bundle in code.bundles] == [f"zstd, version {version}"] * 2
    assert [bundle.problem for bundle in code.bundles] == [None, None]
    for bundle in code.bundles:
        assert sorted(each.target for each in bundle.objects) == sorted(targets)
    (part,) = (part for part in judge(contents, ["gfx1201"]).parts if f"rocm{rocm}.so" in part.path)
    assert [each.target for each in part.targets] == targets
    assert (part.owner, part.missing) == ("bitsandbytes", ())


def test_its_other_libraries_have_no_code_for_amd(unpacked: Callable[[str], Path]) -> None:
    assert sorted(read_folder(unpacked("bitsandbytes-")).code) == [
        f"bitsandbytes/libbitsandbytes_rocm{rocm}.so" for rocm in sorted(LIBRARIES)
    ]


def test_f43_aiter_carries_kernels_for_gfx942_and_gfx950_alone(unpacked: Callable[[str], Path]) -> None:
    contents = read_folder(unpacked("amd_aiter-"))
    counted = Counter(
        (Path(path).suffix, each.target)
        for path, code in contents.code.items()
        for bundle in code.bundles
        for each in bundle.objects
    )
    assert counted == {(".co", "gfx942"): 1281, (".co", "gfx950"): 1220, (".hsaco", "gfx950"): 112}
    # The folders are named for the target; e_flags say the same.
    for path, code in contents.code.items():
        if path.startswith("aiter_meta/hsa/"):
            assert path.split("/")[2] == code.bundles[0].objects[0].target

    judged = judge(contents, ["gfx1201"])
    assert {part.path: part.missing for part in judged.failed} == {
        "aiter/ops/triton/configs/gemm/aot/": ("gfx1201",), "aiter_meta/hsa/": ("gfx1201",),
    }  # fmt: skip
    assert judge(contents, ["gfx950"]).failed == ()


@pytest.fixture(scope="module")
def samples(unpacked: Callable[[str], Path]) -> list[bytes]:
    folder = unpacked("bitsandbytes-") / "bitsandbytes"
    kernel = next((unpacked("amd_aiter-") / "aiter_meta/hsa/gfx942").rglob("*.co"))
    return [(folder / f"libbitsandbytes_rocm{rocm}.so").read_bytes() for rocm in ("64", "715")] + [
        kernel.read_bytes()
    ]


@given(st.data())
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_real_binaries_with_other_bytes_are_read_to_an_end(samples: list[bytes], data: st.DataObject) -> None:
    sound = data.draw(st.sampled_from(samples))
    mangled = bytearray(sound[: data.draw(st.one_of(st.just(len(sound)), st.integers(0, len(sound))))])
    # Most of a library is compressed code, where a flipped byte only breaks a checksum; headers are worth more.
    places = [0, sound.find(b"CCOB"), sound.rfind(b"CCOB"), int.from_bytes(sound[40:48], "little")]
    for _ in range(data.draw(st.integers(0, 6))):
        near = data.draw(st.sampled_from(places)) + data.draw(st.integers(0, 2000))
        at = data.draw(st.one_of(st.just(near), st.integers(0, len(sound))))
        value = data.draw(st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from([0, 2**32 - 1, 2**64 - 1])))
        if 0 <= at < len(mangled) - 8:
            raw = value if isinstance(value, bytes) else struct.pack("<Q", value)
            mangled[at : at + len(raw)] = raw
    found = read_file(memoryview(bytes(mangled)), Limits(decompressed=64 << 20))
    if found is not None:
        for bundle in found.bundles:
            assert all(each.target.startswith(("gfx", "amdgcn")) for each in bundle.objects)
            assert bundle.problem is None or bundle.problem.isprintable()
