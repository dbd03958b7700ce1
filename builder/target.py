"""AMD GPU targets and ROCm versions, as the compiler spells them.

Source of the spelling: LLVM's "User Guide for AMDGPU Backend", sections Processors and Target ID.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TARGET = re.compile(r"(gfx(?:[0-9]{3,4}[0-9a-f]?|[0-9a-f]{3,4}|[0-9]+(?:-[0-9]+)?-generic))((?::[a-z]+[+-])*)")
_FEATURES = frozenset({"sramecc", "xnack"})


@dataclass(frozen=True, slots=True, order=True)
class GfxTarget:
    """A target ID: processor and, where given, its features, for example `gfx942:xnack-`."""

    text: str

    def __post_init__(self) -> None:
        match = _TARGET.fullmatch(self.text)
        if match is None:
            raise ValueError(f"expected a target such as 'gfx1201' or 'gfx942:xnack-', got {self.text!r}")
        unknown = {part[:-1] for part in match[2].split(":") if part} - _FEATURES
        if unknown:
            raise ValueError(f"expected the features sramecc or xnack, got {self.text!r}")

    def __str__(self) -> str:
        return self.text

    @property
    def processor(self) -> str:
        """The target without features."""
        return self.text.partition(":")[0]

    @property
    def wave_size(self) -> int:
        """Work items in a wavefront as compilers default to: 64 on GCN and CDNA, 32 on RDNA."""
        digits = self.processor.removeprefix("gfx").partition("-")[0]
        generation = digits if "generic" in self.processor else digits[:-2]
        return 32 if int(generation, 10) >= 10 else 64
