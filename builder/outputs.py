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
_BYTES = {"type": ["integer", "null"], "minimum": 0}
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


def inspect_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images inspect --json` writes."""
    texts_by_name = _or_null({"type": "object", "additionalProperties": _TEXT})
    component = {
        "type": "object",
        "required": ["name", "version", "kind", "size", "unpacked"],
        "properties": {
            "name": _TEXT, "version": _MAYBE, "kind": _TEXT, "size": _BYTES, "unpacked": _BYTES,
        },
    }  # fmt: skip
    patch = _table({
        "name": (_TEXT, "The patch."), "target": (_TEXT, "What it is for."), "kind": (_TEXT, "How it is applied."),
        "state": (_TEXT, "What came of it."), "sha256": (_MAYBE, "Hash of what it is made of."),
    })  # fmt: skip
    layer = _table({
        "owner": (_MAYBE, "The component or part that it is; null in images of somebody else."),
        "digest": (_MAYBE, "Its digest, as it is pulled."), "size": (_BYTES, "Its bytes, as it is pulled."),
        "history": (_MAYBE, "What the image says made it."),
    })  # fmt: skip
    installed = _table({
        "name": (_TEXT, "The distribution."), "version": (_MAYBE, "Its version."), "place": (_TEXT, "Its folder."),
        "size": (_BYTES, "Bytes of its files."), "origin": (_MAYBE, "Where it says that it was installed from."),
    })  # fmt: skip
    torch = _table({"version": (_MAYBE, "Its version."), "hip": (_MAYBE, "The HIP that it is built for.")})
    return _titled("What is in an image, by rocm-images inspect; null is unknown", _table(
        {
            "image": (_MAYBE, "Name of the image in its repository."),
            "version": (_MAYBE, "Version of its engine."),
            "reference": (_MAYBE, "What it is pulled by."),
            "digest": (_MAYBE, "Digest of its manifest."),
            "read-from": (_TEXT, "The kind of place that it was read from."),
            "made-by-rocm-images": (_YES, "Whether this program made it."),
            "content-key": (_MAYBE, "Hash of everything that can change its bytes."),
            "fingerprint": (_MAYBE, "A cached KV page is valid exactly as long as this stays."),
            "gfx": (_or_null(_TEXTS), "GPU targets of its compiled parts."),
            "gfx-by": (_MAYBE, "Where these are known from."),
            "python": (_MAYBE, "Version of its Python."),
            "rocm": (
                {"type": ["string", "null", "object"]},
                "Its ROCm: a version, or for an image of somebody else the versions by file.",
            ),
            "bases": (_or_null({"type": "object"}), "What its stages start from."),
            "components": (_or_null(_list(component)), "Its components, with sizes in bytes and facts by kind."),
            "patches": (_or_null(_list(patch)), "Its patches."),
            "packages": (texts_by_name, "Packages of the distribution, with versions."),
            "distributions": (texts_by_name, "Python distributions, with versions."),
            "contract": (_or_null({"type": "object"}), "How it is to be run."),
            "layers": (_list(layer), "Its layers, bottom first."),
            "size": (_BYTES, "Bytes of all layers, as they are pulled."),
        },
        optional={
            "system": (_MAYBE, "The distribution of an image of somebody else."),
            "torch": (_or_null(torch), "Its torch."),
            "installed": (_list(installed), "Its Python distributions, with where they lie."),
        },
    ))  # fmt: skip


def inspect_gfx_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images inspect --gfx --json` writes."""
    target = _table({
        "target": (_TEXT, "The target ID."), "bytes": (_COUNT, "Bytes of code for it, uncompressed."),
        "bundles": (_COUNT, "In how many bundles."), "surplus": (_YES, "Whether nobody wants it."),
    })  # fmt: skip
    partly = _table({
        "target": (_TEXT, "A wanted target."), "without": (_COUNT, "How many bundles of the part lack it."),
    })  # fmt: skip
    part = _table({
        "owner": (_TEXT, "Whose it is."), "judged": (_YES, "Whether what it lacks fails."),
        "path": (_TEXT, "The file, or the folder of loose code objects."), "files": (_COUNT, "How many files."),
        "bundles": (_COUNT, "How many bundles of code."), "stored": (_COUNT, "Bytes of them in the files."),
        "targets": (_list(target), "What it has code for."), "missing": (_TEXTS, "Wanted targets that it lacks."),
        "partly": (_list(partly), "Wanted targets that some of its bundles lack."),
        "problems": (_TEXTS, "What could not be read."),
    })  # fmt: skip
    component = _table({
        "name": (_TEXT, "The component, or another owner."), "judged": (_YES, "Whether what it lacks fails."),
        "stored": (_COUNT, "Bytes of code in its files."), "targets": (_list(target), "What it has code for."),
        "missing": (_TEXTS, "Wanted targets that a part of it lacks."), "surplus": (_TEXTS, "Unwanted targets."),
        "parts": (_list(part), "Its programs, libraries and folders."),
    })  # fmt: skip
    return _titled("GPU code by component and target, by rocm-images inspect --gfx", _table({
        "subject": (_TEXT, "What was looked into."),
        "wanted": (_TEXTS, "The wanted targets; none where nobody said."),
        "passed": (_YES, "Whether no judged part lacks one."),
        "components": (_list(component), "Whose code it is."),
        "unread": (_TEXTS, "Files that were not looked into."),
    }))  # fmt: skip


def adopt_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images adopt --json` writes."""
    account = _table({
        "first": (_COUNT, "Its first line, from 1."), "last": (_COUNT, "Its last line."),
        "text": (_TEXT, "The instruction, command or comment, without secrets."),
        "became": (_TEXTS, "Keys of the draft."), "points": (_list(_COUNT), "Numbers of the points it left open."),
        "left-out": (_MAYBE, "Why it is not in the draft; null where it is."),
    })  # fmt: skip
    point = _table({
        "number": (_COUNT, "Its number in the draft."), "key": (_TEXT, "Where it stands there."),
        "line": (_COUNT, "The line it comes from."), "text": (_TEXT, "The question."),
    })  # fmt: skip
    return _titled("A Dockerfile as a draft of a recipe, by rocm-images adopt", _table({
        "file": (_MAYBE, "The recipe that was written; null where none was."),
        "recipe": (_TEXT, "The draft."),
        "accounts": (_list(account), "What became of each part of the Dockerfile."),
        "points": (_list(point), "What is to be decided."),
    }))  # fmt: skip


def init_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images init --json` writes."""
    return _titled("A new repository of recipes, by rocm-images init", _table({
        "folder": (_TEXT, "Where it is."), "files": (_TEXTS, "The files that were written."),
    }))  # fmt: skip


def new_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images new --json` writes."""
    return _titled("A new image of a repository, by rocm-images new", _table({
        "image": (_TEXT, "Its name."), "recipe": (_TEXT, "Its recipe."),
    }))  # fmt: skip


def engine_free_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images engine free --json` writes."""
    room = _table({
        "folder": (_TEXT, "A folder of the engine's file system."), "free": (_COUNT, "Bytes that are free there."),
        "total": (_COUNT, "Bytes that it has."),
    })  # fmt: skip
    return _titled("Room that was given back, by rocm-images engine free", _table({
        "images": (_TEXTS, "Images that were removed."), "kept": (_TEXTS, "Images that a container uses."),
        "cache": (_COUNT, "Bytes of build cache that were removed."),
        "room": (_or_null(room), "What is free now; null for an engine on another machine."),
    }))  # fmt: skip


def ci_pins_output() -> dict[str, Any]:
    """Return the schema of what `rocm-images ci pins --json` writes."""
    return _titled("What images with a record are pinned by, by rocm-images ci pins", {
        "type": "object",
        "additionalProperties": {"type": "string", "pattern": "@sha256:[0-9a-f]{64}$"},
    })  # fmt: skip


OUTPUTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "list": list_output, "plan": plan_output, "check": check_output, "pins": pins_output,
    "patches": patches_output, "bump-check": bump_output, "pin-apply": pin_apply_output, "test": smoke_output,
    "doctor": doctor_output, "engine": engine_output, "registry": registry_output, "isolate": isolate_output,
    "inspect": inspect_output, "inspect-gfx": inspect_gfx_output, "adopt": adopt_output, "init": init_output,
    "new": new_output, "engine-free": engine_free_output, "ci-pins": ci_pins_output,
}  # fmt: skip
