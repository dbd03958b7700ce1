"""What runs inside images: it understands binaries, tells causes, and runs on old interpreters."""

from __future__ import annotations

import ast
import struct
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.smoke import probes
from builder.smoke.inside import code_object
from builder.smoke.inside.evidence import Wrong, chain, compiler_lines, scratch, telling_lines

BORROWED = {name for names in probes.BORROWED.values() for name in names}
INSIDE = sorted(
    {
        *Path(str(files("builder.smoke.inside"))).glob("*.py"),
        *(Path(str(files("builder"))).parent / f"{name.replace('.', '/')}.py" for name in BORROWED),
    }
)


def elf(machine: int, flags: int) -> bytes:
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    return header + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, flags, 64, 56, 0, 64, 0, 0)


def bundle(*entries: tuple[str, int]) -> bytes:
    data = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    for name, size in entries:
        data += struct.pack("<QQQ", 4096, size, len(name)) + name.encode()
    return data


@pytest.mark.parametrize("source", INSIDE, ids=lambda path: path.stem)
def test_probes_parse_on_the_oldest_python_and_need_nothing_but_its_library(source: Path) -> None:
    tree = ast.parse(source.read_text(encoding="utf-8"), feature_version=(3, 10))
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    foreign = {
        name
        for name in imported
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("builder.smoke.inside", "builder.elf"))
        and name not in BORROWED
    }
    assert foreign == set()


@pytest.mark.parametrize(
    ("flags", "gfx"),
    [(0x41, "gfx1100"), (0x4E, "gfx1201"), (0x54C, "gfx942"), (0x3F, "gfx90a"), (0x4F, "gfx950"), (0xFE, None)],
)
def test_the_processor_of_a_code_object_is_in_the_low_byte_of_its_flags(flags: int, gfx: str | None) -> None:
    data = elf(224, flags)
    assert code_object.is_amdgpu(data)
    assert code_object.processor(data) == gfx


@pytest.mark.parametrize("data", [b"", b"\x7fELF", elf(62, 0x41), b"MZ" + bytes(100), elf(224, 0x41)[:40]])
def test_what_is_no_gpu_code_is_not_taken_for_it(data: bytes) -> None:
    assert not code_object.is_amdgpu(data)


def test_a_bundle_lists_its_device_entries_with_their_features_and_not_the_host() -> None:
    data = b"\0" * 100 + bundle(
        ("host-x86_64-unknown-linux--", 0),
        ("hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", 5000),
        ("hipv4-amdgcn-amd-amdhsa--gfx1100", 4000),
    )
    assert code_object.bundle_targets(data) == ["gfx942:sramecc+:xnack-", "gfx1100"]


def test_an_empty_entry_is_no_code_and_a_second_bundle_counts() -> None:
    first = bundle(("hipv4-amdgcn-amd-amdhsa--gfx1100", 0))
    second = bundle(("hip-amdgcn-amd-amdhsa--gfx1201", 10))
    assert code_object.bundle_targets(first + second) == ["gfx1201"]


@pytest.mark.parametrize("cut", range(0, 130, 7))
def test_a_bundle_that_is_cut_off_is_read_as_far_as_it_goes(cut: int) -> None:
    data = bundle(("hipv4-amdgcn-amd-amdhsa--gfx1100", 4000), ("hipv4-amdgcn-amd-amdhsa--gfx1201", 4000))
    assert set(code_object.bundle_targets(data[:cut])) <= {"gfx1100", "gfx1201"}


def refuse_write() -> None:
    raise OSError(30, "Read-only file system", "/cache")


def wrap_explicitly() -> None:
    try:
        refuse_write()
    except OSError as inner:
        raise RuntimeError("Failed to load the extension") from inner


def fail_while_handling() -> None:
    try:
        refuse_write()
    except OSError:
        raise ValueError("second")  # noqa: B904 -- the implicit context is the point


@given(st.binary(max_size=200), st.lists(st.integers(0, 2**64 - 1), max_size=9), st.binary(max_size=60))
def test_a_mangled_bundle_gives_neither_an_error_nor_endless_work(
    before: bytes, numbers: list[int], after: bytes
) -> None:
    mangled = b"".join(struct.pack("<Q", number) for number in numbers)
    assert len(code_object.bundle_targets(before + b"__CLANG_OFFLOAD_BUNDLE__" + mangled + after)) < 257


def test_a_chain_is_told_innermost_first() -> None:
    with pytest.raises(RuntimeError) as raised:
        wrap_explicitly()
    told = chain(raised.value)
    assert [link["type"] for link in told] == ["OSError", "RuntimeError"]
    assert told[0]["message"] == "[Errno 30] Read-only file system: '/cache'"


def test_an_exception_raised_while_another_was_handled_belongs_to_the_chain() -> None:
    with pytest.raises(ValueError, match="second") as raised:
        fail_while_handling()
    assert [link["type"] for link in chain(raised.value)] == ["OSError", "ValueError"]


def test_compiler_lines_come_from_the_output_an_exception_carries() -> None:
    inner = subprocess.CalledProcessError(1, ["ninja", "-v"])
    inner.stdout = (
        b"[1/2] c++ -O3 x.cpp\nx.cpp:5:10: fatal error: openssl/sha.h: No such file\n    5 | #include\n  ^~~\nok\n"
    )
    outer = RuntimeError("Failed to load")
    outer.__cause__ = inner
    assert compiler_lines(outer) == [
        "x.cpp:5:10: fatal error: openssl/sha.h: No such file",
        "    5 | #include",
        "  ^~~",
    ]


def test_lines_that_say_nothing_about_the_failure_are_left_out() -> None:
    assert telling_lines("c++ -O3 -c a.cpp\nnothing here\n") == []


def test_scratch_goes_where_a_file_can_be_written_and_says_why_it_cannot(tmp_path: Path) -> None:
    assert scratch(["/proc/nowhere", str(tmp_path)]).startswith(str(tmp_path))
    with pytest.raises(Wrong, match=r"none of the declared directories takes a file: .*/proc/nowhere"):
        scratch(["/proc/nowhere"])
    with pytest.raises(Wrong, match="no writable directory is declared"):
        scratch([])


def run_probe(name: str, **arguments: object) -> subprocess.CompletedProcess[str]:
    command = probes.argv(sys.executable, name, arguments, limit_seconds=60, token="t")
    # Isolated from this project: what arrives on the command line has to be enough.
    return subprocess.run(
        [command[0], "-I", "-S", *command[1:]], capture_output=True, text=True, check=False, cwd="/"
    )


def test_a_probe_runs_from_the_command_line_alone_and_answers() -> None:
    done = run_probe("distributions", components=[("a", "surely-not-there", None)], imports=["json"], absent=[])
    answer = probes.read_answer(done.stdout, "t")
    assert answer is not None
    assert answer.ok, answer.evidence
    assert answer.figures["versions"] == {"a": None}
    assert answer.figures["imports"]["json"]["file"].endswith("json/__init__.py")


def test_a_failing_probe_answers_with_its_innermost_cause() -> None:
    done = run_probe("hash_extension")
    answer = probes.read_answer(done.stdout, "t")
    assert answer is not None
    assert not answer.ok
    assert answer.innermost == "ModuleNotFoundError: No module named 'sglang'"


def test_a_probe_that_hangs_ends_and_shows_where() -> None:
    nothing: dict[str, object] = {"components": [], "imports": [], "absent": []}
    command = probes.argv(sys.executable, "distributions", nothing, limit_seconds=1, token="t")
    boot = command[2].replace("module.probe", "lambda **_: __import__('time').sleep(60)")
    assert boot != command[2]
    hung = subprocess.run(
        [command[0], "-c", boot, command[3]], capture_output=True, text=True, check=False, timeout=30
    )
    assert probes.read_answer(hung.stdout, "t") is None
    assert probes.last_words(hung.stderr)[0].startswith("Timeout (0:00:01)!")


def test_the_answer_is_found_behind_a_librarys_chatter() -> None:
    done = run_probe("distributions", components=[], imports=["this"], absent=[])
    assert "The Zen of Python" in done.stdout
    assert probes.read_answer(done.stdout, "t") is not None
    assert probes.read_answer(done.stdout, "another") is None
    assert probes.read_answer("chatter\n", "t") is None


def test_a_command_stays_below_what_one_argument_may_hold() -> None:
    for probe in ("hash_extension", "triton_compile", "hip_compile", "distributions", "served_environment"):
        assert all(len(word) < 30_000 for word in probes.argv("python3", probe, {}, limit_seconds=1, token="t"))
