"""A table as it was written, read by type: whatever has another type than it should counts as absent here."""

from __future__ import annotations

from collections.abc import Mapping


class View:
    """A table of unknown content, read by type."""

    def __init__(self, table: object) -> None:
        self._table: Mapping[str, object] = table if isinstance(table, Mapping) else {}

    @property
    def whole(self) -> Mapping[str, object]:
        """The table as it is."""
        return self._table

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def text(self, key: str) -> str | None:
        """Return a string."""
        value = self._table.get(key)
        return value if isinstance(value, str) else None

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings of a list."""
        value = self._table.get(key)
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()

    def table(self, key: str) -> View:
        """Return a table, empty where there is none."""
        return View(self._table.get(key))

    def tables(self, key: str) -> tuple[View, ...]:
        """Return the tables of a list."""
        value = self._table.get(key)
        return tuple(View(item) for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()

    def pairs(self) -> dict[str, str]:
        """Return the keys whose values are strings."""
        return {key: value for key, value in self._table.items() if isinstance(value, str)}

    def keys(self) -> tuple[str, ...]:
        """Return all keys."""
        return tuple(self._table)

    def get(self, key: str) -> object:
        """Return a value of whatever type, None where there is none."""
        return self._table.get(key)
