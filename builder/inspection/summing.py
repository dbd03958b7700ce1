"""From an image as it was seen to its summary, and to a side of a comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from builder.audit.contents import COMPONENTS, MANIFEST
from builder.compare.foreign import GFX_VARIABLES, Told, told_by, with_told
from builder.compare.sides import Side, of_manifest
from builder.compare.summary import LayerRow, Summary
from builder.inspection.seeing import Seen
from builder.inspection.stack import owners, table
from builder.patchledger import FILE as LEDGER
from builder.record import LayerEntry
from builder.render import LABEL

_BASE = "org.opencontainers.image.base."
_UNOWNED = "unknown"


def summary_of(seen: Seen) -> Summary:
    """Return what is in an image."""
    history = seen.history
    named = owners(seen.texts, seen.layer_of, history) if seen.ours else (None,) * len(history)
    layers = tuple(
        LayerRow(
            owner=owner, digest=blob.digest if seen.exact else None, size=blob.size if seen.exact else None,
            history=step,
        )
        for owner, blob, step in zip(named, seen.described.layers, history, strict=True)
    )  # fmt: skip
    if seen.ours:
        installed = table(seen.texts, COMPONENTS)
        return Summary(
            side=_own_side(seen, layers), where=seen.where, layers=layers, gfx_by="its manifest",
            unpacked={
                name: each["bytes"] for name, each in installed.items() if isinstance(each.get("bytes"), int)
            },
        )  # fmt: skip
    told = told_by(seen.texts) if seen.whole else None
    gfx, by = _gfx(seen)
    return Summary(
        side=_other_side(seen, told, layers, gfx), where=seen.where, layers=layers, gfx_by=by, told=told,
        files_read=seen.whole,
    )  # fmt: skip


def _own_side(seen: Seen, layers: Sequence[LayerRow]) -> Side:
    return of_manifest(
        table(seen.texts, MANIFEST), label=seen.name, ledger=table(seen.texts, LEDGER) or None,
        reference=seen.reference, digest=_manifest_digest(seen), layers=_entries(layers),
    )  # fmt: skip


def _other_side(seen: Seen, told: Told | None, layers: Sequence[LayerRow], gfx: tuple[str, ...] | None) -> Side:
    """Return an image that says nothing of itself in this program's words, or of which no file was read."""
    labels = seen.described.labels
    side = Side(
        label=seen.name, document="image", image=None, version=None, components=None, patches=None, gfx=gfx,
        reference=seen.reference, digest=_manifest_digest(seen), layers=_entries(layers), bases=_bases(labels),
        contract=_contract(seen), fingerprint=labels.get(f"{LABEL}.fingerprint"),
    )  # fmt: skip
    return with_told(side, told) if told is not None else side


def _manifest_digest(seen: Seen) -> str | None:
    return str(seen.described.digest) if seen.exact and seen.described.digest is not None else None


def _entries(layers: Sequence[LayerRow]) -> tuple[LayerEntry, ...] | None:
    """Return layers as a comparison takes them; None where what is pulled is not known."""
    found = [
        LayerEntry(owner=row.owner or _UNOWNED, digest=row.digest, size=row.size)
        for row in layers
        if row.digest is not None and row.size is not None
    ]
    return tuple(found) if len(found) == len(layers) else None


def _bases(labels: Mapping[str, str]) -> dict[str, str] | None:
    """Return what a label of the OCI image specification says of the base."""
    told = "@".join(labels[f"{_BASE}{key}"] for key in ("name", "digest") if labels.get(f"{_BASE}{key}"))
    return {"runtime": told} if told else None


def _gfx(seen: Seen) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the GPU targets that a label or a variable names, and which of them does."""
    if label := seen.described.labels.get(f"{LABEL}.gfx"):
        return tuple(label.split(",")), f"label {LABEL}.gfx"
    variables = _environment(seen)
    for name in GFX_VARIABLES:
        if named := tuple(variables.get(name, "").replace(",", ";").split()):
            return tuple(part for each in named for part in each.split(";") if part), name
    return None, None


def _environment(seen: Seen) -> dict[str, str]:
    listed = (seen.described.config.get("config") or {}).get("Env") or []
    return dict(str(each).split("=", 1) for each in listed if "=" in str(each))


def _contract(seen: Seen) -> dict[str, str]:
    """Return what the configuration of any image says of how it is run, as one flat table."""
    told = seen.described.config.get("config") or {}
    flat = {
        "user": str(told.get("User") or "root"), "workdir": str(told.get("WorkingDir") or "/"),
        "entrypoint": json.dumps(told.get("Entrypoint") or []), "cmd": json.dumps(told.get("Cmd") or []),
        "expose": json.dumps(sorted(told.get("ExposedPorts") or [])),
        "writable": json.dumps(sorted(told.get("Volumes") or [])),
    }  # fmt: skip
    return flat | {f"env.{name}": value for name, value in sorted(_environment(seen).items())}
