"""Tells of every hook whether it is installed, fired or effective: callers read what was declared.

Imports the hooked modules in this very interpreter, or, with `--log`, reads the events that others left. It
applies no hook itself: where nothing activated them, that is what it tells.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from . import finder, registry
from .events import reason, say, shown
from .override import same, underlying
from .registry import Hook

_USAGE = "usage: python -m rocm_images_hooks [--log FILE]"
# What the checker calls the states of this process: a hook that was applied in vain has fired, and no more.
_STATES = {"skipped": "fired", "refused": "fired"}
_ORDER = ("installed", "fired", "effective")


def main(argv: Sequence[str]) -> int:
    """Print a JSON document. Returns 0 when every hook that is not optional is effective, 1 if not, 2 for usage.

    Where modules are imported it does not return: what they leave behind could keep the interpreter from ending.
    """
    if not argv:
        _check()
    if len(argv) != 2 or argv[0] != "--log":
        say(_USAGE)
        return 2
    try:
        document = from_log(argv[1])
    except (OSError, ValueError, KeyError, TypeError) as error:
        say(f"{argv[1]}: not a log of hooks: {reason(error)}")
        return 2
    _write(1, document)
    return _status(document)


def _check() -> NoReturn:
    """Import, look, tell and end. What modules print goes to standard error."""
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    document = served()
    _write(out, document)
    sys.stderr.flush()
    os._exit(_status(document))


def served() -> dict[str, Any]:
    """Import the module of every hook and return what became of it."""
    found = finder.active()
    if found is not None:
        found.collecting = True
    hooks = found.hooks if found is not None else registry.read()
    errors: dict[str, str] = {}
    for module in dict.fromkeys(hook.module for hook in hooks):
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            errors[module] = reason(error)
    entries = [_entry(hook, errors.get(hook.module), active=found is not None) for hook in hooks]
    return {"active": found is not None, "hooks": entries}


def from_log(path: str) -> dict[str, Any]:
    """Return what became of every hook in the processes that wrote a log."""
    entries = {hook.name: _plain(hook) for hook in registry.read()}
    active = False
    with open(path, encoding="utf-8") as log:  # noqa: PTH123
        for line in log:
            told = json.loads(line)
            event, entry = told["event"], entries[told["hook"]]
            active = True
            entry["seen"] = [*entry.get("seen", ()), _STATES.get(event, event)]
            if event in _STATES:
                entry["detail"] = told["detail"]
    for entry in entries.values():
        seen = entry.pop("seen", ())
        if entry["detail"] is not None:
            entry["state"] = "fired"
        elif seen:
            entry["state"] = max(seen, key=_ORDER.index)
            if entry["state"] == "installed":
                entry["detail"] = "its module was never imported"
        else:
            entry["detail"] = "no interpreter that wrote this log activated the hooks"
    return {"active": active, "hooks": list(entries.values())}


def _entry(hook: Hook, error: str | None, *, active: bool) -> dict[str, Any]:
    entry = _plain(hook)
    entry["state"], entry["detail"] = _STATES.get(hook.state, hook.state), hook.detail
    module = sys.modules.get(hook.module)
    if module is None or error is not None:
        entry["detail"] = hook.detail or f"its module cannot be imported: {error}"
        return entry
    try:
        value: Any = module
        for part in hook.attribute.split("."):
            value = getattr(value, part)
    except AttributeError as missing:
        entry["detail"] = hook.detail or f"callers find no such attribute: {missing}"
        entry["state"] = min(entry["state"], "fired", key=_ORDER.index)
        return entry
    entry["value"] = _readable(value)
    if entry["state"] == "installed":
        entry["detail"] = (
            "its module was imported past the hooks"
            if active
            else "nothing activated the hooks: this interpreter reads no .pth file, as with -S"
        )
    elif entry["state"] == "effective":
        _look_closer(hook, value, entry)
    return entry


def _look_closer(hook: Hook, value: Any, entry: dict[str, Any]) -> None:
    """Make sure that callers read the new value, also those that took theirs from the module."""
    wanted = underlying(hook.new)
    if not (same(hook.value, value) if hook.function is None else underlying(value) is wanted):
        entry["state"], entry["detail"] = "fired", f"callers read {shown(value)}"
        return
    entry["held"] = _holders(hook)
    if entry["held"]:
        entry["state"], entry["detail"] = "fired", f"the old one is still held by {', '.join(entry['held'])}"


def _holders(hook: Hook) -> list[str]:
    """Return the names of modules that are bound to the object that was replaced.

    Of values that Python shares, such as small numbers and strings, identity tells nothing, and in the module
    itself two equal literals are one object.
    """
    old = underlying(hook.old)
    if hook.function is None and (
        isinstance(old, (bool, str, bytes)) or not old or (isinstance(old, int) and -5 <= old <= 256)
    ):
        return []
    held = []
    for name, module in sorted(sys.modules.items()):
        own = name == hook.module
        if name.startswith(f"{__package__}.") or (own and hook.function is None):
            continue
        names = vars(module) if hasattr(module, "__dict__") else {}
        for key, value in list(names.items()):
            if value is old and not (own and key == hook.attribute):
                held.append(f"{name}.{key}")
    return held


def _plain(hook: Hook) -> dict[str, Any]:
    return {
        "name": hook.name, "target": hook.target, "module": hook.module, "attribute": hook.attribute,
        "optional": hook.optional, "state": "installed", "value": None, "detail": None, "held": [],
    }  # fmt: skip


def _readable(value: Any) -> Any:
    """Return a value as JSON has it, or as text."""
    function = underlying(value)
    if hasattr(function, "__qualname__"):
        return f"{function.__module__}.{function.__qualname__}"
    if isinstance(value, (bool, int, float, str, list, tuple, dict)):
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            return shown(value)
        return value
    return shown(value)


def _status(document: dict[str, Any]) -> int:
    return int(any(hook["state"] != "effective" and not hook["optional"] for hook in document["hooks"]))


def _write(out: int, document: dict[str, Any]) -> None:
    with open(out, "w", encoding="utf-8", closefd=False) as sink:
        sink.write(json.dumps(document, indent=2) + "\n")
