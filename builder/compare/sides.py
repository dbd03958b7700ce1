"""One side of a comparison: what an image is made of, whichever of its documents says so.

A recipe with its lock, a record, and what an image says of itself come here to one form. What a document does not
say is None, unknown, and never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.fingerprint import fingerprint as hashed
from builder.fingerprint import fingerprint_inputs
from builder.lockfile import DEPENDENCIES, SORTED_JSON, Lock
from builder.origins import base_in_words, contract
from builder.patchledger import entry
from builder.recipe import BUILD_SUFFIX, Component, Recipe
from builder.record import LayerEntry
from builder.render import component_entry

KINDS = ("wheel", "source", "apt", "base")
_SERVED = ("base", "both", "runtime")  # the stages of packages that are in the image
BUILT = "built-by"  # the fact of how a source is built: only a recipe says it
_BUILT_BY = ("build", "subdirectory", "build_env", "needs", "gfx")
_HASH_DIGITS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A component: its version, where it comes from, and every fact that tells its bytes, as text."""

    name: str
    version: str
    kind: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchPart:
    """A patch: what it is for, what became of it, the hash of what it does, and why it is there."""

    name: str
    target: str
    kind: str
    state: str
    sha256: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """What an image is made of. `label` is how whoever asked named it, `document` what says it.

    `packages` are the distribution's packages that are served, `build_packages` those that only a stage that is
    not shipped has, `distributions` the Python distributions that are no component; each by name with its version.
    """

    label: str
    document: str
    image: str | None
    version: str | None
    components: tuple[Part, ...] | None
    patches: tuple[PatchPart, ...] | None
    reference: str | None = None
    digest: str | None = None
    content_key: str | None = None
    fingerprint: str | None = None
    fingerprint_inputs: Mapping[str, str] | None = None
    gfx: tuple[str, ...] | None = None
    python: str | None = None
    rocm: str | None = None
    bases: Mapping[str, str] | None = None
    packages: Mapping[str, str] | None = None
    build_packages: Mapping[str, str] | None = None
    distributions: Mapping[str, str] | None = None
    contract: Mapping[str, str] | None = None
    layers: tuple[LayerEntry, ...] | None = None


def of_lock(
    recipe: Recipe,
    lock: Lock,
    *,
    label: str | None = None,
    content_key: str | None = None,
    fingerprint: str | None = None,
) -> Side:
    """Return what a recipe and its lock say. Digests and layers are unknown: nothing is built yet.

    The fingerprint of an image that is built on another one of its project depends on that one as well: unless it
    is given, it is unknown.
    """
    inputs = fingerprint_inputs(recipe, lock) if recipe.base.runtime.recipe is None else None
    if fingerprint is None and inputs is not None:
        fingerprint = hashed(inputs)
    owned = {file.project for component in recipe.wheels for file in lock.wheels(component.name)}
    return Side(
        label=label or recipe.name,
        document="lock",
        image=recipe.name,
        version=recipe.version,
        content_key=content_key,
        fingerprint=fingerprint,
        fingerprint_inputs=_flat(inputs),
        gfx=recipe.gfx,
        python=recipe.python,
        rocm=recipe.rocm,
        bases={"build": recipe.base.build.origin, "runtime": recipe.base.runtime.origin},
        components=tuple(_part(component_entry(c, lock), _built(c)) for c in recipe.component),
        patches=tuple(
            _patch({**entry(recipe, lock, patch), "reason": patch.reason}) for patch in recipe.patch
        ),
        packages={p.name: p.version for p in lock.deb if p.stage != "build"},
        build_packages={p.name: p.version for p in lock.deb if p.stage == "build"},
        distributions={f.project: f.version for f in lock.served if f.project not in owned},
        contract=_contract(contract(recipe, fingerprint="{fingerprint}"), recipe.kv_cache, None),
    )  # fmt: skip


def of_record(table: Mapping[str, Any], *, label: str) -> Side:
    """Return what a record says."""
    parts = _parts(table.get("components"))
    bases, packages, inputs = (table.get(key) for key in ("bases", "packages", "fingerprint-inputs"))
    debs = packages if isinstance(packages, Mapping) else None
    return Side(
        label=label,
        document="record",
        image=_text(table.get("image")),
        version=_text(table.get("version")),
        reference=_text(table.get("reference")),
        digest=_text(table.get("digest")),
        content_key=_text(table.get("content-key")),
        fingerprint=_text(table.get("fingerprint")),
        fingerprint_inputs=_flat(inputs),
        gfx=_texts(table.get("gfx")),
        python=_text(table.get("python")),
        rocm=_text(table.get("rocm")),
        bases=_flat_words(bases) if isinstance(bases, Mapping) else None,
        components=parts,
        patches=_patches(table.get("patches")),
        packages=_versions(debs, *_SERVED) if debs is not None else None,
        build_packages=_versions(debs, "build") if debs is not None else None,
        distributions=_distributions(table.get("distributions"), parts or ()),
        contract=_contracted(table, _text(table.get("fingerprint"))),
        layers=_layers(table.get("layers")),
    )


def of_manifest(
    table: Mapping[str, Any],
    *,
    label: str,
    ledger: Mapping[str, Any] | None = None,
    reference: str | None = None,
    digest: str | None = None,
    layers: Sequence[LayerEntry] | None = None,
) -> Side:
    """Return what an image of this program says of itself in its manifest, and in the ledger of its patches."""
    parts = _parts(table.get("components")) or ()
    served, packages = table.get("distributions"), table.get("packages")
    listed = [{"name": name, **told} for name, told in served.items()] if isinstance(served, Mapping) else None
    return Side(
        label=label,
        document="image",
        image=_text(table.get("name")),
        version=_text(table.get("version")),
        reference=reference,
        digest=digest,
        content_key=_text(table.get("content-key")),
        fingerprint=_text(table.get("fingerprint")),
        gfx=_texts(table.get("gfx")),
        python=_text(table.get("python")),
        bases=_flat_words(table["bases"]) if isinstance(table.get("bases"), Mapping) else None,
        components=parts,
        patches=_patches((ledger or table).get("patches", [])),
        packages={str(k): str(v) for k, v in packages.items()} if isinstance(packages, Mapping) else None,
        distributions=_distributions(listed, parts),
        contract=_contracted(table, _text(table.get("fingerprint"))),
        layers=tuple(layers) if layers is not None else None,
    )


def short(text: str) -> str:
    """Return a hash as people compare it: its first twelve digits; any other text as it is."""
    bare = text.removeprefix("sha256:")
    if len(bare) in (40, _HASH_DIGITS) and not set(bare) - set("0123456789abcdef"):
        return bare[:12]
    return text


def _part(entry: Mapping[str, Any], built: str | None = None) -> Part:
    kind = next((kind for kind in KINDS if kind in entry), str(entry.get("kind", "unknown")))
    facts = {
        str(key): _canonical(value)
        for key, value in entry.items()
        if key not in ("name", "version", "kind") and value is not None and not (key == kind and kind == "base")
    }
    if built is not None:
        facts[BUILT] = built
    return Part(name=str(entry.get("name")), version=str(entry.get("version")), kind=kind, facts=facts)


def _built(component: Component) -> str | None:
    """Return how a source is built, as text; None for what is not built."""
    if component.source is None:
        return None
    dumped = component.model_dump(by_alias=True, include=set(_BUILT_BY), mode="json")
    return SORTED_JSON({key: value for key, value in dumped.items() if value})


def _parts(listed: object) -> tuple[Part, ...] | None:
    return tuple(_part(each) for each in _tables(listed)) if isinstance(listed, list) else None


def _patch(entry: Mapping[str, Any]) -> PatchPart:
    words = [str(entry.get(key, "unknown")) for key in ("name", "target", "kind", "state", "sha256")]
    name, target, kind, state, sha256 = words
    return PatchPart(
        name=name, target=target, kind=kind, state=state, sha256=sha256, reason=_text(entry.get("reason"))
    )


def _patches(listed: object) -> tuple[PatchPart, ...] | None:
    return tuple(_patch(each) for each in _tables(listed)) if isinstance(listed, list) else None


def _layers(listed: object) -> tuple[LayerEntry, ...] | None:
    if not isinstance(listed, list):
        return None
    return tuple(
        LayerEntry(owner=str(each["owner"]), digest=str(each["digest"]), size=int(each["size"]))
        for each in _tables(listed)
    )


def _versions(packages: Mapping[str, Any], *stages: str) -> dict[str, str]:
    return {str(name): str(version) for stage in stages for name, version in packages.get(stage, {}).items()}


def _distributions(listed: object, parts: Sequence[Part]) -> dict[str, str] | None:
    """Return the distributions that are served and are no component."""
    if not isinstance(listed, list):
        return None
    named = {part.name for part in parts}
    return {
        str(each["name"]): str(each["version"])
        for each in _tables(listed)
        if str(each.get("layer", DEPENDENCIES)) not in named
        and not str(each.get("layer", "")).endswith(BUILD_SUFFIX)
    }  # fmt: skip


def _contracted(table: Mapping[str, Any], fingerprint: str | None) -> dict[str, str] | None:
    told, kept = table.get("contract"), table.get("kv-cache", {})
    return _contract(told, kept, fingerprint) if isinstance(told, Mapping) else None


def _contract(table: Mapping[str, Any], kept: Mapping[str, Any], fingerprint: str | None) -> dict[str, str]:
    """Return a contract as one flat table; where a value holds the fingerprint, its placeholder stands instead."""
    flat = {f"kv-cache.{key}": _canonical(value) for key, value in sorted(kept.items())}
    for key, value in sorted(table.items()):
        if key == "env" and isinstance(value, Mapping):
            for name, text in sorted(value.items()):
                words = str(text)
                flat[f"env.{name}"] = words.replace(fingerprint, "{fingerprint}") if fingerprint else words
        else:
            flat[str(key)] = _canonical(value)
    return flat


def _flat_words(table: Mapping[str, Any]) -> dict[str, str]:
    return {str(stage): base_in_words(base) for stage, base in table.items()}


def _flat(table: object) -> dict[str, str] | None:
    if not isinstance(table, Mapping):
        return None
    return {str(key): SORTED_JSON(value) for key, value in table.items()}


def _canonical(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _tables(listed: Iterable[object]) -> list[Mapping[str, Any]]:
    return [each for each in listed if isinstance(each, Mapping)]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> tuple[str, ...] | None:
    return tuple(str(each) for each in value) if isinstance(value, list) else None
