"""What programs and libraries ask of the loader: everything is found, in the version they need, and only once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from builder.smoke import libraries
from builder.smoke.contract import Contract
from builder.smoke.findings import unfit
from builder.smoke.judging import Problem
from builder.smoke.probing import Probe

pytestmark = pytest.mark.asks("libraries")
Judge = Callable[[str, Iterable[Problem]], None]


@pytest.fixture(scope="module")
def elf(shared_probe: Probe) -> dict[str, Any]:
    """Look once at every program and library of the image."""
    found = shared_probe("elf_files")
    if "reason" in found:
        pytest.skip(found["reason"])
    return found


@pytest.mark.hint("install the package that has it in the runtime stage, or set the search path that leads to it")
def test_every_needed_library_is_found(elf: dict[str, Any], python: dict[str, Any], judge: Judge) -> None:
    """The program does not start, or an import dies: error while loading shared libraries."""
    judge("library", libraries.unresolved(elf, python))


@pytest.mark.hint("install it in the runtime stage; the name without a version is often in the -dev package alone")
def test_the_library_opens_by_name(library: str, shared_probe: Probe) -> None:
    """What opens it by name, at the first use, would fail or switch a feature off without a word."""
    found = shared_probe("opened_libraries", names=[library])["libraries"][library]
    if found["error"] is not None:
        near = f"; there is {', '.join(found['near'])}" if found["near"] else ""
        raise unfit(f"{library} does not open: {found['error']}{near}")


@pytest.mark.hint("take a build for this distribution, or build it in this image's build stage")
def test_needed_symbol_versions_are_there(elf: dict[str, Any], judge: Judge) -> None:
    """A library built for a newer distribution would not load: version `GLIBCXX_3.4.31' not found."""
    judge("symbol-version", libraries.unversioned(elf))


@pytest.mark.hint("keep one of them: let the other package use it, or leave the component out that brings it")
def test_no_library_is_there_twice_with_other_content(elf: dict[str, Any], judge: Judge) -> None:
    """Two copies in one process have two states: one finds the cards, the other none, or both crash."""
    judge("duplicate", libraries.twice(elf))


@pytest.mark.hint("compile it with -fPIC")
def test_no_library_has_text_relocations(elf: dict[str, Any], judge: Judge) -> None:
    """Kernels and policies that forbid writable code refuse to load it."""
    judge("text-relocation", libraries.relocated(elf))


@pytest.mark.hint("link with -rpath '$ORIGIN/…', or take it out with patchelf --remove-rpath")
def test_search_paths_lead_into_the_image(
    elf: dict[str, Any], python: dict[str, Any], contract: Contract, judge: Judge
) -> None:
    """It would load what the build machine had, or what somebody put where its process stands, or nothing."""
    judge("search-path", libraries.astray(elf, python, contract.python_set, contract.writable))
