"""What the hooks of this image are and what became of each in this process. It does not look at any module."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # as type checkers know it; see __init__
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1
FILE = os.path.join(os.path.dirname(__file__), "registry.json")  # noqa: PTH118, PTH120 -- pathlib is slow to import


class Hook:
    """One attribute that is overridden.

    As declared: `name`, `target`, `module`, `attribute`; either `expect` and `value`, or `expect_source` and the
    `file` (a module of `rocm_images_hooks.calls`) with its `function`; `optional`.
    In this process: `state`, `detail`, the objects `old` and `new`, and `done`, the namespaces it was applied to.
    """

    __slots__ = (
        "attribute", "detail", "done", "expect", "expect_source", "file", "function", "module", "name", "new",
        "old", "optional", "state", "target", "value",
    )  # fmt: skip

    def __init__(self, entry: dict[str, Any]) -> None:
        self.name: str = entry["name"]
        self.target: str = entry["target"]
        self.module: str = entry["module"]
        self.attribute: str = entry["attribute"]
        self.optional: bool = entry["optional"]
        call = entry.get("call")
        self.file: str | None = call["file"] if call else None
        self.function: str | None = call["function"] if call else None
        self.expect_source: str | None = entry["expect-source"] if call else None
        self.expect: Any = None if call else entry["expect"]
        self.value: Any = None if call else entry["value"]
        self.state = "installed"  # then fired, effective; or skipped, refused
        self.detail: str | None = None
        self.old: Any = None
        self.new: Any = None
        self.done: list[dict[str, Any]] = []

    @property
    def path(self) -> str:
        """Where the attribute is, in one string."""
        return f"{self.module}.{self.attribute}"


def read() -> tuple[Hook, ...]:
    """Return the hooks of this image, in the order of the recipe. Raises for a file that is damaged."""
    with open(FILE, encoding="utf-8") as source:  # noqa: PTH123
        table = json.load(source)
    if table["schema"] != SCHEMA:
        raise ValueError(f"{FILE}: expected schema {SCHEMA}, got {table['schema']!r}")
    return tuple(Hook(entry) for entry in table["hooks"])
