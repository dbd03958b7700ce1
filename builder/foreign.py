"""Reads JSON and TOML that strangers wrote. Whatever is wrong with either is a `ValueError`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tomli

NESTED = "brackets in brackets, deeper than any table has them"


def loads(text: str | bytes) -> Any:  # noqa: ANN401 -- whatever is in it
    """Return what a JSON text says. Raises `ValueError`, also where brackets in brackets would end the stack."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(NESTED) from None


def toml(text: str, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return what a TOML text says. Raises `ValueError`, which is tomli's where that says a line."""
    try:
        return tomli.loads(text, parse_float=parse_float)
    except tomli.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError(NESTED) from None
    except ValueError:
        raise ValueError("a number with more digits than any has") from None
