"""The record of a published, tested image: the pin that deployments take, and everything that went in.

The same image, tests and registry give the same record: it holds no time and no path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from builder.errors import LockError
from builder.lockfile import Lock
from builder.patchledger import recorded
from builder.plan import Known
from builder.recipe import Recipe
from builder.render import component_entry

SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerEntry:
    """A layer as nodes pull it: who owns it, its digest, its compressed size in bytes."""

    owner: str
    digest: str
    size: int


def owned_layers(blobs: Sequence[tuple[str, int]], owners: Sequence[str]) -> tuple[LayerEntry, ...]:
    """Name the owner of every layer (digest, bytes), bottom first; what lies below `owners` is the base's."""
    below = len(blobs) - len(owners)
    if below < 0:
        raise ValueError(f"{len(owners)} owners for {len(blobs)} layers")
    named = ["base"] * below + list(owners)
    return tuple(
        LayerEntry(owner=owner, digest=digest, size=size)
        for owner, (digest, size) in zip(named, blobs, strict=True)
    )


def pin(
    recipe: Recipe,
    lock: Lock,
    *,
    reference: str,
    digest: str,
    content_key: str,
    test_key: str,
    lock_hash: str,
    fingerprint: str,
    layers: Sequence[LayerEntry],
    smoke: Mapping[str, object],
    patches: Sequence[Mapping[str, object]],
) -> dict[str, object]:
    """Return the record as a table.

    `smoke` is the report of the tests that ran on exactly this digest, `patches` the ledger that is in it.
    """
    return {
        "schema": SCHEMA,
        "image": recipe.name,
        "version": recipe.version,
        "reference": reference,
        "digest": digest,
        "content-key": content_key,
        "test-key": test_key,
        "lock": f"sha256:{lock_hash}",
        "fingerprint": fingerprint,
        "gfx": list(recipe.gfx),
        "python": recipe.python,
        "bases": {
            stage: base.image or base.recipe or f"debian {base.debian.suite if base.debian else ''}"
            for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime))
        },
        "components": [component_entry(component, lock) for component in recipe.component],
        "patches": recorded(recipe, patches),
        "layers": [asdict(layer) for layer in layers],
        "size": sum(layer.size for layer in layers),
        "smoke": dict(smoke),
    }


def renewed(table: Mapping[str, object], *, reference: str, lock_hash: str) -> dict[str, object]:
    """Return the record of the same image where it is published elsewhere, or its lock was written anew."""
    return {**table, "reference": reference, "lock": f"sha256:{lock_hash}"}


def dump(table: Mapping[str, object]) -> str:
    """Return a record or state table as JSON text."""
    return json.dumps(table, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def state(*, inputs: Mapping[str, str], content_key: str, test_key: str, digest: str, passed: bool) -> str:
    """Return what the next plan wants to know of this build, as JSON text."""
    known = Known(inputs=inputs, content_key=content_key, test_key=test_key, digest=digest, passed=passed)
    return dump(asdict(known))


def parse_state(text: str, *, file: str) -> Known:
    """Read back what `state` wrote. Raises `LockError` when the file is damaged."""
    table = _table(text, file)
    inputs = table.get("inputs")
    texts = [table.get(key) for key in ("content_key", "test_key", "digest")]
    if isinstance(inputs, dict):
        texts += inputs.values()
    if table.keys() != {field.name for field in fields(Known)} or not (
        isinstance(inputs, dict)
        and all(isinstance(value, str) for value in texts)
        and isinstance(table["passed"], bool)
    ):
        raise LockError(f"{file}: not a state this version can read", hint=f"rm {file}")
    return Known(**table)


def parse_pin(text: str, *, file: str) -> dict[str, object]:
    """Read back a record. Raises `LockError` when the file is damaged."""
    table = _table(text, file)
    if table.get("schema") != SCHEMA or not isinstance(table.get("reference"), str):
        raise LockError(f"{file}: not a record this version can read", hint=f"rm {file}")
    return table


def _table(text: str, file: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except ValueError as error:
        raise LockError(f"{file}: damaged, this is no JSON", details=(str(error),), hint=f"rm {file}") from error
    if not isinstance(table, dict):
        raise LockError(f"{file}: damaged, this is no table", hint=f"rm {file}")
    return table
