"""What runs in the image to find files with GPU code: it may take too many, and must not miss one."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.codeobjects.reading import read_file
from builder.smoke import probes
from builder.smoke.inside.gpu_files import may_have_code

from ..codeobjects import forge

_TWO = forge.bundle("gfx1201", "gfx90a:xnack+")
SOUND = [
    forge.code("gfx1201"), _TWO, forge.compressed(_TWO), forge.program(_TWO),
    forge.program(forge.compressed(_TWO)),
]  # fmt: skip
TOOL = forge.elf(62, sections=((".text", b"x", 0),))


def taken(data: bytes) -> bool:
    return may_have_code(io.BytesIO(data), len(data))


@pytest.mark.parametrize("data", SOUND)
def test_files_with_gpu_code_are_taken(data: bytes) -> None:
    assert taken(data)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x7fELF\x02\x01", bytes(4000), b"#!/bin/sh\n" * 50,
        forge.elf(62, sections=((".rodata", b"CCOB\0__CLANG_OFFLOAD_BUNDLE__\0.hip_fatbin\0", 0),)),
        forge.elf(183, sections=((".nv_fatbin", b"x" * 99, 0),)),
    ],
)  # fmt: skip
def test_others_are_left_out(data: bytes) -> None:
    assert not taken(data)


@given(st.sampled_from(SOUND), st.data())
@settings(max_examples=300)
def test_no_file_is_left_out_in_which_code_is_found(sound: bytes, data: st.DataObject) -> None:
    mangled = bytearray(sound)
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.one_of(st.integers(0, 64), st.integers(0, len(sound) - 8)))
        mangled[at : at + 2] = struct.pack("<H", data.draw(st.sampled_from([0, 1, 2, 4, 64, 0xFFFF])))
    found = read_file(memoryview(bytes(mangled)))
    if found is not None and any(bundle.objects for bundle in found.bundles):
        assert taken(bytes(mangled))


def test_the_program_writes_an_archive_of_what_the_audit_wants(tmp_path: Path) -> None:
    wanted = {
        "opt/k.co": forge.code("gfx1201"),
        "usr/lib/lib.so": forge.program(_TWO),
        "usr/lib/python3/x-1.dist-info/RECORD": b"x.py,,\n",
        "var/lib/dpkg/info/libc6:amd64.list": b"/.\n",
        "usr/share/rocm-images/manifest.json": b"{}",
    }
    for name, data in (wanted | {"usr/bin/tool": TOOL, "etc/passwd": b"root\n"}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "usr/lib/link.so").symlink_to("lib.so")
    argv = [*probes.gpu_files_argv(sys.executable), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=300)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert found == wanted
