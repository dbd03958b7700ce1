"""What an image's libraries are judged by, each problem with its whole message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from builder.smoke import libraries as judged
from builder.smoke.judging import Problem
from builder.smoke.pythonset import LockedDistribution, PythonSet

SITE = "/usr/local/lib/python3.13/dist-packages"


def figures(**changes: Any) -> dict[str, Any]:
    return {
        "sites": [SITE], "missing": [], "unversioned": [], "interpreters": [], "preload": [], "twice": [],
        "text_relocations": [], "paths": [], **changes,
    }  # fmt: skip


def python(**tops: tuple[str, ...]) -> dict[str, Any]:
    """Return distributions of one package each, with what they require."""
    found = [
        {"name": name, "version": "1", "tops": [name], "requires": list(requires)}
        for name, requires in tops.items()
    ]
    return {"distributions": found}


def lack(asks: str, name: str, *elsewhere: str, roots: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"asks": asks, "name": name, "roots": list(roots or (asks,)), "elsewhere": list(elsewhere)}


def causes(problems: Iterable[Problem]) -> list[str]:
    return [problem.cause for problem in problems]


def test_a_library_that_is_not_found_is_told_once_with_all_who_need_it() -> None:
    asking = [lack(f"/usr/bin/{name}", "libMLIR.so.22") for name in "abcde"]
    assert causes(judged.unresolved(figures(missing=asking), None)) == [
        "libMLIR.so.22 is not found and needed by /usr/bin/a, /usr/bin/b, /usr/bin/c and 2 more"
    ]


def test_where_a_library_lies_that_the_loader_does_not_find_is_told_and_what_is_loaded_for_what() -> None:
    told = lack("/opt/lib/libb.so", "libx.so.1", "/opt/other/libx.so.1", roots=("/usr/bin/a", "/opt/lib/libb.so"))
    (problem,) = judged.unresolved(figures(missing=[told]), None)
    assert problem.subject == "libx.so.1"
    assert problem.cause == (
        "libx.so.1 is not found and needed by /opt/lib/libb.so; it lies in /opt/other/libx.so.1, "
        "where the loader does not look"
    )
    assert problem.details == ("/opt/lib/libb.so, loaded for /usr/bin/a",)


@pytest.mark.parametrize(
    ("asks", "elsewhere", "counts"),
    [
        ("kernels/_C.so", "torch/lib/libx.so", False),  # torch always comes first
        ("kernels/_C.so", "kernels/lib/libx.so", False),  # its own package loads it
        ("kernels/_C.so", "runtime/libx.so", False),  # what it requires loads it
        ("kernels/_C.so", "deep/libx.so", False),  # over another distribution
        ("kernels/_C.so", "stranger/libx.so", True),
    ],
)
def test_a_module_counts_on_its_own_package_on_what_it_requires_and_on_torch(
    asks: str, elsewhere: str, counts: bool
) -> None:
    told = figures(missing=[lack(f"{SITE}/{asks}", "libx.so", f"{SITE}/{elsewhere}")])
    there = python(kernels=("runtime>=1",), runtime=("deep; extra == 'x'",), deep=(), stranger=(), torch=())
    assert bool(causes(judged.unresolved(told, there))) is counts


def test_a_program_counts_on_nothing_that_python_loads() -> None:
    told = figures(missing=[lack("/usr/bin/server", "libtorch.so", f"{SITE}/torch/lib/libtorch.so")])
    assert causes(judged.unresolved(told, python(torch=()))) == [
        (
            f"libtorch.so is not found and needed by /usr/bin/server; it lies in {SITE}/torch/lib/libtorch.so, "
            "where the loader does not look"
        )
    ]


def test_a_loader_or_a_preloaded_library_that_is_not_there_is_told() -> None:
    told = figures(
        interpreters=[{"path": "/usr/bin/musl", "interpreter": "/lib/ld-musl-x86_64.so.1"}],
        preload=["libtcmalloc.so.4"],
    )
    assert causes(judged.unresolved(told, None)) == [
        "/usr/bin/musl cannot start: its loader /lib/ld-musl-x86_64.so.1 is not in the image",
        "LD_PRELOAD names libtcmalloc.so.4, which is not found",
    ]


def test_a_missing_symbol_version_is_told_with_the_library_that_is_found() -> None:
    lacks = [
        {
            "asks": f"{SITE}/aiter/{name}.so",
            "library": "/lib/libstdc++.so.6",
            "version": "GLIBCXX_3.4.31",
            "roots": [],
        }
        for name in ("a", "b")
    ]
    (problem,) = judged.unversioned(figures(unversioned=lacks))
    assert problem.subject == "GLIBCXX_3.4.31"
    assert (
        problem.cause
        == f"/lib/libstdc++.so.6 has no GLIBCXX_3.4.31, needed by {SITE}/aiter/a.so, {SITE}/aiter/b.so"
    )


def copies(*told: tuple[str, str, bool]) -> dict[str, Any]:
    found = [{"path": path, "sha256": content, "python": python_} for path, content, python_ in told]
    return figures(twice=[{"soname": "libamd_smi.so.26", "copies": found}])


def test_two_copies_of_different_content_that_one_process_can_load_are_told() -> None:
    told = copies(("/opt/rocm/lib/libamd_smi.so", "a", True), (f"{SITE}/amdsmi/libamd_smi.so", "b", True))
    assert causes(judged.twice(told)) == [
        (
            f"libamd_smi.so.26 is there 2 times with other content: /opt/rocm/lib/libamd_smi.so and "
            f"{SITE}/amdsmi/libamd_smi.so"
        )
    ]


@pytest.mark.parametrize(
    "told",
    [
        copies(("/opt/rocm/lib/libamd_smi.so", "a", False), (f"{SITE}/amdsmi/libamd_smi.so", "b", True)),
        copies(("/opt/rocm/lib/libamd_smi.so", "a", True), (f"{SITE}/amdsmi/libamd_smi.so", "a", True)),
        copies((f"{SITE}/triton/old/libx.so", "a", True), (f"{SITE}/triton/new/libx.so", "b", True)),
    ],
    ids=["one that no python process loads", "the same content", "two that one distribution chooses from"],
)
def test_copies_that_do_no_harm_are_no_problem(told: dict[str, Any]) -> None:
    assert causes(judged.twice(told)) == []


def test_text_relocations_are_told() -> None:
    assert causes(judged.relocated(figures(text_relocations=["/opt/x.so"]))) == [
        "/opt/x.so has text relocations (DT_TEXTREL)"
    ]


@pytest.mark.parametrize(
    ("path", "entries", "expected"),
    [
        ("/usr/local/bin/probe", ["/build/lib"], "/build/lib, which is not in the image"),
        ("/usr/local/bin/probe", ["", "lib"], "'', 'lib', relative to where its process stands"),
        (f"{SITE}/triton/x.so", ["/tmp/b/lib"], "/tmp/b/lib, which its user can write to"),
        (f"{SITE}/triton/x.so", ["/var/cache/e/lib"], "/var/cache/e/lib, which its user can write to"),
        (f"{SITE}/vllm/_C.so", ["/build/x"], "/build/x, which is not in the image"),
        (f"{SITE}/triton/x.so", ["/root/.triton/llvm/lib", ""], None),
    ],
)  # fmt: skip
def test_search_paths_that_lead_elsewhere_are_told_but_not_those_of_published_wheels(
    path: str, entries: list[str], expected: str | None
) -> None:
    told = figures(paths=[{"path": path, "entry": entry} for entry in entries])
    wanted = PythonSet(
        distributions=(
            LockedDistribution(project="triton", version="1", layer="triton", file="triton.whl"),
            LockedDistribution(project="vllm", version="1", layer="vllm"),
        )
    )
    found = causes(judged.astray(told, python(triton=(), vllm=()), wanted, ("/var/cache/e",)))
    assert found == ([f"{path} looks for libraries in {expected}"] if expected is not None else [])


def test_without_a_lock_every_distribution_counts_as_published() -> None:
    told = figures(paths=[{"path": f"{SITE}/vllm/_C.so", "entry": "/build/x"}])
    assert causes(judged.astray(told, python(vllm=()), None, ())) == []
    assert len(causes(judged.astray(told, python(other=()), None, ()))) == 1
