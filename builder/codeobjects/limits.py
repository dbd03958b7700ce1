"""How much a file may make the reader do, and the error for one that is not what it says it is."""

from __future__ import annotations

from dataclasses import dataclass

from builder.elf.headers import Unreadable

__all__ = ["Budget", "Limits", "Unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds for one file; a file beyond them is told as unreadable, never read further.

    `decompressed` is in bytes over all bundles of a file, `window` what a zstd frame may ask to keep in memory.
    """

    bundles: int = 100_000
    entries: int = 512
    entry_id: int = 1_024
    decompressed: int = 8 << 30
    window: int = 1 << 27


class Budget:
    """What is left of a file's limits while it is read."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._left = self.limits.decompressed

    def take(self, size: int) -> None:
        """Use up bytes to decompress. Raises `Unreadable` when that is more than a file may have."""
        if size > self._left:
            raise Unreadable(f"it decompresses to more than the {self.limits.decompressed} bytes that are read")
        self._left -= size
