"""What `check` says of patches, from recipe and lock alone."""

from __future__ import annotations

import pytest

from builder.checks.offline import check_images
from builder.findings import Finding, exit_code
from builder.lockfile import Lock, dump_lock, parse_lock
from builder.locktables import LockedPatch
from builder.mirrors import Mirrors
from builder.project import load_recipe
from builder.workspace import Workspace

from .conftest import Add

PATCH = """
[[patch]]
name = "wider"
target = "engine"
edit = { file = "engine/__init__.py", find = "1", replace = "2" }
reason = "r"
upstream = "https://git.example/1"
drop-when = "w"
"""


def of_patches(workspace: Workspace, *, strict: bool) -> list[Finding]:
    findings = check_images(workspace, ["one"], mirrors=Mirrors(), strict=strict)
    return [finding for finding in findings if finding.key.startswith("patch.")]


@pytest.fixture
def redundant(workspace: Workspace, add: Add) -> Workspace:
    """An image whose tree has the change of its only patch already."""
    add("one", more=PATCH, locked=False)
    path = workspace.lock("one")
    recipe = load_recipe(workspace, "one")
    add("two")
    lock = parse_lock(workspace.lock("two").read_text(), file="recipe.lock")
    path.write_text(dump_lock(_patched(lock, workspace)))
    assert load_recipe(workspace, "one") == recipe
    return workspace


def _patched(lock: Lock, workspace: Workspace) -> Lock:
    from builder.lockfile import asked

    sources = {name: source.model_copy(update={"patched": "a" * 40}) for name, source in lock.source.items()}
    return lock.model_copy(
        update={
            "image": "one", "asked": asked(load_recipe(workspace, "one")), "source": sources,
            "patch": (LockedPatch(name="wider", state="redundant"),),
        }
    )  # fmt: skip


def test_a_redundant_patch_is_a_warning_here_and_an_error_in_ci(redundant: Workspace) -> None:
    (warning,) = of_patches(redundant, strict=False)
    assert (warning.severity, exit_code([warning])) == ("warning", 0)
    (error,) = of_patches(redundant, strict=True)
    assert (error.severity, exit_code([error])) == ("error", 4)
    assert error.line == "images/one/recipe.toml: patch.wider: redundant: the tree has its change already"


def test_a_redundant_patch_that_is_acknowledged_is_passed_over(redundant: Workspace) -> None:
    path = redundant.recipe("one")
    path.write_text(
        path.read_text().replace('drop-when = "w"', 'drop-when = "w"\nacknowledge-redundant = "on purpose"')
    )
    assert of_patches(redundant, strict=True) == []
