"""What a recipe promises of a patch, as the smoke tests read it. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPromise:
    """A patch that is in the image, and what its probe gives there: `expression` in `module` is `after`."""

    name: str
    target: str
    kind: str
    sha256: str
    optional: bool = False
    module: str = ""
    expression: str = ""
    after: Any = None

    @property
    def is_probed(self) -> bool:
        """Whether it has a probe."""
        return bool(self.module)
