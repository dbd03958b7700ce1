"""AMD GPU targets and ROCm versions, as the compiler spells them.

Source of the spelling: LLVM's "User Guide for AMDGPU Backend", sections Processors and Target ID.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A processor is the major version in one or two digits, the minor in one, the stepping in one hexadecimal digit.
TARGET = re.compile(r"(gfx(?:[1-9][0-9]?[0-9][0-9a-f]|[1-9][0-9]?(?:-[0-9])?-generic))((?::[a-z]+[+-])*)")
_FEATURES = ("sramecc", "xnack")


@dataclass(frozen=True, slots=True, order=True)
class GfxTarget:
    """A target ID: processor and, where given, its features, for example `gfx942:xnack-`."""

    text: str

    def __post_init__(self) -> None:
        match = TARGET.fullmatch(self.text)
        if match is None:
            raise ValueError(f"expected a target such as 'gfx1201' or 'gfx942:xnack-', got {self.text!r}")
        features = [part[:-1] for part in match[2].split(":") if part]
        if features != [feature for feature in _FEATURES if feature in features]:
            raise ValueError(f"expected the features sramecc and xnack, once and in this order, got {self.text!r}")

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
