"""Files with GPU code: every form that ROCm's loaders know, and what is wrong with those that are not whole."""

from __future__ import annotations

import struct

import pytest

from builder.codeobjects.bundle import CodeObject
from builder.codeobjects.limits import Limits
from builder.codeobjects.reading import FileCode, may_have_code, read_file

from . import forge


def read(data: bytes, limits: Limits | None = None) -> FileCode:
    found = read_file(memoryview(data), limits)
    assert found is not None
    assert may_have_code(data[:24])
    return found


def targets(found: FileCode) -> list[list[str]]:
    return [[each.target for each in bundle.objects] for bundle in found.bundles]


def problems(found: FileCode) -> list[str]:
    return [*found.problems, *(bundle.problem for bundle in found.bundles if bundle.problem)]


@pytest.mark.parametrize("name", sorted(forge.NUMBERS))
def test_a_code_object_tells_its_processor(name: str) -> None:
    found = read(forge.code(name))
    assert (found.kind, targets(found), problems(found)) == ("code object", [[name]], [])


@pytest.mark.parametrize(
    ("abi", "flags", "target"),
    [
        ((64, 2), 0x54C, "gfx942"),
        ((64, 3), 0x64C, "gfx942:xnack-"),
        ((64, 4), 0x74C, "gfx942:xnack+"),
        ((64, 4), 0xF4C, "gfx942:sramecc+:xnack+"),
        ((64, 4), 0x94C, "gfx942:sramecc-"),
        ((64, 4), 0x34E, "gfx1201"),  # has no such feature
        ((64, 4), 0x01000059, "gfx12-generic"),  # the version of a family is in the highest byte
        ((64, 1), 0x12F, "gfx906:sramecc-:xnack+"),  # version 3 knows on and off only
        ((64, 1), 0x41, "gfx1100"),
        ((65, 0), 0x42C, "gfx900"),  # PAL
    ],
)
def test_the_features_of_a_code_object_are_in_its_flags(abi: tuple[int, int], flags: int, target: str) -> None:
    assert targets(read(forge.elf(224, flags, abi=abi))) == [[target]]


def test_a_code_object_of_version_2_tells_its_processor_in_a_note() -> None:
    content = struct.pack("<HHIII", 4, 7, 9, 0, 10) + b"AMD\0AMDGPU\0"
    note = struct.pack("<III", 4, len(content), 3) + b"AMD\0" + content
    data = forge.elf(224, 0, abi=(64, 0), segments=((4, 120, 0, note),)) + note
    assert targets(read(data)) == [["gfx90a"]]
    cut = len(data) - 20
    assert problems(read(data[:cut])) == [
        f"a segment of notes: bytes 120 to {len(data)} lie outside of the file, which has {cut}"
    ]
    assert problems(read(forge.elf(224, 0, abi=(64, 0)))) == [
        "a code object of version 2 without a note of its processor"
    ]


def test_a_bundle_as_a_file_of_its_own_is_read() -> None:
    found = read(forge.bundle("gfx1201", "gfx942:xnack-"))
    assert found.kind == "bundle"
    assert found.bundles[0].objects == (
        CodeObject(target="gfx1201", size=256), CodeObject(target="gfx942:xnack-", size=256),
    )  # fmt: skip
    assert found.stored == len(forge.bundle("gfx1201", "gfx942:xnack-"))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(("method", "name"), [(0, "zlib"), (1, "zstd")])
def test_a_compressed_bundle_is_read(version: int, method: int, name: str) -> None:
    data = forge.compressed(forge.bundle("gfx1100", "gfx1201"), version=version, method=method)
    (bundle,) = read(data).bundles
    assert [each.target for each in bundle.objects] == ["gfx1100", "gfx1201"]
    assert (bundle.compression, bundle.problem) == (f"{name}, version {version}", None)
    assert bundle.stored == len(data)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", [0, 1])
def test_a_program_has_all_of_its_bundles(version: int, method: int) -> None:
    first, second = forge.bundle("gfx1201"), forge.bundle("gfx1201", "gfx942")
    packed = [forge.compressed(each, version=version, method=method) for each in (first, second)]
    for bundles in ([first, second], packed, [first, packed[1]], [packed[0], second]):
        found = read(forge.program(*bundles))
        assert (found.kind, problems(found)) == ("program", [])
        assert targets(found) == [["gfx1201"], ["gfx1201", "gfx942"]]


@pytest.mark.parametrize(
    "kind",
    ["hip-amdgcn-amd-amdhsa-", "hipv4-amdgcn-amd-amdhsa-", "hip-amdgcn-amd-amdhsa", "openmp-amdgcn-amd-amdhsa-"],
)
@pytest.mark.parametrize("target", ["gfx90a:sramecc+:xnack-", "gfx9-4-generic", "gfx10-3-generic", "gfx1201"])
def test_every_spelling_of_an_entrys_name_is_understood(kind: str, target: str) -> None:
    assert targets(read(forge.bundle(target, kind=kind))) == [[target]]


def test_spirv_and_bitcode_are_code_for_their_target_whatever_they_hold() -> None:
    spirv = forge.bundle(
        "amdgcnspirv", kind="hip-spirv64-amd-amdhsa-", contents={"amdgcnspirv": b"\x03\x02\x23\x07" * 9}
    )
    assert targets(read(spirv)) == [["amdgcnspirv"]]
    assert targets(read(forge.bundle("gfx1201", contents={"gfx1201": b"BC\xc0\xde" * 40}))) == [["gfx1201"]]


def test_a_registered_bundle_is_found_outside_of_its_section() -> None:
    inside, wrapper = forge.bundle("gfx1201"), struct.pack("<IIQQ", 0x48495046, 1, 0x400000, 0)
    data = forge.elf(
        62, abi=(0, 0),
        sections=((".rodata", inside, 0x10000), (".hipFatBinSegment", wrapper, 0)),
        segments=((1, 4096, 0x400000, inside),),
    )  # fmt: skip
    assert targets(read(data)) == [["gfx1201"]]


def test_a_program_without_a_table_of_sections_is_searched_page_by_page() -> None:
    data = bytearray(forge.program(forge.bundle("gfx1201"), forge.compressed(forge.bundle("gfx942"))))
    data[40:48] = bytes(8)
    data[60:64] = bytes(4)
    assert targets(read(bytes(data))) == [["gfx1201"], ["gfx942"]]


def test_constants_that_look_like_bundles_are_no_gpu_code() -> None:
    """LLVM's own libraries, Triton's and the runtime's have both magics among their texts."""
    text = b"__CLANG_OFFLOAD_BUNDLE__\0CCOB\0__CLANG_OFFLOAD_BUNDLE____START__ "
    assert read_file(memoryview(forge.elf(62, abi=(0, 0), sections=((".rodata", text * 99, 0),)))) is None


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(80), b"#!/bin/sh\n", bytes(5000)])
def test_other_files_have_no_gpu_code(data: bytes) -> None:
    assert read_file(memoryview(data)) is None


def test_bundles_with_a_host_entry_alone_have_no_code() -> None:
    assert targets(read(forge.bundle())) == [[]]


def test_an_entry_that_is_for_another_gpu_than_its_name_says_is_no_code_for_either() -> None:
    found = read(forge.bundle("gfx1100", "gfx1201", contents={"gfx1201": forge.code("gfx1200")}))
    assert targets(found) == [["gfx1100"]]
    assert problems(found) == ["hipv4-amdgcn-amd-amdhsa--gfx1201: its ELF header says gfx1200"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"not ELF" * 40, "not an ELF object for an AMD GPU"),
        (forge.elf(62), "not an ELF object for an AMD GPU"),
        (forge.elf(224, 0xEE), "the processor 0xee in its ELF header is not known"),
        (forge.code("gfx1201")[:40], "the ELF header is cut off after 40 bytes"),
        (forge.bundle("gfx1201"), "a bundle in a bundle, which no runtime opens"),
    ],
)
def test_an_entry_that_is_no_code_object_is_told(content: bytes, problem: str) -> None:
    found = read(forge.bundle("gfx1201", contents={"gfx1201": content}))
    assert (targets(found), problems(found)) == ([[]], [f"hipv4-amdgcn-amd-amdhsa--gfx1201: {problem}"])


PLAIN = forge.bundle("gfx1201")
WHOLE = forge.compressed(PLAIN)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (PLAIN[:28], "the bundle is cut off after 28 bytes"),
        (PLAIN[:60], "the bundle is cut off in entry 1 of 2"),
        (PLAIN[:-1], "hipv4-amdgcn-amd-amdhsa--gfx1201: its 256 bytes reach past the end of the bundle"),
        (PLAIN[:24] + b"\xff" * 8, f"the bundle says it has {2**64 - 1} entries, at most 512 are read"),
        (PLAIN[:48] + b"\xff" * 8 + PLAIN[56:], f"entry 1 of 2 says its name has {2**64 - 1} bytes"),
        (b"CCOB\x03\0", "the compressed bundle is cut off after 6 bytes"),
        (b"CCOB\x04\0\x01\0" + bytes(24), "a compressed bundle of version 4; 1, 2 and 3 are known"),
        (b"CCOB\x03\0\x02\0" + bytes(24), "a compressed bundle by method 2; 0 (zlib) and 1 (zstd) are known"),
        (b"CCOB\x03\0\x01\0" + bytes(9), "the compressed bundle is cut off after 17 bytes"),
        (WHOLE[:-5], f"the compressed bundle says it has {len(WHOLE)} bytes, {len(WHOLE) - 5} are there"),
        (forge.compressed(PLAIN, says=9), "it decompresses to more than the 9 bytes that it says it has"),
        (forge.compressed(PLAIN, says=9999), f"it decompresses to {len(PLAIN)} bytes and says it has 9999"),
        (forge.compressed(b"x" * 99), "what is compressed is no offload bundle"),
        (forge.compressed(PLAIN, method=0, version=1)[:-9], "the compressed data is cut off"),
        (forge.compressed(PLAIN, version=1)[:-9], "the compressed data is cut off"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_bundle_is_told(data: bytes, problem: str) -> None:
    found = read(data)
    assert targets(found)[0] == []
    assert found.bundles[0].problem == problem


def test_a_hash_that_does_not_fit_is_told_of_code_that_runtimes_load_all_the_same() -> None:
    found = read(forge.compressed(PLAIN, hashed=1))
    assert targets(found) == [["gfx1201"]]
    assert problems(found) == ["its content does not have the hash that its header tells"]


def test_what_lies_between_bundles_is_told() -> None:
    found = read(forge.program(PLAIN + b"junk" * 9, forge.bundle("gfx942")))
    assert targets(found) == [["gfx1201"], ["gfx942"]]
    assert problems(found) == [f"{4096 - len(PLAIN)} bytes before offset 4096 are no offload bundle"]


def test_a_bundle_that_is_registered_and_not_there_is_told() -> None:
    found = read(forge.program(forge.bundle("gfx1201"), pointers=(0x10000, 0x11000, 0x12000)))
    assert problems(found) == ["the program registers 3 bundles, 1 are there"]


def test_a_program_that_is_cut_off_is_searched_all_the_same() -> None:
    data = forge.program(forge.bundle("gfx1201"))
    found = read(data[:-100])
    assert targets(found) == [["gfx1201"]]
    assert problems(found) == ["the table of 5 sections lies outside of the file"]


def test_the_sections_of_a_debug_file_have_no_bytes_to_look_for() -> None:
    data = bytearray(forge.program(forge.bundle("gfx1201")))
    sections_at = int.from_bytes(data[40:48], "little")
    for number in range(1, 4):
        data[sections_at + 64 * number + 4] = 8  # SHT_NOBITS
    assert read_file(memoryview(bytes(data))) is None


@pytest.mark.parametrize("method", [0, 1])
def test_a_decompression_bomb_is_not_unpacked(method: int) -> None:
    head = forge.bundle("gfx1201")
    bomb = forge.compressed(head + bytes(64 << 20), method=method)
    assert len(bomb) < 100_000
    small = Limits(decompressed=1 << 20)
    (bundle,) = read(bomb, small).bundles
    assert bundle.problem == "it decompresses to more than the 1048576 bytes that are read"
    # All the bundles of a file share what it may have.
    many = forge.program(*[forge.compressed(head + bytes(300_000), method=method)] * 5)
    assert [bundle.problem is None for bundle in read(many, small).bundles] == [True, True, True, False, False]


def test_a_frame_that_asks_for_more_memory_than_is_given_is_not_unpacked() -> None:
    (bundle,) = read(forge.compressed(forge.bundle("gfx1201") + bytes(1 << 20)), Limits(window=1 << 16)).bundles
    assert (bundle.problem or "").startswith("cannot be decompressed:")
