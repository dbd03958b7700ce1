"""Tries the points, all or those whose names hold one of the given words, and writes docs/faults.md."""

from __future__ import annotations

import os
import sys

import pytest

from .page import PAGE, forget, kept, page
from .table import POINTS


def main() -> int:
    """Return the exit status: 0 where every point held."""
    words = sys.argv[1:]
    chosen = [point for point in POINTS if not words or any(word in f"{point.area} {point.id}" for word in words)]
    if not chosen:
        sys.stderr.write("no point has such a name\n")
        return 2
    forget(chosen)
    os.environ["ROCM_IMAGES_FAULTS"] = "\n".join(point.id for point in chosen)
    status = pytest.main(["-v", "--tb=short", "-s", "-p", "no:cacheprovider", os.path.dirname(__file__)])  # noqa: PTH120
    results = kept()
    if missing := [point.id for point in POINTS if point.id not in results]:
        sys.stderr.write(f"{PAGE.name} is not written: {len(missing)} points have no result\n")
        return int(status) or 1
    PAGE.write_text(page(results))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
