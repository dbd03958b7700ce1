"""Evaluates expressions in the namespaces of modules, and compares what comes out by value and type.

Runs in build stages and in finished images, with the standard library alone.
"""

from __future__ import annotations

import importlib
import math
import traceback
from typing import Any


def evaluate(module: str, expression: str) -> dict[str, Any]:
    """Return {"value": …} as JSON can hold it, or {"error": "why there is none"}."""
    try:
        names = vars(importlib.import_module(module))
        # The expression is the recipe's, of the people who build this image.
        return {"value": plain(eval(expression, dict(names)))}  # noqa: S307
    except BaseException as error:  # whatever a module raises while it is imported, or ends with
        last = traceback.format_exception_only(type(error), error)[-1].strip().splitlines()
        return {"error": last[0] if last else type(error).__name__}


def plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value as TOML and JSON both can hold it. Raises `TypeError` for any other."""
    if isinstance(value, bool):
        return bool(value)
    for kind in (int, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    raise TypeError(f"its value is no boolean, number, string, list or table: {value!r:.200}")


def same(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Whether two such values are the same, by type as well: `1` is not `true`, and not `1.0`."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def is_value(found: dict[str, Any], wanted: Any) -> bool:  # noqa: ANN401
    """Whether an evaluation gave exactly a wanted value."""
    return "value" in found and same(found["value"], wanted)
