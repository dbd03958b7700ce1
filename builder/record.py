"""The record of a published, tested image: the pin that deployments take, and everything that went in.

The same image, tests and registry give the same record: it holds no time and no path.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from builder import foreign, origins
from builder.errors import LockError
from builder.fingerprint import fingerprint_inputs
from builder.lockfile import Lock
from builder.patchledger import recorded
from builder.plan import Known
from builder.recipe import Recipe
from builder.render import component_entry

SCHEMA = 2
_OF_A_STATE = {"inputs", "content_key", "test_key", "digest", "passed"}
_TEXTS = ("image", "version", "reference", "digest", "content-key", "test-key", "lock", "fingerprint")
_KEYS = {
    *_TEXTS, "schema", "engine", "fingerprint-inputs", "gfx", "python", "rocm", "kv-cache", "bases", "components",
    "distributions", "packages", "sources", "contract", "tags", "moved-from", "sbom", "signed", "patches",
    "layers", "size", "smoke",
}  # fmt: skip


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
    inputs: Mapping[str, object] | None = None,
    below: Mapping[str, tuple[str, str]] | None = None,
    tags: Sequence[str] = (),
    moved_from: str | None = None,
    sbom: Mapping[str, str] | None = None,
    signed: str | None = None,
) -> dict[str, object]:
    """Return the record as a table.

    `smoke` is the report of the tests that ran on exactly this digest, `patches` the ledger that is in it.
    `inputs` are those of the fingerprint. `below` has content key and fingerprint of the images that it is built
    on. `tags` are those it was given beside that of `reference`, `moved_from` is what that one named before.
    `sbom` has the sha256 of documents by their format, `signed` says how the image was signed: 'key', 'keyless' or
    not.
    """
    return {
        **went_in(
            recipe, lock, content_key=content_key, test_key=test_key, lock_hash=lock_hash, fingerprint=fingerprint,
            inputs=inputs if inputs is not None else fingerprint_inputs(recipe, lock), below=below or {},
        ),
        "reference": reference,
        "digest": digest,
        "tags": _tags(reference, tags),
        "moved-from": moved_from,
        "sbom": dict(sbom) if sbom is not None else None,
        "signed": signed,
        "patches": recorded(recipe, patches),
        "layers": [asdict(layer) for layer in layers],
        "size": sum(layer.size for layer in layers),
        "smoke": dict(smoke),
    }  # fmt: skip


def went_in(
    recipe: Recipe,
    lock: Lock,
    *,
    content_key: str,
    test_key: str,
    lock_hash: str,
    fingerprint: str,
    inputs: Mapping[str, object],
    below: Mapping[str, tuple[str, str]],
) -> dict[str, object]:
    """Return the part of a record that recipe and lock decide, whatever was built and found of it."""
    return {
        "schema": SCHEMA,
        "image": recipe.name,
        "version": recipe.version,
        "engine": recipe.engine,
        "content-key": content_key,
        "test-key": test_key,
        "lock": f"sha256:{lock_hash}",
        "fingerprint": fingerprint,
        "fingerprint-inputs": dict(inputs),
        "gfx": list(recipe.gfx),
        "python": recipe.python,
        "rocm": recipe.rocm,
        "kv-cache": dict(recipe.kv_cache),
        "bases": origins.bases(recipe, lock, below),
        "components": [component_entry(component, lock) for component in recipe.component],
        "distributions": origins.distributions(lock),
        "packages": origins.packages(lock),
        "sources": origins.sources(recipe, lock),
        "contract": origins.contract(recipe, fingerprint=fingerprint),
    }


def renewed(
    table: Mapping[str, Any], recipe: Recipe, parts: Mapping[str, object], *, reference: str
) -> dict[str, object]:
    """Return the record of the same image where it is published elsewhere, or its lock was written anew.

    `parts` are what went into it by the lock of today, as `went_in` returns it: a commit may be another one with
    the same files. What was found of the image stays. The tags are those of the recipe of today; what the version
    tag named before counts for the place where it did.
    """
    return {
        **table, **parts, "reference": reference, "patches": recorded(recipe, table["patches"]),
        "tags": _tags(reference, recipe.publish.moving_tags),
        "moved-from": table["moved-from"] if table["reference"] == reference else None,
    }  # fmt: skip


def _tags(reference: str, others: Iterable[str]) -> list[str]:
    return sorted({*others, reference.partition("@")[0].rpartition(":")[2]})


def passed(table: Mapping[str, Any], tiers: Iterable[str] = ("cpu",)) -> bool:
    """Tell whether the image of a record passed its tests in these tiers, and failed in none."""
    ran = table["smoke"]["tiers"]
    return "failed" not in ran.values() and all(ran.get(tier) == "passed" for tier in tiers)


def dump(table: Mapping[str, object]) -> str:
    """Return a record or state table as JSON text."""
    return json.dumps(table, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def state(*, inputs: Mapping[str, str], content_key: str, test_key: str, digest: str, passed: bool) -> str:
    """Return what the next plan wants to know of this build, as JSON text."""
    known = Known(inputs=inputs, content_key=content_key, test_key=test_key, digest=digest, passed=passed)
    return dump({key: value for key, value in asdict(known).items() if key in _OF_A_STATE})


def parse_state(text: str, *, file: str) -> Known:
    """Read back what `state` wrote. Raises `LockError` when the file is damaged."""
    table = _table(text, file)
    inputs = table.get("inputs")
    texts = [table.get(key) for key in ("content_key", "test_key", "digest")]
    if isinstance(inputs, dict):
        texts += inputs.values()
    if table.keys() != _OF_A_STATE or not (
        isinstance(inputs, dict)
        and all(isinstance(value, str) for value in texts)
        and isinstance(table["passed"], bool)
    ):
        raise LockError(f"{file}: not a state this version can read", hint=f"rm {file}")
    return Known(**table)


def parse_pin(text: str, *, file: str) -> dict[str, Any]:
    """Read back a record. Raises `LockError` when it is damaged, or of another version."""
    image = file.removeprefix("pins/").removesuffix(".json")
    remedy = f"rocm-images build {'IMAGE' if '/' in image else image} --publish HOST/NAMESPACE"
    table = _table(text, file, remedy=remedy)
    schema = table.get("schema")
    if schema != SCHEMA:
        raise LockError(
            f"{file}: schema: expected {SCHEMA}, the format of this version, got {schema!r}", hint=remedy
        )
    if not isinstance(table.get("reference"), str):
        raise LockError(f"{file}: not a record this version can read", hint=remedy)
    return table


def is_whole(table: Mapping[str, Any]) -> bool:
    """Tell whether a record has all its parts, as far as a plan relies on them."""
    smoke = table.get("smoke")
    return (
        table.keys() == _KEYS
        and all(isinstance(table[key], str) for key in _TEXTS)
        and all(isinstance(table[key], dict) for key in ("bases", "sources", "packages", "contract", "kv-cache"))
        and all(isinstance(table[key], list) for key in ("components", "distributions", "patches"))
        and isinstance(smoke, dict)
        and isinstance(smoke.get("tiers"), dict)
    )


def _table(text: str, file: str, *, remedy: str | None = None) -> dict[str, Any]:
    remedy = remedy or f"rm {file}"
    try:
        table = foreign.loads(text)
    except ValueError as error:
        raise LockError(f"{file}: damaged, this is no JSON", details=(str(error),), hint=remedy) from error
    if not isinstance(table, dict):
        raise LockError(f"{file}: damaged, this is no table", hint=remedy)
    return table
