"""JSON Schemas of what commands write with `--json`, for whoever reads them by program.

The commands write these tables themselves; tests hold what they write to what is said here. Knows draft 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_DRAFT = "http://json-schema.org/draft-07/schema#"
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_YES = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_KEY = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COMMIT = {"type": "string", "pattern": "^[0-9a-f]{40}$"}
_MAYBE = {"type": ["string", "null"]}
_OUTCOME = {"enum": ["passed", "failed", "skipped", "not run"]}

Described = tuple[Mapping[str, Any], str]


def _table(keys: Mapping[str, Described], *, optional: Mapping[str, Described] | None = None) -> dict[str, Any]:
    every = {**keys, **(optional or {})}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(keys),
        "properties": {key: {**schema, "description": words} for key, (schema, words) in every.items()},
    }


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _titled(title: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"$schema": _DRAFT, "title": title, **schema}


_FINDING: dict[str, Described] = {
    "image": (_TEXT, "The image it is about."),
    "severity": ({"enum": ["error", "warning", "note"]}, "How bad it is; errors alone decide the exit code."),
    "exit-code": (_COUNT, "The exit code of its class."),
    "check": (_TEXT, "Which check found it."),
    "file": (_TEXT, "The file it is in."),
    "key": (_TEXT, "The key in that file; empty for the whole of it."),
    "message": (_TEXT, "What is the matter."),
    "hint": (_MAYBE, "What to do."),
    "details": (_TEXTS, "Evidence."),
}


def list_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images list --json` writes."""
    return _titled("The images of a repository, by rocm-images list", _list(_table({
        "name": (_TEXT, "Name of the image, which is that of its folder."),
        "version": (_MAYBE, "Version of its engine; null where its pin is still open."),
        "gfx": (_TEXTS, "GPU targets of its compiled parts."),
        "description": (_TEXT, "What it is, in a sentence; may be empty."),
    })))  # fmt: skip


def plan_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images plan --json` writes."""
    return _titled("What has to be done for images, in order, by rocm-images plan", _list(_table({
        "image": (_TEXT, "Name of the image."),
        "content_key": (_KEY, "Hash of everything that can change its bytes."),
        "fingerprint": (_TEXT, "A cached KV page is valid exactly as long as this stays."),
        "action": ({"enum": ["build", "retest", "skip"]}, "What has to be done."),
        "reasons": (_TEXTS, "Why: every input that changed, in words."),
        "needs": (_TEXTS, "Images that it is built on and that come before it."),
        "level": (_COUNT, "How many images lie below it."),
    })))  # fmt: skip


def check_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images check --json` writes."""
    return _titled("What rocm-images check found of recipes and locks", _list(_table(_FINDING)))


def pins_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images pins --json` writes."""
    return _titled("What recipes pin, by rocm-images pins", _list(_table(
        {
            "image": (_TEXT, "Name of the image."),
            "file": (_TEXT, "Its recipe."),
            "key": (_TEXT, "The key in the recipe that holds it."),
            "kind": (_TEXT, "What it is: image, git, wheel, sdist, version …"),
            "name": (_TEXT, "The distribution, the image or the source that is pinned."),
            "origin": (_TEXT, "In which kind of place newer ones are looked for."),
            "source": (_TEXT, "Where there: a repository, a project of an index …"),
        },
        optional={
            "value": (_TEXT, "The version, tag or branch."),
            "digest": (_TEXT, "The digest or commit that goes with it."),
            "index": (_TEXT, "The index that the project is on, where it is not the client's own."),
        },
    )))  # fmt: skip


def patches_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images patches --json` writes."""
    patch = {
        "type": "object",
        "required": ["name", "kind", "target", "state", "fails", "reason", "upstream", "drop-when", "notes"],
        "properties": {
            "name": _TEXT, "kind": _TEXT, "target": _TEXT, "state": _TEXT, "fails": _YES, "reason": _TEXT,
            "upstream": _TEXT, "drop-when": _TEXT, "notes": _TEXTS, "acknowledged": _MAYBE,
        },
    }  # fmt: skip
    tried = _table({
        "version": (_TEXT, "The release."),
        "failing": (_TEXTS, "Patches that fail on it."),
        "reason": (_MAYBE, "Why it could not be tried."),
    })  # fmt: skip
    tree = _table(
        {
            "name": (_TEXT, "The source or the component that is patched."),
            "at": (_TEXT, "Where the patches were judged."),
            "pinned": (_TEXT, "What the recipe pins."),
            "fails": (_YES, "Whether a patch fails there."),
            "patches": (_list(patch), "Every patch with its state; by kind there is more evidence in it."),
        },
        optional={
            "newest-that-takes-all": (_MAYBE, "The newest release that takes all patches."),
            "tried": (_list(tried), "The releases that were tried for it."),
        },
    )
    return _titled("Which patches of an image apply, by rocm-images patches", _table({
        "image": (_TEXT, "Name of the image."),
        "fails": (_YES, "Whether the exit code is 4."),
        "redundant": (_TEXTS, "Patches whose change is there already, and that nobody acknowledged."),
        "trees": (_list(tree), "The trees that are patched."),
    }))  # fmt: skip


def bump_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images bump-check --json` writes."""
    moved: dict[str, Described] = {"old": (_MAYBE, "As it was."), "new": (_MAYBE, "As it is.")}
    source = _table({
        "name": (_TEXT, "The source."),
        "old": (_MAYBE, "The commit or version that was pinned."),
        "new": (_MAYBE, "The one that is."),
        "link": (_MAYBE, "Where the difference can be read."),
        "patches-only": (_YES, "Whether only patches are taken from it."),
        "changed": (_or_null(_TEXTS), "Files that differ; null where the trees were not compared."),
        "reaching": (_TEXTS, "Those of them that reach the image."),
        "not-compared": (_MAYBE, "Why the trees were not compared."),
    })  # fmt: skip
    patch = _table({
        "name": (_TEXT, "The patch."), "target": (_TEXT, "What it is for."),
        "state": (_MAYBE, "Its state at the new pins."), "before": (_MAYBE, "Its state before."),
        "fails": (_YES, "Whether that is an error."), "redundant": (_TEXTS, "Parts that are there already."),
        "found": (_TEXTS, "What was found, in lines."),
    })  # fmt: skip
    needs = _table({
        "new": (_TEXTS, "What the engine newly compiles with while it serves."),
        "missing": (_TEXTS, "What of that the runtime stage lacks."),
        "there": (_TEXTS, "What of that it has."),
    })  # fmt: skip
    image = _table({
        "image": (_TEXT, "Name of the image."),
        "verdict": (_TEXT, "What has to be done for it."),
        "reasons": (_TEXTS, "Why."),
        "content-key": (_table(moved), "Its content key."),
        "fingerprint": (_table({**moved, "moved": ({"type": ["boolean", "null"]}, "Whether it differs.")}),
                        "Its fingerprint: where it moves, caches start empty."),
        "lock": (_or_null(_table({
            "updated": (_or_null(_TEXTS), "What was resolved anew; null for everything."),
            "written": (_YES, "Whether the new lock was written."),
        })), "The lock that was made to fit, where one was."),
        "sources": (_list(source), "Pinned trees that moved."),
        "patches": (_or_null(_list(patch)), "Its patches; null where nothing they depend on changed."),
        "needs": (_or_null(needs), "What its engine needs at run time; null where that was not looked at."),
        "difference": (_or_null({"type": "object"}), "What differs, as `rocm-images diff --json` writes it."),
        "findings": (
            _list(_table({**_FINDING, "new": (_YES, "Whether the older revision does not have it.")})),
            "What the checks found at the new revision.",
        ),
    })  # fmt: skip
    return _titled("What a change of pins does to images, by rocm-images bump-check", _table({
        "schema": ({"const": 1}, "Version of this format."),
        "base": (_COMMIT, "The older revision."), "head": (_TEXT, "The newer one."),
        "exit-code": (_COUNT, "The exit code of the run."),
        "images": (_list(image), "The images that the change touches."),
        "untouched": (_TEXTS, "Those that it does not."),
        "gone": (_TEXTS, "Those that it removes."),
    }))  # fmt: skip


def pin_apply_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images pin apply --json` writes."""
    place = _table({
        "line": (_COUNT, "Line of the file, from 1."), "key": (_TEXT, "Key of the value."),
        "was": (_TEXT, "In which way the image was named there."), "changes": (_YES, "Whether it changes."),
    })  # fmt: skip
    return _titled("What rocm-images pin apply changes in deployments", _table({
        "written": (_YES, "Whether anything was written."),
        "images": (_TEXTS, "The references that were put in."),
        "files": (_list(_table({
            "file": (_TEXT, "The file."), "changes": (_YES, "Whether it changes."),
            "places": (_list(place), "Where it names an image."),
            "diff": (_TEXT, "The change as a unified diff; empty where there is none."),
        })), "The files that were looked at."),
    }))  # fmt: skip


def smoke_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images test --json`, and dist/NAME/smoke.json, hold."""
    finding = _table({
        "cause": (_TEXT, "Why, in a line."), "hint": (_MAYBE, "What to do."),
        "package": (_MAYBE, "The package to blame."), "stage": (_MAYBE, "The stage of the recipe it belongs to."),
        "details": (_TEXTS, "Evidence."),
    })  # fmt: skip
    test = _table({
        "name": (_TEXT, "Its name."), "title": (_TEXT, "Its name as a sentence."),
        "tier": ({"enum": ["cpu", "gpu"]}, "Its tier."), "production": (_TEXT, "What would have broken."),
        "hint": (_MAYBE, "Where to look."), "outcome": (_OUTCOME, "What came of it."),
        "seconds": ({"type": "number", "minimum": 0}, "How long it took."),
        "finding": (_or_null(finding), "Why it did not pass; null where it did."),
        "figures": ({"type": "object"}, "What its probes measured, by probe."),
    })  # fmt: skip
    return _titled("What the smoke tests found of an image, by rocm-images test", _table({
        "image": (_TEXT, "Its name."), "reference": (_TEXT, "What was tested."),
        "passed": (_YES, "Whether the cpu tier ran and no test failed."),
        "seconds": ({"type": "number", "minimum": 0}, "How long all of them took."),
        "tiers": ({"type": "object", "additionalProperties": _OUTCOME}, "What became of each tier."),
        "tests": (_list(test), "The tests, in the order they ran."),
    }))  # fmt: skip


def doctor_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images doctor --json` writes."""
    return _titled("What a machine has of the needed, by rocm-images doctor", _table({
        "complete": (_YES, "Whether nothing is missing."),
        "checks": (_list(_table({
            "name": (_TEXT, "What was looked for."), "found": (_YES, "Whether it is there."),
            "state": (_TEXT, "What was found."), "needed_for": (_TEXT, "What needs it."),
            "remedy": (_MAYBE, "A command or a sentence that gets it; null where it is there."),
        })), "All that was looked for."),
    }))  # fmt: skip


def engine_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images engine status --json` writes."""
    return _titled("Which container engine answers, by rocm-images engine status", _table(
        {
            "answers": (_YES, "Whether one does."), "host": (_TEXT, "At which address."),
            "started_here": (_YES, "Whether this program started it."),
        },
        optional={
            "version": (_TEXT, "Its version."), "image_store": ({"enum": ["containerd", "older"]}, "Its store."),
            "platform": (_TEXT, "Its platform."), "data_root": (_TEXT, "Where its data is."),
            "buildx": (_MAYBE, "Version of buildx."), "driver": (_MAYBE, "Driver of the builder."),
            "why_not": (_MAYBE, "Why none answers."), "pid": (_COUNT, "Process that was started."),
            "log": (_TEXT, "Its log."),
        },
    ))  # fmt: skip


def registry_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images registry status --json` and `up --json` write."""
    return _titled("The embedded registry, by rocm-images registry status", _table({
        "address": (_MAYBE, "HOST:PORT."), "answers": (_YES, "Whether it runs."),
        "pid": ({"type": ["integer", "null"]}, "Its process."), "data": (_TEXT, "Where its data is."),
        "log": (_TEXT, "Its log."),
    }))  # fmt: skip


def isolate_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images isolate --json` writes."""
    return _titled("Builds that change one component at a time, by rocm-images isolate", _table({
        "image": (_TEXT, "Name of the image."),
        "builds": (_list(_table({
            "folder": (_TEXT, "The folder with recipe and lock."), "changes": (_TEXT, "What is other in it."),
            "because": (_TEXTS, "Why several things change together."), "content-key": (_KEY, "Its content key."),
            "command": (_TEXT, "The command that builds it."),
            "same-as-before": (_YES, "Whether its bytes are those of the one before."),
        })), "The builds, from the older to the newer."),
        "requirements-unknown": (_TEXTS, "Distributions of which no requirements are known."),
    }))  # fmt: skip


OUTPUTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "list": list_output, "plan": plan_output, "check": check_output, "pins": pins_output,
    "patches": patches_output, "bump-check": bump_output, "pin-apply": pin_apply_output, "test": smoke_output,
    "doctor": doctor_output, "engine": engine_output, "registry": registry_output, "isolate": isolate_output,
}  # fmt: skip
