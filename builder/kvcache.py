"""The `[kv-cache]` table of a recipe: settings that decide whether a stored KV page is of use to an engine.

They are options of the engine, named as its command line names them. Which value is right is the engine's affair;
here is only what a setting may be, and that the image's command does not say otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from builder.grammar import Form, described, shown
from builder.problems import Problem, quoted_key
from builder.view import View

# What SGLang and vLLM have that changes what is in a page, or how it lies there.
_DECIDING = ("block-size", "hicache-mem-layout", "kv-cache-dtype", "page-size")
_VALUE = Form("[ -~]+", "printable text")


def _setting(value: object) -> object:
    if isinstance(value, str):
        return _VALUE.check(value)
    if isinstance(value, bool | int):
        return value
    raise ValueError(f"expected a string, an integer or a boolean, got {described(value)}")


KvSetting = Annotated[
    str, Form("[a-z][a-z0-9]*(?:-[a-z0-9]+)*", "an option of the engine without '--', such as 'page-size'")
]
KvValue = Annotated[
    Any,
    BeforeValidator(_setting),
    WithJsonSchema({"type": ["string", "integer", "boolean"], "pattern": "^[ -~]+$"}),
]


def kv_disagreements(recipe: View) -> Iterator[Problem]:
    """Return where the command of an image says otherwise than its `[kv-cache]`, or more."""
    image, declared = recipe.table("image"), recipe.table("kv-cache")
    given = _options(image.texts("entrypoint") + image.texts("cmd"))
    for name, value in given.items():
        where = f"kv-cache.{quoted_key(name)}"
        words = f"'--{name}'" if value is True else f"'--{name} {value}'"
        if name in declared:
            if _written(declared.get(name)) != _written(value):
                yield Problem(
                    where, f"{shown(declared.get(name))} is declared, and the image's command gives {words}"
                )
        elif name in _DECIDING:
            yield Problem(where, f"missing; the image's command gives {words}, which stored pages depend on")


def _options(words: tuple[str, ...]) -> dict[str, str | bool]:
    """Return the options of a command line, the last of each; one without a value is `True`."""
    found: dict[str, str | bool] = {}
    for word, following in itertools.pairwise((*words, "--")):
        if word.startswith("--") and word != "--":
            name, equals, value = word.removeprefix("--").partition("=")
            found[name.replace("_", "-")] = value if equals else following.startswith("--") or following
    return found


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
