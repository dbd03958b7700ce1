"""Reads which GPU a code object is for. Knows the ELF header and the offload bundle, nothing else."""

from __future__ import annotations

import struct

# LLVM, "User Guide for AMDGPU Backend", ELF Header: e_machine is EM_AMDGPU; the low byte of e_flags,
# EF_AMDGPU_MACH, is the processor.
EM_AMDGPU = 224
_MACH = {
    0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904", 0x2F: "gfx906", 0x30: "gfx908", 0x31: "gfx909",
    0x32: "gfx90c", 0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x36: "gfx1030", 0x37: "gfx1031",
    0x38: "gfx1032", 0x39: "gfx1033", 0x3D: "gfx1035", 0x3E: "gfx1034", 0x3F: "gfx90a", 0x40: "gfx940",
    0x41: "gfx1100", 0x42: "gfx1013", 0x43: "gfx1150", 0x44: "gfx1103", 0x45: "gfx1036", 0x46: "gfx1101",
    0x47: "gfx1102", 0x48: "gfx1200", 0x49: "gfx1250", 0x4A: "gfx1151", 0x4B: "gfx941", 0x4C: "gfx942",
    0x4E: "gfx1201", 0x4F: "gfx950", 0x51: "gfx9-generic", 0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic",
    0x54: "gfx11-generic", 0x55: "gfx1152", 0x58: "gfx1153", 0x59: "gfx12-generic", 0x5A: "gfx1251",
    0x5F: "gfx9-4-generic",
}  # fmt: skip
# Clang, "Clang Offload Bundler": magic, number of entries, then per entry offset, size, length of the id, id.
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_BUNDLE = b"CCOB"
_MOST_ENTRIES = 256
_LONGEST_NAME = 256


def is_amdgpu(data: bytes) -> bool:
    """Tell whether these bytes are a 64-bit little-endian ELF object for an AMD GPU."""
    return (
        len(data) >= 64 and data[:6] == b"\x7fELF\x02\x01" and int.from_bytes(data[18:20], "little") == EM_AMDGPU
    )


def processor(data: bytes) -> str | None:
    """Return the processor of a code object, or None for one that this table does not know."""
    return _MACH.get(int.from_bytes(data[48:52], "little") & 0xFF)


def bundle_targets(data: bytes) -> list[str]:
    """Return the targets of the device entries of all uncompressed offload bundles in these bytes."""
    targets: list[str] = []
    at = data.find(_BUNDLE)
    while at >= 0:
        targets.extend(_entries(data, at + len(_BUNDLE)))
        at = data.find(_BUNDLE, at + 1)
    return targets


def has_compressed_bundle(data: bytes) -> bool:
    """Tell whether a compressed offload bundle is in these bytes."""
    return _COMPRESSED_BUNDLE in data


def _entries(data: bytes, at: int) -> list[str]:
    if at + 8 > len(data):
        return []
    (count,) = struct.unpack_from("<Q", data, at)
    at += 8
    targets: list[str] = []
    for _ in range(min(count, _MOST_ENTRIES)):
        if at + 24 > len(data):
            break
        _, size, length = struct.unpack_from("<QQQ", data, at)
        if length > min(_LONGEST_NAME, len(data) - at - 24):
            break
        name = data[at + 24 : at + 24 + length].decode("ascii", "replace")
        at += 24 + length
        kind, _, target = name.partition("--")  # hipv4-amdgcn-amd-amdhsa--gfx942:xnack-
        if kind.startswith("hip") and "amdgcn" in kind and size:
            targets.append(target)
    return targets
