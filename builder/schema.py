"""JSON Schemas of the files this project reads and writes, for editors and for whoever reads them by program.

Made from the models, so that they never say something else; checked in below docs/. Knows JSON Schema draft 7,
which editors read most widely, and nothing of any particular file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from builder import record
from builder.lockfile import Lock
from builder.outputs import OUTPUTS
from builder.patchtables import KINDS
from builder.recipe import Image, Recipe
from builder.variants import KEY, NAMING, SAYS

_DRAFT = "http://json-schema.org/draft-07/schema#"
_DIGEST = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_BASE = {
    "type": "object",
    "properties": {
        "image": _TEXT, "digest": _DIGEST, "debian": _TEXT, "areas": _TEXTS, "packages": _DIGEST, "recipe": _TEXT,
        "content-key": _TEXT, "fingerprint": _TEXT, "apt": _TEXTS, "added": {"type": ["string", "null"]},
    },
}  # fmt: skip


def recipe_schema() -> dict[str, Any]:
    """Return the schema of `recipe.toml`: every key with its description, nothing else allowed."""
    made = _of(Recipe, "Recipe of an image of rocm-images")
    # A variant says no pin, and the version of what is in a base may be open; the program tells the rest.
    always = [key for key in made["required"] if key in NAMING]
    others = [key for key in made["required"] if key not in NAMING]
    made |= {
        "required": always,
        "if": {"required": [KEY]},
        "then": {"propertyNames": {"enum": sorted(SAYS)}},
        "else": {"required": others},
    }
    component = made["definitions"]["Component"]
    component["required"] = [key for key in component["required"] if key != "version"]
    return made


def lock_schema() -> dict[str, Any]:
    """Return the schema of `recipe.lock`."""
    return _of(Lock, "Lock of a recipe of rocm-images")


def pin_schema() -> dict[str, Any]:
    """Return the schema of `pins/IMAGE.json`, the record of a published, tested image.

    What an entry has says what it is, so that those of components, bases and sources are open.
    """
    return {
        "$schema": _DRAFT,
        "title": "Record of a published, tested image of rocm-images",
        **_table(
            {
                "schema": ({"const": record.SCHEMA}, "Version of this format."),
                "image": (_TEXT, "Name of the image."),
                "version": (_TEXT, "Version of its engine."),
                "engine": (_or_null(_TEXT), "The component that is its engine."),
                "reference": (
                    {"type": "string", "pattern": "^[^@]+:[^@/]+@sha256:[0-9a-f]{64}$"},
                    "What deployments pin: host/path:tag@sha256:…",
                ),
                "digest": (_DIGEST, "Digest of the manifest that was tested and published."),
                "tags": (
                    {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True},
                    "The tags it was published under, that of the reference among them.",
                ),
                "moved-from": (_or_null(_DIGEST), "What its version tag named before it was moved here."),
                "content-key": (_hex(64), "Hash of everything that can change the image's bytes."),
                "test-key": (_hex(64), "Hash of everything it was tested with."),
                "lock": (_DIGEST, "Hash of the lock it was built from."),
                "fingerprint": (_hex(16), "A cached KV page is valid exactly as long as this stays."),
                "fingerprint-inputs": (
                    {"type": "object", "additionalProperties": {"type": "object"}},
                    "What the fingerprint is made of: it is the start of the sha256 of this as canonical JSON.",
                ),
                "gfx": (_TEXTS, "GPU targets every compiled part contains."),
                "python": (_TEXT, "Version of its Python."),
                "rocm": (_or_null(_TEXT), "Version of its ROCm, where the recipe says it."),
                "kv-cache": (
                    {"type": "object", "additionalProperties": {"type": ["string", "integer", "boolean"]}},
                    "Settings of the engine that stored KV pages depend on.",
                ),
                "bases": (
                    _table({"build": (_BASE, "Of the build stage."), "runtime": (_BASE, "Of what ships.")}),
                    "What its stages start from.",
                ),
                "components": (
                    {"type": "array", "items": {
                        "type": "object", "required": ["name", "version"],
                        "properties": {"name": _TEXT, "version": _TEXT},
                    }},
                    "What it is made of: name, version, and the file or tree by hash.",
                ),
                "distributions": (
                    {"type": "array", "items": _table({
                        "name": (_TEXT, "Normal name."),
                        "version": (_TEXT, "Version, with its local part."),
                        "layer": (_TEXT, "The layer it is in; 'NAME.build' is in no image."),
                        "file": (_TEXT, "Name of the wheel."),
                        "sha256": (_hex(64), "Hash of the wheel."),
                        "index": (_TEXT, "Its index as the recipe calls it; 'default' is the client's own."),
                    })},
                    "The Python distributions that were resolved.",
                ),
                "packages": (
                    {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": _TEXT}},
                    "The Debian packages by stage, each with its version.",
                ),
                "sources": (
                    {"type": "object", "additionalProperties": {
                        "type": "object",
                        "properties": {
                            "git": _TEXT, "commit": _hex(40), "tag": _TEXT, "branch": _TEXT,
                            "sha256": _hex(64), "tree": _TEXT, "patched": _hex(40), "built": _hex(40),
                        },
                    }},
                    "The pinned trees: address, commit or file, the tree as it is there, patched, and as built.",
                ),
                "contract": (
                    {"type": "object", "required": sorted(_keys_of(Image)), "additionalProperties": False,
                     "properties": {key: {} for key in sorted(_keys_of(Image))}},
                    "What the image promises to whoever runs it, as [image] of its recipe, with all filled in.",
                ),
                "patches": (
                    {"type": "array", "items": {
                        "type": "object",
                        "required": [
                            "name", "target", "kind", "state", "sha256", "files", "probe", "reason", "upstream",
                            "drop-when",
                        ],
                        "properties": {
                            "name": _TEXT, "target": _TEXT, "kind": {"enum": list(KINDS)},
                            "state": _TEXT, "sha256": _hex(64),
                            "reason": _TEXT, "upstream": _TEXT, "drop-when": _TEXT, "acknowledge-redundant": _TEXT,
                        },
                    }},
                    "What is changed in its components: each with its state, and the values of its probe.",
                ),
                "layers": (
                    {"type": "array", "items": _table({
                        "owner": (_TEXT, "The component it belongs to, or 'base', 'packages', 'user' …"),
                        "digest": (_DIGEST, "Digest of the compressed layer."),
                        "size": ({"type": "integer", "minimum": 0}, "Compressed size in bytes."),
                    })},
                    "Its layers, bottom first.",
                ),
                "size": ({"type": "integer", "minimum": 0}, "Compressed size of all layers in bytes."),
                "smoke": (
                    _table({
                        "tiers": (
                            {
                                "type": "object", "required": ["cpu"], "additionalProperties": _TEXT,
                                "properties": {"cpu": {"const": "passed"}},
                            },
                            "What became of each tier; without a card, gpu is 'not run'.",
                        ),
                        "tests": (
                            {"type": "object", "additionalProperties": _TEXT}, "What became of each test, by name."
                        ),
                    }),
                    "What the smoke tests said of exactly this digest.",
                ),
                "sbom": (
                    _or_null({"type": "object", "additionalProperties": _DIGEST}),
                    "Hashes of the lists of what is in it, which are attached to it, by their format.",
                ),
                "signed": (
                    _or_null({"enum": ["key", "keyless"]}),
                    "How it was signed: verification misses a signature that is not there.",
                ),
            }
        ),
    }  # fmt: skip


def verify_schema() -> dict[str, Any]:
    """Return the schema of what `rocm-images verify --json` writes."""
    return {
        "$schema": _DRAFT,
        "title": "What rocm-images verify found of a published image",
        **_table({
            "reference": (_TEXT, "What was to be checked."),
            "digest": (_or_null(_DIGEST), "The digest that was looked at; null where nothing names one."),
            "verified": ({"type": "boolean"}, "Whether nothing failed, and all that was asked for was decided."),
            "undecided": (_TEXTS, "Checks that were asked for and could not be decided."),
            "checks": (
                {"type": "array", "items": _table({
                    "name": (_TEXT, "What was looked at: tag, image, record, contents, sbom, provenance …"),
                    "state": ({"enum": ["passed", "failed", "not checked"]}, "What it came to."),
                    "words": ({**_TEXTS, "minItems": 1}, "Why, in a line; evidence in further ones."),
                })},
                "The checks in the order they were made; one may be there several times.",
            ),
        }),
    }  # fmt: skip


def diff_schema() -> dict[str, Any]:
    """Return the schema of what `rocm-images diff --json` writes; a group that a side does not know is null."""
    text, change = _or_null(_TEXT), _table({
        "name": (_TEXT, "What differs."),
        "old": (_or_null(_TEXT), "As it was; null where there was none."),
        "new": (_or_null(_TEXT), "As it is; null where there is none."),
    })  # fmt: skip
    changes = {"type": "array", "items": change}
    size = _or_null({"type": "integer", "minimum": 0})
    compared: dict[str, tuple[Mapping[str, Any], str]] = {
        "name": (_TEXT, "Its name."),
        "status": ({"enum": ["same", "changed", "added", "removed"]}, "What became of it."),
        "old": (text, "Its version, or its state; null where it was not there."),
        "new": (text, "The same now."),
    }
    told: tuple[Mapping[str, Any], str] = (changes, "Every fact of it that differs.")
    patched: dict[str, tuple[Mapping[str, Any], str]] = {
        "target": (_TEXT, "The component it is for."),
        "reason": (text, "Why it is there."),
    }
    side = _table({
        "label": (_TEXT, "How it was named."),
        "document": ({"enum": ["lock", "record", "image"]}, "What says what it is made of."),
        **{
            key: (text, words)
            for key, words in (
                ("image", "Name of the image."), ("version", "Version of its engine."),
                ("reference", "Its reference."), ("digest", "Its digest."), ("content-key", "Its content key."),
                ("fingerprint", "Its fingerprint."),
            )
        },
    })  # fmt: skip
    moved = _table({
        "old": (text, "As it was."), "new": (text, "As it is."),
        "moved": (_or_null({"type": "boolean"}), "Whether it differs; null where a side does not know it."),
    })  # fmt: skip
    return {
        "$schema": _DRAFT,
        "title": "What differs between two images of rocm-images",
        **_table({
            "old": (side, "The image that is compared."),
            "new": (side, "The one it is compared with."),
            "components": (
                _or_null({"type": "array", "items": _table({**compared, "changes": told})}), "The components."
            ),
            "patches": (
                _or_null({"type": "array", "items": _table({**compared, **patched, "changes": told})}),
                "The patches.",
            ),
            **{
                key: (_or_null(changes), words)
                for key, words in (
                    ("bases", "What the stages start from."), ("packages", "Packages that are served."),
                    ("build-packages", "Packages of the build stage alone."),
                    ("distributions", "Python distributions that are no component."),
                    ("contract", "What the image promises to whoever runs it."),
                    ("fingerprint-inputs", "What the fingerprint is made of."),
                )
            },
            **{
                key: (moved, f"The {words}.")
                for key, words in (
                    ("gfx", "GPU targets"), ("python", "version of Python"), ("fingerprint", "engine fingerprint"),
                    ("content-key", "content key"), ("digest", "digest"),
                )
            },
            "pull": (
                _table({
                    "layers": (
                        _or_null({"type": "array", "items": _table({
                            "owner": (_TEXT, "Whose it is."), "digest": (_DIGEST, "Its digest."),
                            "size": ({"type": "integer", "minimum": 0}, "Its compressed size in bytes."),
                        })}),
                        "The layers that a node with the old image does not have.",
                    ),
                    "size": (size, "Their bytes."),
                    "size-of-all-above": (size, "The bytes of all layers from the first that differs on."),
                    "size-of-image": (size, "The bytes of the whole new image."),
                }),
                "What a node that has the old image pulls for the new one.",
            ),
        }),
    }  # fmt: skip


SCHEMAS = {
    "recipe": recipe_schema, "lock": lock_schema, "pin": pin_schema, "verify": verify_schema, "diff": diff_schema,
    **OUTPUTS,
}  # fmt: skip


def dump(schema: Mapping[str, Any]) -> str:
    """Return a schema as the text that is checked in."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _table(keys: Mapping[str, tuple[Mapping[str, Any], str]]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(keys),
        "properties": {key: {**schema, "description": words} for key, (schema, words) in keys.items()},
    }


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _keys_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _hex(digits: int) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^[0-9a-f]{{{digits}}}$"}


def _of(model: type[BaseModel], title: str) -> dict[str, Any]:
    made = model.model_json_schema(by_alias=True, ref_template="#/definitions/{model}")
    definitions = made.pop("$defs")
    whole = {**made, "definitions": dict(sorted(definitions.items()))}
    return {"$schema": _DRAFT, "title": title} | {
        key: _plain(value) for key, value in whole.items() if key != "title"
    }


def _plain(node: object) -> object:
    """Turn what pydantic makes into what a person would write for a TOML file, which has no null."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: value for key, value in node.items() if key != "title" or not isinstance(value, str)}
    arms = [arm for arm in node.pop("anyOf", []) if arm != {"type": "null"}]
    node |= arms[0] if len(arms) == 1 else ({"anyOf": arms} if arms else {})
    if node.get("default") is None or "$ref" in node:
        node.pop("default", None)
    if "$ref" in node and len(node) > 1:  # in draft 7 nothing counts beside a reference
        node["allOf"] = [{"$ref": node.pop("$ref")}]
    if "patternProperties" in node:
        node["additionalProperties"] = False
    return {key: _plain(value) for key, value in node.items()}
