"""Mangled binaries: whatever the bytes are, reading them ends, fails in words, and stays within its bounds."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.codeobjects.audit import Found, audit
from builder.codeobjects.limits import Limits
from builder.codeobjects.reading import read_file

from . import forge

LIMITS = Limits(bundles=200, decompressed=8 << 20)
_TWO = forge.bundle("gfx1201", "gfx90a:xnack+")
SOUND = [
    forge.code("gfx1201"),
    _TWO,
    *[forge.compressed(_TWO, version=version, method=method) for version in (1, 2, 3) for method in (0, 1)],
    forge.program(_TWO, forge.compressed(_TWO), forge.compressed(_TWO, version=1, method=0)),
    forge.program(forge.compressed(_TWO, version=1), _TWO, pointers=(0x10000, 0x11000)),
]
HUGE = st.sampled_from([0, 1, 2**16 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1])


def looked_at(data: bytes) -> None:
    """Read bytes and judge what comes of it, as for a file that somebody made."""
    found = read_file(memoryview(data), LIMITS)
    if found is not None:
        judged = audit([Found(path="lib.so", code=found, owner="unowned")], ["gfx1201", "gfx90a"])
        assert all(str(problem).isprintable() for part in judged.parts for problem in part.problems)
        assert found.stored <= len(data) * 2 + 1


@given(st.binary(max_size=4000))
def test_any_bytes_behind_a_magic_are_read_to_an_end(data: bytes) -> None:
    for magic in (b"", b"\x7fELF\x02\x01\x01", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB\x01\0", b"CCOB\x03\0\x01\0"):
        looked_at(magic + data)


@pytest.mark.parametrize("sound", SOUND, ids=range(len(SOUND)))
@given(st.data())
@settings(max_examples=30)
def test_a_file_with_a_few_other_bytes_is_read_to_an_end(sound: bytes, data: st.DataObject) -> None:
    mangled = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 12))):
        mangled[data.draw(st.integers(0, len(mangled) - 1))] = data.draw(st.integers(0, 255))
    looked_at(bytes(mangled))


@pytest.mark.parametrize("sound", SOUND, ids=range(len(SOUND)))
@given(st.data())
@settings(max_examples=30)
def test_a_file_with_a_huge_number_somewhere_is_read_to_an_end(sound: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sound) - 8))
    looked_at(sound[:at] + struct.pack("<Q", data.draw(HUGE)) + sound[at + 8 :])


@pytest.mark.parametrize("sound", SOUND, ids=range(len(SOUND)))
@given(st.data())
@settings(max_examples=30)
def test_a_file_that_is_cut_off_or_repeated_is_read_to_an_end(sound: bytes, data: st.DataObject) -> None:
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(sound))] * 2)))
    looked_at(sound[:stop])
    looked_at(sound[:start] + sound[stop:])
    looked_at(sound[:stop] + sound[start:])


@pytest.mark.parametrize("sound", SOUND, ids=range(len(SOUND)))
def test_a_file_that_is_cut_off_anywhere_in_its_headers_is_read_to_an_end(sound: bytes) -> None:
    for length in (*range(min(len(sound), 300)), *range(300, len(sound), 97)):
        looked_at(sound[:length])


@pytest.mark.parametrize("method", [0, 1])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_memory_stays_bounded_however_much_is_compressed(version: int, method: int) -> None:
    bomb = forge.compressed(forge.bundle("gfx1201") + bytes(24 << 20), version=version, method=method)
    data = memoryview(forge.program(bomb))
    tracemalloc.start()
    found = read_file(data, Limits(decompressed=1 << 30))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert [each.target for each in found.bundles[0].objects] == ["gfx1201"]
    assert peak < 12 << 20


def test_crowds_of_bundles_are_counted_out() -> None:
    one = forge.compressed(forge.bundle("gfx1201"), version=1, method=0)
    found = read_file(memoryview(forge.program(*[one] * 250)), LIMITS)
    assert found is not None
    assert len(found.bundles) == 200
    assert found.problems[0] == "more than 200 bundles; the rest is not read"


def test_crowds_of_pointers_segments_and_notes_are_counted_out() -> None:
    """Each is a loop in another, and what would go on for hours ends at once."""
    wrapper = struct.pack("<IIQQ", 0x48495046, 1, 0x400000, 0)
    segments = ((1, 4096, 0x500000, b""),) * 60_000
    pointers = forge.elf(62, abi=(0, 0), sections=((".hipFatBinSegment", wrapper * 60_000, 0),), segments=segments)
    found = read_file(memoryview(pointers))
    assert found is not None
    assert found.problems == ("the program registers 60000 bundles, 0 are there",)

    note = struct.pack("<III", 0, 0, 9) * 60_000
    notes = forge.elf(224, 0, abi=(64, 0), segments=((4, 64 + 56 * 60_000, 0, note),) * 60_000) + note
    found = read_file(memoryview(notes))
    assert found is not None
    assert found.bundles[0].problem == "a code object of version 2 without a note of its processor"


def test_crowds_of_magics_are_walked_once() -> None:
    found = read_file(memoryview(forge.program(b"CCOB" * 300_000)))
    assert found is not None
    assert len(found.bundles) == 100_000


def test_empty_zstd_blocks_do_not_go_on_for_ever() -> None:
    """Version 1 does not tell its size, and three bytes are a block: a gigabyte would be walked in steps."""
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3) * 5000
    data = b"CCOB\x01\0\x01\0" + struct.pack("<IQ", 100, 0) + frame
    found = read_file(memoryview(data), LIMITS)
    assert found is not None
    assert found.bundles[0].problem == f"it decompresses to more than the {8 << 20} bytes that are read"
