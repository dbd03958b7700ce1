"""Programs of build steps run on the image's Python, with nothing but its library and the files beside them."""

from __future__ import annotations

import ast
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from builder import edits, hooks

INSIDE = Path(str(files("builder"))) / "inside"


@pytest.mark.parametrize("step", [edits.STEP_FILES, hooks.STEP_FILES], ids=["edit-tree", "install-hooks"])
def test_a_step_parses_on_python_3_10_and_needs_only_what_lies_beside_it(step: tuple[str, ...]) -> None:
    beside = {Path(file).stem for file in step} | {"rocm_images_hooks"}
    assert len({Path(file).name for file in step}) == len(step)  # they are laid side by side
    for file in step:
        tree = ast.parse((INSIDE / file).read_text(encoding="utf-8"), feature_version=(3, 10))
        on_the_host = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ]
        skipped = {part for node in on_the_host for line in node.body for part in ast.walk(line)}
        for node in ast.walk(tree):
            if node in skipped or not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            named = isinstance(node, ast.ImportFrom) and node.module
            names = [named] if named else [alias.name for alias in node.names]
            tops = {name.partition(".")[0] for name in names}
            assert tops <= set(sys.stdlib_module_names) | beside, f"{file}: {tops}"


def test_every_file_of_the_package_of_the_hooks_is_installed() -> None:
    package = INSIDE / "hooks/rocm_images_hooks"
    assert {f"hooks/rocm_images_hooks/{path.name}" for path in package.glob("*.py")} < set(hooks.STEP_FILES)
