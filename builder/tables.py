"""How a table of a recipe behaves: immutable, keys in kebab case, unknown keys refused. Knows no table itself."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue


def _kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def exactly_one(*keys: str) -> dict[str, JsonValue]:
    """Return, for the JSON Schema, that exactly one of some keys is there; `agreement` checks it with words."""
    return {"oneOf": [{"required": [key]} for key in keys]}


class Table(BaseModel):
    """A table of the recipe: immutable, keys in kebab case, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_kebab,
        populate_by_name=False,
        strict=True,
        use_enum_values=True,
    )
