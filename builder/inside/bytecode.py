"""Bytecode that is the same in every run and valid whatever the times of its source: a served root is read-only.

For the other programs of build steps, beside which it lies; nothing but the standard library.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import sys
from collections.abc import Iterable
from pathlib import Path

_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH


def fix_hash_seed() -> None:
    """Start this program again unless the order of sets, which is written into bytecode, is fixed."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606


def compile_all(folder: Path, *, root: Path) -> None:
    """Write the bytecode of what is below `folder`, which will be found without `root` in front of its path.

    One file after the other, sorted, in this process alone. The compiler gives a set of constants a copy of its
    own where an equal string is interned already, so that bytecode depends on what a process compiled before: with
    several of them it would depend on which was the faster.
    """
    compileall.compile_dir(
        folder, quiet=2, workers=1, stripdir=str(root), prependdir="/", invalidation_mode=_UNCHECKED
    )


def compile_files(files: Iterable[Path], *, root: Path, optimize: int) -> None:
    """Write the bytecode of files anew, for a level of optimization, and end the program where there is none."""
    for file in files:
        done = compileall.compile_file(
            file, force=True, quiet=1, stripdir=str(root), prependdir="/", optimize=optimize,
            invalidation_mode=_UNCHECKED,
        )  # fmt: skip
        if not done:
            sys.exit(f"{file}: cannot be compiled")
