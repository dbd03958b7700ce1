"""Reads JSON that strangers wrote. Whatever is wrong with it is a `ValueError`, as for any text that is none."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str | bytes) -> Any:  # noqa: ANN401 -- whatever is in it
    """Return what a JSON text says. Raises `ValueError`, also where brackets in brackets would end the stack."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets in brackets without end") from None
