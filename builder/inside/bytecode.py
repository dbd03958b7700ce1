"""Bytecode that is the same in every run and valid whatever the times of its source: a served root is read-only.

For the other programs of build steps, beside which it lies; nothing but the standard library.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import sys
from collections.abc import Sequence
from pathlib import Path


def fix_hash_seed() -> None:
    """Start this program again unless the order of sets, which is written into bytecode, is fixed."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606


def compile_all(folder: Path, *, root: Path, optimize: Sequence[int] = (-1,)) -> None:
    """Write the bytecode of what is below `folder`, which will be found without `root` in front of its path.

    `optimize` are levels as compileall knows them, -1 for that of this interpreter.
    """
    for level in optimize:
        compileall.compile_dir(
            folder, quiet=2, workers=0, stripdir=str(root), prependdir="/", optimize=level,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip
