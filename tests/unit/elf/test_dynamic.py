"""What ELF files tell the loader is read as it is written, and what is mangled is refused and not guessed."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.elf.cache import entries
from builder.elf.dynamic import read
from builder.elf.headers import Unreadable

from .forge import library

FULL = library(
    soname="libx.so.1", needed=["liba.so.2", "libc.so.6"], runpath="$ORIGIN/../lib:/opt/rocm/lib",
    requires={"libstdc++.so.6": ["GLIBCXX_3.4.31", "CXXABI_1.3"], "libc.so.6": ["GLIBC_2.34"]},
    weak=["CXXABI_1.3"], defines=["libx.so.1", "X_1.0", "X_2.0"], exports=["PyInit__x", "PyInit_y"],
)  # fmt: skip


def test_everything_that_the_loader_is_told_is_read() -> None:
    told = read(memoryview(FULL))
    assert told is not None
    assert (told.soname, told.machine, told.program) == ("libx.so.1", 62, False)
    assert told.needed == ("liba.so.2", "libc.so.6")
    assert (told.rpath, told.runpath) == ((), ("$ORIGIN/../lib", "/opt/rocm/lib"))
    assert told.requires == {"libstdc++.so.6": ("GLIBCXX_3.4.31",), "libc.so.6": ("GLIBC_2.34",)}
    assert told.defines == ("libx.so.1", "X_1.0", "X_2.0")
    assert told.initialises == ("_x", "y")
    assert not told.text_relocations


def test_an_rpath_beside_a_runpath_does_not_count() -> None:
    told = read(memoryview(library(rpath="/old", runpath="/new")))
    assert told is not None
    assert (told.rpath, told.runpath) == ((), ("/new",))


def test_an_empty_path_is_ignored_and_an_empty_entry_is_where_one_stands() -> None:
    empty, entry = read(memoryview(library(runpath=""))), read(memoryview(library(runpath="/lib:")))
    assert empty is not None
    assert entry is not None
    assert (empty.runpath, entry.runpath) == ((), ("/lib", ""))


@pytest.mark.parametrize("options", [{"textrel": True}, {"flags": 4}])
def test_text_relocations_are_told_by_a_tag_or_a_flag(options: dict[str, int]) -> None:
    told = read(memoryview(library(**options)))  # type: ignore[arg-type]
    assert told is not None
    assert told.text_relocations


@pytest.mark.parametrize(
    ("options", "program"),
    [
        ({"interpreter": "/lib64/ld-linux-x86-64.so.2"}, True),
        ({"interpreter": "/lib64/ld-linux-x86-64.so.2", "soname": "libc.so.6"}, False),
        ({"kind": 2}, True),
        ({"flags_1": 0x08000000}, True),
        ({}, False),
    ],
)
def test_programs_are_told_from_libraries(options: dict[str, object], program: bool) -> None:
    told = read(memoryview(library(**options)))  # type: ignore[arg-type]
    assert told is not None
    assert told.program is program


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(60), library(kind=1)])
def test_what_is_not_loaded_is_none(data: bytes) -> None:
    assert read(memoryview(data)) is None


@pytest.mark.parametrize("size", [10, 63, 64, 120, 200, len(FULL) - 20])
def test_a_file_that_is_cut_off_is_unreadable(size: int) -> None:
    with pytest.raises(Unreadable):
        read(memoryview(FULL[:size]))


def test_a_table_of_versions_that_counts_itself_over_and_over_is_unreadable() -> None:
    data = bytearray(library(requires={f"lib{number}.so": ["V_1"] for number in range(40)}))
    record = struct.pack("<HH", 1, 1)
    at = data.find(record)
    while at >= 0:
        data[at : at + 4] = struct.pack("<HH", 1, 0xFFFF)
        at = data.find(record, at + 4)
    with pytest.raises(Unreadable, match="more than 65536 versions are needed"):
        read(memoryview(bytes(data)))


@settings(max_examples=400)
@given(st.lists(st.tuples(st.integers(0, len(FULL) - 1), st.integers(0, 255)), min_size=1, max_size=12))
def test_a_mangled_file_is_read_or_unreadable_and_nothing_else(changes: list[tuple[int, int]]) -> None:
    data = bytearray(FULL)
    for place, value in changes:
        data[place] = value
    try:
        read(memoryview(bytes(data)))
    except Unreadable as error:
        assert str(error)  # noqa: PT017 -- either is right


def test_what_the_running_interpreter_is_linked_with_is_read_from_its_own_file() -> None:
    told = read(memoryview(Path(sys.executable).resolve().read_bytes()))
    assert told is not None
    assert told.program
    assert any(name.startswith("libc.so") for name in told.needed)
    assert any(version.startswith("GLIBC_2.") for version in told.requires.get("libc.so.6", ()))


def test_the_loaders_own_cache_has_the_c_library_where_it_is() -> None:
    assert shutil.which("ldconfig", path="/sbin:/usr/sbin")
    found = dict(entries(Path("/etc/ld.so.cache").read_bytes()))
    assert Path(found["libc.so.6"]).exists()


@pytest.mark.parametrize("data", [b"", b"glibc-ld.so.cache1.1", b"glibc-ld.so.cache1.1" + b"\xff" * 60, b"cache"])
def test_what_is_no_cache_has_no_entries(data: bytes) -> None:
    assert list(entries(data)) == []
