"""A build step that says which patches failed is a failure of those patches, and no failure of a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.engine.build import _Steps
from builder.errors import BuildError, PatchError
from builder.patchproof import about, tell_redundant
from builder.recipe import Recipe
from builder.story import Silent

from ..recipe import samples

STEP = '[probes 2/2] RUN --network=none ["python3", "/media/probe_patches.py", "judge", "0"]'
ENDED = 'ERROR: process "python3 /media/probe_patches.py judge 0" did not complete successfully: exit code: {}'


def failure(*said: str, code: int = 4) -> Exception:
    steps = _Steps(Silent())
    for line in (f"#7 {STEP}", *(f"#7 0.412 {line}" for line in said), f"#7 {ENDED.format(code)}"):
        steps.hear(line)
    return steps.failure("", Path("build.log"))


def test_the_lines_about_patches_are_the_message_and_the_others_the_evidence() -> None:
    found = failure("patch wider: WIDTH of x: expected 1, found 2", "  actual 3  WIDTH = 2", "patch rows: gone")
    assert isinstance(found, PatchError)
    assert found.exit_code == 4
    assert found.message == "patch wider: WIDTH of x: expected 1, found 2\npatch rows: gone"
    assert found.details == ("  actual 3  WIDTH = 2",)
    assert found.hint == "the build stopped in [probes] python3 probe_patches.py; the whole log is in build.log"
    named = about(found, samples.recipe())
    assert named.message.splitlines() == [
        "images/probe/recipe.toml: patch.wider: WIDTH of x: expected 1, found 2",
        "images/probe/recipe.toml: patch.rows: gone",
    ]


@pytest.mark.parametrize(
    ("said", "code"), [("patch wider: gone", 1), ("the compiler said no", 4), ("patch: x", 4)]
)
def test_any_other_step_that_fails_is_a_failure_of_the_build(said: str, code: int) -> None:
    assert isinstance(failure(said, code=code), BuildError)


def patched(**words: str) -> Recipe:
    patch = {
        "name": "wider",
        "target": "sglang",
        "reason": "r",
        "upstream": "https://git.example/1",
        "drop-when": "w",
    }
    return samples.recipe(patch=[{**patch, "edit": {"file": "a.py", "find": "1", "replace": "2"}, **words}])


class Told(Silent):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def test_a_patch_that_the_image_says_is_redundant_is_told_and_in_ci_refused() -> None:
    entries = [{"name": "wider", "state": "redundant"}]
    line = "images/probe/recipe.toml: patch.wider: redundant: what it changes is there already"
    story = Told()
    tell_redundant(patched(), entries, story, strict=False)
    assert story.warnings == [line]
    with pytest.raises(PatchError) as refused:
        tell_redundant(patched(), entries, Told(), strict=True)
    assert refused.value.message == line
    quiet = Told()
    tell_redundant(patched(**{"acknowledge-redundant": "soon gone"}), entries, quiet, strict=True)
    tell_redundant(patched(), [{"name": "wider", "state": "applies"}], quiet, strict=True)
    assert quiet.warnings == []
