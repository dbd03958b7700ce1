"""A real interpreter with the hooks really installed into its site directory, as a build step does it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from builder import hooks
from builder.process import run

from .interpreter import KERNELS, LIMIT, Interpreter, step


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a virtual environment, run the build step with it, and copy its result as the image does.

    Returns the interpreter, and the folder that the step wrote.
    """
    top = tmp_path_factory.mktemp("hooks")
    done = run([sys.executable, "-m", "venv", "--without-pip", top / "venv"])
    assert done.status == 0, done.stderr
    python = top / "venv/bin/python"
    (top / "from/calls").mkdir(parents=True)
    (top / "from/registry.json").write_bytes(hooks.registry([]))
    program = step(top / "step", "install_hooks.py", hooks.STEP_FILES)
    done = run([python, program, "1700000000", top / "from", top / "out"])
    assert done.status == 0, done.stderr
    # From its own folder on: copying gives the folders above it, such as /tmp, modes and dates as well.
    venv = (top / "venv").resolve()
    shutil.copytree(top / "out" / venv.relative_to("/"), venv, dirs_exist_ok=True)
    return python, top / "out"


@pytest.fixture
def interpreter(environment: tuple[Path, Path], tmp_path: Path) -> Interpreter:
    """Return the interpreter without any hook."""
    python, _ = environment
    package = next(python.parent.parent.rglob("rocm_images_hooks"))
    (tmp_path / "modules").mkdir()
    found = Interpreter(python=python, package=package, modules=tmp_path / "modules", log=tmp_path / "hooks.log")
    found.hook()
    return found


@pytest.fixture
def hooked(interpreter: Interpreter) -> Interpreter:
    """Return the interpreter with one hooked constant in a module of a package."""
    interpreter.write("engine/__init__.py", "")
    interpreter.write("engine/kernels.py", KERNELS)
    interpreter.hook(LIMIT)
    return interpreter
