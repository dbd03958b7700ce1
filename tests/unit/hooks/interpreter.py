"""An interpreter with hooks, and what to declare to it."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from builder import hooks
from builder.hooks import Hook
from builder.process import Completed, run

INSIDE = Path(str(files("builder"))) / "inside"
LIMIT = Hook(
    name="limit", target="engine", module="engine.kernels", attribute="LIMIT", expect=32768, value=39321
)  # fmt: skip
KERNELS = "LIMIT = 32768\ndef limit(): return LIMIT\n"


def limit(module: str = "engine.kernels", name: str = "limit", **changed: Any) -> Hook:
    """Return a hook on a constant."""
    return replace(LIMIT, module=module, name=name, **changed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """A virtual environment with the hooks installed, and a folder of modules to import."""

    python: Path
    package: Path
    modules: Path
    log: Path

    def write(self, file: str, text: str) -> Path:
        """Write a module; `pkg/mod.py` makes a namespace package unless there is an `__init__.py`."""
        path = self.modules / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def hook(self, *declared: Hook, project: Mapping[str, str] | None = None) -> None:
        """Put hooks, and the files of a project that they call, in place of what is installed."""
        (self.package / "registry.json").write_bytes(hooks.registry(declared))
        for place, file in hooks.shipped(declared).items():
            (self.package / place).write_text(textwrap.dedent((project or {})[file]))

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> Completed:
        """Run the interpreter, with the modules on its path and the log named."""
        given = {"PYTHONPATH": str(self.modules), "ROCM_IMAGES_HOOK_LOG": str(self.log), **(env or {})}
        given["PYTHONDONTWRITEBYTECODE"] = "1"  # files are written anew, with the same length in the same second
        return run([self.python, *argv], cwd=self.modules, env=given)

    def execute(self, code: str, *options: str) -> Completed:
        """Run a program given as text."""
        return self.run(*options, "-c", textwrap.dedent(code))

    def says(self, code: str, *options: str) -> str:
        """Return what a program prints that has to succeed."""
        done = self.execute(code, *options)
        assert done.status == 0, done.stderr
        return done.stdout.strip()

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the events of these kinds, or all."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        told = [json.loads(line) for line in lines]
        return [event for event in told if not kinds or event["event"] in kinds]

    def check(self, *options: str, by_path: bool = False) -> tuple[int, dict[str, Any]]:
        """Run the checker and return its exit status and what it says."""
        program = [str(self.package / "__main__.py")] if by_path else ["-m", "rocm_images_hooks"]
        done = self.run(*options, *program)
        assert done.stdout, done.stderr
        return done.status, json.loads(done.stdout)


def step(place: Path, program: str, beside: Sequence[str]) -> Path:
    """Lay the files of a build step side by side, as the build context has them."""
    place.mkdir(parents=True)
    for file in beside:
        shutil.copyfile(INSIDE / file, place / Path(file).name)
    return place / program
