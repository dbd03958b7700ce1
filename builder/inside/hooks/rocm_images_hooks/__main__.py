"""Tells which hooks are effective: `python -m rocm_images_hooks`, or by its path where -S hides the package."""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    if not __package__:
        sys.path[0] = __file__.rsplit("/", 2)[0]
    sys.exit(importlib.import_module("rocm_images_hooks.checker").main(sys.argv[1:]))
