"""Small binaries made by hand, byte for byte as the specifications lay them out: no compiler is needed."""

from __future__ import annotations

import hashlib
import struct
import zlib

import zstandard

from builder.codeobjects.processors import MACH

NUMBERS = {name: number for number, name in MACH.items()}
XNACK = {"any": 1, "-": 2, "+": 3}
HEADERS = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}


def elf(
    machine: int, flags: int = 0, *, abi: tuple[int, int] = (64, 4), body: bytes = b"",
    sections: tuple[tuple[str, bytes, int], ...] = (), segments: tuple[tuple[int, int, int, bytes], ...] = (),
) -> bytes:  # fmt: skip
    """Return an ELF file: `sections` are name, content, address; `segments` type, offset, address, content."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".shstrtab\0"
    at = 64 + 56 * len(segments)
    blob, headers = b"", [bytes(64)] if sections else []
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, offset, address, address, len(content), len(content), 8)
        for kind, offset, address, content in segments
    )
    for name, content, address in sections:
        blob += bytes(-(at + len(blob)) % 4096)
        where = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(
            struct.pack("<IIQQQQIIQQ", where, 1, 2, address, at + len(blob), len(content), 0, 0, 4096, 0)
        )
        blob += content
    if sections:
        where = names.index(b".shstrtab")
        headers.append(struct.pack("<IIQQQQIIQQ", where, 3, 0, 0, at + len(blob), len(names), 0, 0, 1, 0))
        blob += names
    sections_at = at + len(blob) if sections else 0
    start = b"\x7fELF\x02\x01\x01" + bytes(abi) + bytes(7)
    start += struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, 64 if segments else 0, sections_at, flags, 64, 56, len(segments), 64,
        len(headers), len(headers) - 1 if headers else 0,
    )  # fmt: skip
    return start + table + blob + b"".join(headers) + body


def code(target: str, *, size: int = 256) -> bytes:
    """Return a code object for a target ID, code object version 6, as bare as it may be."""
    processor, *features = target.split(":")
    settings = {feature[:-1]: feature[-1] for feature in features}
    flags = NUMBERS[processor] | XNACK[settings.get("xnack", "any")] << 8
    flags |= XNACK[settings.get("sramecc", "any")] << 10
    return elf(224, flags, body=bytes(size - 64))


def bundle(
    *targets: str, contents: dict[str, bytes] | None = None, kind: str = "hipv4-amdgcn-amd-amdhsa-"
) -> bytes:
    """Return a bundle of code objects, with the empty host entry that the bundler puts first."""
    entries = [("host-x86_64-unknown-linux-gnu-", b"")]
    entries += [(f"{kind}-{target}", (contents or {}).get(target) or code(target)) for target in targets]
    head = 32 + sum(24 + len(name) for name, _ in entries)
    table, blob = b"", b""
    for name, content in entries:
        blob += bytes(-(head + len(blob)) % 256)
        table += struct.pack("<QQQ", head + len(blob), len(content), len(name)) + name.encode()
        blob += content
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table + blob


def compressed(
    plain: bytes, *, version: int = 3, method: int = 1, says: int | None = None, hashed: int | None = None
) -> bytes:
    """Return a compressed bundle. `says` is the size it claims to have without compression, `hashed` its hash."""
    payload = zlib.compress(plain) if method == 0 else zstandard.compress(plain)
    digest = hashlib.md5(plain, usedforsecurity=False).digest()
    size = len(plain) if says is None else says
    number = int.from_bytes(digest[:8], "little") if hashed is None else hashed
    layout = HEADERS[version]
    total = 8 + struct.calcsize(layout) + len(payload)
    fields = (size, number) if version == 1 else (total, size, number)
    return b"CCOB" + struct.pack("<HH", version, method) + struct.pack(layout, *fields) + payload


def program(*bundles: bytes, section: str = ".hip_fatbin", pointers: tuple[int, ...] | None = None) -> bytes:
    """Return a host library with these bundles, each at the start of a page, and what registers them."""
    fatbin = b""
    for each in bundles:
        fatbin += bytes(-len(fatbin) % 4096) + each
    registered = (0,) * len(bundles) if pointers is None else pointers
    wrappers = b"".join(struct.pack("<IIQQ", 0x48495046, 1, address, 0) for address in registered)
    return elf(
        62, abi=(0, 0), sections=((".text", b"\xc3" * 64, 0), (section, fatbin, 0x10000),
        (".hipFatBinSegment", wrappers, 0x900000)),
    )  # fmt: skip
