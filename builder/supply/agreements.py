"""Holds the documents about an image against each other, and against the image. Pure: says where they disagree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packageurl import PackageURL

from builder.render import LABEL
from builder.supply.provenance import PREDICATE
from builder.view import View

_LABELS = {
    f"{LABEL}.content-key": "content-key",
    f"{LABEL}.fingerprint": "fingerprint",
    "org.opencontainers.image.title": "image",
    "org.opencontainers.image.version": "version",
}


def record_and_record(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys by which two records differ."""
    return tuple(sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key)))


def record_and_image(
    record: Mapping[str, Any], *, digest: str, layers: Sequence[tuple[str, int]], labels: Mapping[str, str]
) -> tuple[str, ...]:
    """Return, in words, where a record says something else than the image's own manifest and labels."""
    found = []
    if record.get("digest") != digest:
        found.append(f"digest: the record is of {record.get('digest')}, this image is {digest}")
    told = [(layer.text("digest"), layer.get("size")) for layer in View(record).tables("layers")]
    if told != list(layers):
        missing = [blob for blob, _ in layers if blob not in {each for each, _ in told}]
        found.append(
            f"layers: the record does not have {missing[0] if missing else 'them in this order and size'}"
        )
    for label, key in _LABELS.items():
        if labels.get(label) != record.get(key):
            found.append(f"{key}: the record says {record.get(key)}, the image {labels.get(label)}")
    return tuple(found)


def statement_and_record(
    statement: Mapping[str, Any], record: Mapping[str, Any], *, digest: str, documents: Mapping[str, str]
) -> tuple[str, ...]:
    """Return, in words, where a provenance statement disagrees with the image, its record and its documents.

    `documents` are those that it has to name as what came out beside the image, sha256 by what to call them.
    """
    whole = View(statement)
    found = []
    subjects = [f"sha256:{each.table('digest').text('sha256')}" for each in whole.tables("subject")]
    if subjects != [digest]:
        found.append(f"it is about {', '.join(subjects) or 'nothing'}")
    if whole.text("predicateType") != PREDICATE:
        found.append(f"its predicate is {whole.text('predicateType')}")
    predicate = whole.table("predicate")
    beside = byproducts(statement)
    found += [
        f"it does not name {name}, sha256:{sha256}" for name, sha256 in documents.items() if sha256 not in beside
    ]
    resources = predicate.table("buildDefinition").tables("resolvedDependencies")
    held = {value for each in resources for value in each.table("digest").pairs().values()}
    found += [f"it lacks {what}, {value}" for what, value in _pinned(record) if value not in held]
    versions = {(each.text("name"), _version(each.text("uri"))) for each in resources}
    for packages in View(record).table("packages").whole.values():
        found += [
            f"it lacks {name} {version}" for name, version in View(packages).pairs().items()
            if (name, version) not in versions
        ]  # fmt: skip
    return tuple(found)


def byproducts(statement: Mapping[str, Any]) -> frozenset[str]:
    """Return the sha256 of what a statement says came out beside the image."""
    details = View(statement).table("predicate").table("runDetails")
    return frozenset(each.table("digest").text("sha256") or "" for each in details.tables("byproducts"))


def statement_and_lock(statement: Mapping[str, Any], expected: Mapping[str, Any]) -> tuple[str, ...]:
    """Return, in words, what a statement names otherwise than the one that follows from recipe and lock today.

    The recipe's file itself may have changed since: in a comment, or in what changes no byte of the image.
    """
    told, wanted = (_resources(table) for table in (statement, expected))
    return tuple(
        f"the lock has {name}, the statement {'another' if name in {each for each, _ in told} else 'none'}"
        for name, _ in sorted(wanted - told)
    ) + tuple(f"the statement has {name}, the lock another or none" for name, _ in sorted(told - wanted))


def same_predicate(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two statements say the same of an image; what signs one may leave out or add what is empty."""
    return _full(one.get("predicate")) == _full(other.get("predicate"))


def _resources(statement: Mapping[str, Any]) -> set[tuple[str, str]]:
    listed = View(statement).table("predicate").table("buildDefinition").tables("resolvedDependencies")
    return {
        (each.text("name") or "", json.dumps(dict(each.whole), sort_keys=True))
        for each in listed
        if not (each.text("name") or "").endswith("/recipe.toml")
    }


def _pinned(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a record pins by hash or commit, each with what to call it."""
    whole = View(record)
    if lock := whole.text("lock"):
        yield "the lock", lock.removeprefix("sha256:")
    for stage in ("build", "runtime"):
        if digest := whole.table("bases").table(stage).text("digest"):
            yield f"the base image of the {stage} stage", digest.removeprefix("sha256:")
    for each in (*whole.tables("components"), *whole.tables("distributions")):
        yield from _hashes(each.text("name") or "", each)
    for name in whole.table("sources").keys():  # noqa: SIM118 -- a view is no mapping
        source = whole.table("sources").table(name)
        yield from _hashes(f"the source {name}", source)
        for module in source.tables("submodules"):
            yield from _hashes(f"the submodule {module.text('path')} of {name}", module)
    for patch in whole.tables("patches"):
        name = f"the patch {patch.text('name')}"
        if not patch.tables("files"):
            yield from _hashes(name, patch)
        for file in patch.tables("files"):
            yield from _hashes(name, file)


def _hashes(name: str, table: View) -> Iterator[tuple[str, str]]:
    for key in ("sha256", "commit"):
        if value := table.text(key):
            yield name, value


def _version(uri: str | None) -> str | None:
    try:
        return PackageURL.from_string(uri or "").version
    except ValueError:
        return None


def _full(value: object) -> object:
    """Return a value without what is empty in it."""
    if isinstance(value, dict):
        kept = {key: _full(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ({}, [], "", None)}
    if isinstance(value, list):
        return [_full(each) for each in value]
    return value
