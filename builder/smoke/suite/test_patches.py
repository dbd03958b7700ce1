"""The patches in the finished image, as its user: listed, and with the effect they are there for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builder.inside.probing import is_value
from builder.smoke.contract import Contract
from builder.smoke.findings import unfit
from builder.smoke.plugin import Probe
from builder.smoke.promises import PatchPromise


@pytest.fixture(scope="module")
def patched(shared_probe: Probe, contract: Contract) -> dict[str, Any]:
    """Ask the image once about its patches."""
    return shared_probe(
        "patches",
        expressions=[(each.name, each.module, each.expression) for each in contract.patches if each.is_probed],
        hooks=any(each.kind == "hook" for each in contract.patches),
    )


@pytest.mark.hint("build the image again, without the cache")
def test_the_ledger_lists_the_patch(patch: PatchPromise, patched: dict[str, Any], contract: Contract) -> None:
    """Nobody could tell from the image which patches it has, and a report would name the wrong ones."""
    ledger = patched["ledger"]
    if ledger is None:
        raise unfit("the image has no /usr/share/rocm-images/patches.json")
    if sorted(ledger) != sorted(each.name for each in contract.patches):
        raise unfit(f"the ledger has the patches {', '.join(sorted(ledger)) or 'none'}")
    entry = ledger[patch.name]
    told = {key: entry[key] for key in ("target", "kind", "sha256")}
    if told != {"target": patch.target, "kind": patch.kind, "sha256": patch.sha256}:
        raise unfit(f"patch {patch.name}: the ledger has another one: {json.dumps(told)}")


@pytest.mark.hint("look for what replaces the patched file after the build, or sets the value again")
def test_the_patch_has_its_effect(probed_patch: PatchPromise, patched: dict[str, Any]) -> None:
    """The engine would run without the patch although everything says that it is in."""
    found = patched["values"][probed_patch.name]
    state = (patched["ledger"] or {}).get(probed_patch.name, {}).get("state")
    if is_value(found, probed_patch.after) or (probed_patch.optional and state not in ("effective", None)):
        return
    got = json.dumps(found["value"]) if "value" in found else f"no value: {found['error']}"
    raise unfit(
        f"patch {probed_patch.name}: {probed_patch.expression} of {probed_patch.module} gives {got}, "
        f"promised is {json.dumps(probed_patch.after)}"
    )


@pytest.mark.hint("see docs/hooks.md on what makes a hook effective")
def test_the_hook_is_effective(hook: PatchPromise, patched: dict[str, Any]) -> None:
    """The hook would be installed, and callers would go on with the old value."""
    found = patched["hooks"].get(hook.name)
    if found is None:
        raise unfit(f"patch {hook.name}: the image does not know this hook")
    if found["state"] != "effective" and not hook.optional:
        raise unfit(f"patch {hook.name}: the hook is {found['state']}, not effective: {found['detail']}")
