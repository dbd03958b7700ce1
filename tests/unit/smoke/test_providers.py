"""Which package brings what."""

from __future__ import annotations

from importlib.resources import files

import pytest
import tomli

from builder.providers import Provider, for_header, for_library, for_module, for_program, package_name


@pytest.mark.parametrize(
    ("header", "package"),
    [
        ("openssl/sha.h", "libssl-dev"),
        ("Python.h", "python3-dev"),
        ("pybind11/pybind11.h", "pybind11-dev"),
        ("cmath", "g++"),
        ("unordered_map", "g++"),
        ("hip/hip_runtime.h", "libamdhip64-dev"),
        ("stdio.h", "libc6-dev"),
        ("sys/mman.h", "libc6-dev"),
        ("immintrin.h", "gcc"),
        ("linux/futex.h", "linux-libc-dev"),
        ("rdma/rdma_cma.h", "librdmacm-dev"),
        ("numa.h", "libnuma-dev"),
        ("zlib.h", "zlib1g-dev"),
        ("bits/c++config.h", "g++"),
        ("bits/types.h", "libc6-dev"),
    ],
)
def test_a_header_names_the_package_to_install(header: str, package: str) -> None:
    provider = for_header(header)
    assert provider is not None
    assert (provider.need, provider.kind, provider.package) == (header, "header", package)


@pytest.mark.parametrize(
    ("library", "package"),
    [("crypto", "libssl-dev"), ("ssl", "libssl-dev"), ("numa", "libnuma-dev"), ("amdhip64", "libamdhip64-dev")],
)
def test_a_library_names_the_package_with_its_development_link(library: str, package: str) -> None:
    provider = for_library(library)
    assert provider is not None
    assert provider.package == package


@pytest.mark.parametrize(
    ("program", "package"),
    [("ninja", "ninja-build"), ("c++", "g++"), ("g++", "g++"), ("gcc", "gcc"), ("cc", "gcc"), ("hipcc", "hipcc")],
)
def test_a_program_names_its_package(program: str, package: str) -> None:
    provider = for_program(program)
    assert provider is not None
    assert provider.package == package


def test_a_submodule_is_found_by_its_top_level_name() -> None:
    assert for_module("setuptools.command.build_ext") == Provider(
        need="setuptools", kind="module", packages=("python3-setuptools",)
    )


def test_what_no_package_brings_has_no_provider() -> None:
    assert for_header("cutlass/gemm/device/gemm.h") is None
    assert for_library("cuda") is None
    assert for_program("nvcc") is None
    assert for_module("sglang") is None


@pytest.mark.parametrize("listed", ["g++", "g++-14", "build-essential", "libstdc++-14-dev", "g++=4:14.2.0-1"])
def test_a_versioned_compiler_or_a_metapackage_counts_as_bringing_the_standard_headers(listed: str) -> None:
    provider = for_header("cmath")
    assert provider is not None
    assert provider.among(["curl", listed]) == package_name(listed)


def test_an_unrelated_package_does_not_count() -> None:
    provider = for_header("cmath")
    assert provider is not None
    assert provider.among(["gcc", "libssl-dev", "g++-multilib"]) is None


def test_every_need_is_claimed_once_and_every_entry_brings_something() -> None:
    table = tomli.loads((files("builder") / "data" / "providers.toml").read_text(encoding="utf-8"))
    claimed: set[tuple[str, str]] = set()
    for entry in table["provider"]:
        assert set(entry) <= {"packages", "also", "headers", "libraries", "programs", "modules"}, entry
        assert entry["packages"], entry
        needs = [
            (kind, need)
            for kind in ("headers", "libraries", "programs", "modules")
            for need in entry.get(kind, ())
        ]
        assert needs, entry["packages"]
        assert not claimed.intersection(needs), entry["packages"]
        claimed.update(needs)
