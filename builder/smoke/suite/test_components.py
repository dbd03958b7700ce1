"""What is in the image: component versions equal the pins, modules import, and nothing forbidden came along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from builder.smoke.contract import ComponentVersion, Contract
from builder.smoke.findings import Unfit, diagnosed, unfit
from builder.smoke.plugin import Probe


@pytest.fixture(scope="module")
def installed(shared_probe: Probe, contract: Contract) -> dict[str, Any]:
    """Ask the image once about its components, modules and forbidden distributions."""
    return shared_probe(
        "distributions",
        components=[(each.name, each.asked, each.apt) for each in contract.components],
        imports=list(contract.imports),
        absent=list(contract.absent),
    )


@pytest.mark.asks("components")
@pytest.mark.hint("look for a later install step that replaced it, or for a version that was stamped without git")
def test_the_version_equals_the_pin(component: ComponentVersion, installed: dict[str, Any]) -> None:
    """Something else than the pinned version would be served, and every report would name the wrong one."""
    where = f"distribution {component.asked}" if component.asked else f"package {component.apt}"
    found = installed["versions"][component.name]
    if found is None:
        raise unfit(f"component {component.name}: the {where} is not in the image, pinned is {component.version}")
    if not component.is_pinned_at(found):
        raise unfit(f"component {component.name}: the {where} is {found}, pinned is {component.version}")


@pytest.mark.asks("imports")
def test_the_module_imports(module: str, installed: dict[str, Any], contract: Contract) -> None:
    """The server would not start: one of its modules does not import."""
    found = installed["imports"][module]
    if "chain" in found:
        lines = [f"{link['type']}: {link['message']}" for link in found["chain"]]
        evidence = "\n".join(lines + found["compiler"])
        finding = diagnosed(evidence, contract, otherwise=lines[0], details=tuple(lines))
        raise Unfit(replace(finding, cause=f"import {module}: {finding.cause}"))
    if found["file"] is None:
        raise unfit(
            f"import {module} finds an empty namespace: its files are not in the image",
            hint=f"look for a left-over folder named {module.partition('.')[0]}, and for a missing component",
        )


@pytest.mark.asks("absent")
@pytest.mark.hint("find out which requirement brings it, and forbid it there")
def test_the_distribution_is_absent(absent: str, installed: dict[str, Any]) -> None:
    """A distribution for other hardware, or one that breaks the engine, would be loaded."""
    if absent in installed["present"]:
        raise unfit(f"{absent} {installed['present'][absent]} is in the image and has to be absent")


def _pair(_contract: Contract, pair: str) -> dict[str, Any]:
    importer, _, provider = pair.partition(" -> ")
    return {"importer": importer, "provider": provider}


@pytest.mark.asks("contracts")
@pytest.mark.ahead("engine_contract", _pair)
@pytest.mark.hint("pin the provider to the version that the engine's release names, or carry a patch")
def test_the_engine_finds_what_it_imports(pair: str, probed: Callable[[], dict[str, Any]]) -> None:
    """The engine would die at its start, or on the first request that needs the module: nothing else tells."""
    found = probed()
    if found["missing"]:
        others = f"; and {len(found['missing']) - 1} more" if len(found["missing"]) > 1 else ""
        raise unfit(f"{pair}: {found['missing'][0]}{others}", details=tuple(found["missing"][:20]))
