"""A variant: a recipe that has the pins of another one, and says only what differs for whoever runs the image.

What is written and what it comes to are two texts here: `evaluated` makes the second one. No disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomli
import tomli_w

from builder.errors import RecipeError

KEY = "variant-of"
NAMING = ("schema", "name", "description", KEY)
# What a variant may say. Everything else is a pin, or goes with one, and is said once: where it is pinned.
SAYS = (*NAMING, "gfx", "build", "image", "kv-cache", "publish", "smoke")


def origin_of(text: str) -> str | None:
    """Return the image that a recipe is a variant of; None for one that is none, or is no TOML."""
    if KEY not in text:  # which is quickly seen, of hundreds of recipes
        return None
    try:
        origin = tomli.loads(text).get(KEY)
    except tomli.TOMLDecodeError:
        return None
    return origin if isinstance(origin, str) else None


def evaluated(text: str, origin: str, *, file: str) -> str:
    """Return the whole recipe of a variant. `origin` is the text of the recipe that it is a variant of.

    Tables are taken together key by key; anything else that the variant says takes the place of what was there.
    """
    own = tomli.loads(text)
    if others := [key for key in own if key not in SAYS]:
        listed, few = ", ".join(repr(key) for key in others), ", ".join(SAYS[len(NAMING) :])
        raise RecipeError(
            f"{file}: {KEY}: {listed} would differ from {own[KEY]}, whose pins a variant of it has",
            hint=f"a variant says {few}; anything else belongs into images/{own[KEY]}/recipe.toml",
        )
    return tomli_w.dumps(_together(tomli.loads(origin), own))


def _together(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(below)
    for key, value in above.items():
        under = made.get(key)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        made[key] = _together(under or {}, value) if both else value
    return made
