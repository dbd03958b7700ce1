"""Asks an image about its patches: what its ledger says, what its probes give, and what became of its hooks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from builder.inside.probing import evaluate

LEDGER = Path("/usr/share/rocm-images/patches.json")


def probe(*, expressions: list[tuple[str, str, str]], hooks: bool) -> dict[str, Any]:
    """Evaluate expressions (patch, module, expression) in this process, which started as every one of the image.

    Returns `ledger` (its patches by name, None where there is no ledger), `values` (per patch a value or an error)
    and `hooks` (per hook its state, out of an interpreter of its own).
    """
    return {
        "ledger": _ledger(),
        "values": {name: evaluate(module, expression) for name, module, expression in expressions},
        "hooks": _hooks() if hooks else {},
    }


def _ledger() -> dict[str, Any] | None:
    if not LEDGER.is_file():
        return None
    return {patch["name"]: patch for patch in json.loads(LEDGER.read_text(encoding="utf-8"))["patches"]}


def _hooks() -> dict[str, Any]:
    # What engines say while they are imported goes to standard error, and is no part of the answer.
    done = subprocess.run(
        [sys.executable, "-m", "rocm_images_hooks"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    try:
        return {hook["name"]: hook for hook in json.loads(done.stdout)["hooks"]}
    except ValueError:
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        lines = [line for line in said.splitlines() if line.strip()]
        raise RuntimeError(
            f"the check of the hooks ended with status {done.returncode}: {' | '.join(lines[-3:])}"
        ) from None
