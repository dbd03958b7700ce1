"""The Python set: what is installed is what was locked, from the wheels that were locked, and it fits together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from builder.smoke import distributions
from builder.smoke.contract import Contract
from builder.smoke.findings import diagnosed, unfit
from builder.smoke.judging import Problem
from builder.smoke.probing import Probe
from builder.smoke.pythonset import PythonSet

_MODULE_SECONDS = 60
Judge = Callable[[str, Iterable[Problem]], None]


@pytest.fixture(scope="module")
def compiled(shared_probe: Probe) -> dict[str, Any]:
    """Import every compiled module of the image once."""
    return shared_probe("compiled_modules", seconds=_MODULE_SECONDS)


@pytest.fixture
def wanted(contract: Contract) -> PythonSet:
    """Return what is locked."""
    if contract.python_set is None:
        pytest.skip("nobody says which distributions the image has to have")
    return contract.python_set


@pytest.mark.asks("distributions", "installed")
@pytest.mark.hint("look for the install step that replaced it; nothing may be installed beside the lock")
def test_the_distributions_are_the_locked_ones(python: dict[str, Any], wanted: PythonSet, judge: Judge) -> None:
    """The engine would run with another torch, Triton or library than the one every check was made with."""
    judge("distribution", distributions.differing(python, wanted))


@pytest.mark.asks("distributions", "installed")
@pytest.mark.hint("find out which step brings it; what the image needs belongs into the recipe and its lock")
def test_no_other_distribution_is_there(python: dict[str, Any], wanted: PythonSet, judge: Judge) -> None:
    """A distribution that nobody chose would be imported, and no update would ever reach it."""
    judge("distribution", distributions.surplus(python, wanted))


@pytest.mark.asks("installed")
@pytest.mark.hint("let nothing write into installed distributions; build the image again from its lock")
def test_the_files_are_those_of_the_locked_wheels(
    python: dict[str, Any], contract: Contract, judge: Judge
) -> None:
    """Files that another install step overwrote would crash or compute something else, under the right version."""
    judge("record", distributions.altered(python, contract.python_set))


@pytest.mark.asks("installed", "requirements")
@pytest.mark.hint("pin versions that fit, or say in the recipe what the component really requires, and why")
def test_declared_requirements_are_met(python: dict[str, Any], contract: Contract, judge: Judge) -> None:
    """A library would be called in a way that its installed version does not know: an error on some request."""
    judge("requirement", distributions.unmet(python, contract.python_set))


@pytest.mark.asks("distributions", "installed")
@pytest.mark.hint("find out which requirement brings it, and replace that in the recipe")
def test_no_forbidden_distribution_is_there(python: dict[str, Any], wanted: PythonSet, judge: Judge) -> None:
    """A distribution for other hardware, or one that breaks the engine, would be imported."""
    judge("forbidden", distributions.forbidden(python, wanted))


@pytest.mark.asks("installed", "modules")
@pytest.mark.hint("rebuild it against the torch, NumPy and C++ library of this image, after they are pinned")
def test_compiled_modules_import(compiled: dict[str, Any], judge: Judge) -> None:
    """A kernel or a parser would fail with an undefined symbol, or the process would crash, when first needed."""
    judge("module", distributions.unusable(compiled))


@pytest.mark.asks("installed", "modules")
@pytest.mark.hint("take torch and what goes with it from the ROCm index, and protect it in the recipe")
def test_nothing_is_built_for_other_hardware(
    python: dict[str, Any], compiled: dict[str, Any], contract: Contract, judge: Judge
) -> None:
    """The server would start, find no device, and serve from the CPU or not at all."""
    judge("build", distributions.for_other_hardware(python, compiled["torch"], contract.rocm))


@pytest.mark.asks("modules")
@pytest.mark.hint("install the torchvision that was built for this torch, from the same index")
def test_torchvision_registers_its_operators(compiled: dict[str, Any], contract: Contract) -> None:
    """The engine would die at its start: operator torchvision::nms does not exist."""
    found = compiled["torchvision"]
    if found is None:
        pytest.skip("there is no torchvision in the image")
    if "died" in found or "chain" in found:
        lines = [f"{link['type']}: {link['message']}" for link in found.get("chain", ())]
        otherwise = found.get("died") or lines[0].splitlines()[0]
        told = diagnosed("\n".join(lines), contract, otherwise=otherwise, details=tuple(lines))
        raise unfit(f"import torchvision: {told.cause}", details=told.details)
    if missing := [name for name, there in found["operators"].items() if not there]:
        raise unfit(f"torchvision {found['version']} does not register {', '.join(missing)}")


@pytest.mark.asks("installed")
@pytest.mark.hint("give the build its version: build-env with SETUPTOOLS_SCM_PRETEND_VERSION or the project's own")
def test_version_stamps_name_a_version(python: dict[str, Any], contract: Contract, judge: Judge) -> None:
    """Reports, caches and version checks of other libraries would take it for a version that it is not."""
    judge("stamp", distributions.misstamped(python, contract.python_set))


@pytest.mark.asks("installed")
@pytest.mark.hint("find out which of them is wanted, and forbid the other one in the recipe")
def test_every_module_is_of_the_distribution_that_is_meant(python: dict[str, Any], judge: Judge) -> None:
    """An unrelated distribution of the same name would be imported instead of the engine's own."""
    judge("claim", distributions.mistaken(python))


@pytest.mark.asks("installed")
@pytest.mark.hint("remove the folder in the step that leaves it")
def test_no_remnants_of_removed_distributions_are_left(python: dict[str, Any], judge: Judge) -> None:
    """An import would succeed with an empty module, and what looks for an optional part would find it."""
    judge("remnant", distributions.remnants(python))
