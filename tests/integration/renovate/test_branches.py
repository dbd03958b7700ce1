"""What Renovate proposes: which branches, every changed line of them, and nothing more when it runs again."""

from __future__ import annotations

import re

import pytest

from builder.pins import pins
from builder.recipe import parse_recipe
from builder.variants import origin_of

from ..project import REPOSITORY
from .conftest import LOCKED, LOCKED_AND_MOVED, NEW_ACTION, OWN, RECIPES, Scene, actions

pytestmark = pytest.mark.network


def branch_of(action: str, version: str) -> str:
    """Return the branch that an action is moved in within its major version."""
    return f"renovate/{action.replace('/', '-')}-{version.partition('.')[0].removeprefix('v')}.x"


def expected(scene: Scene, text: str) -> list[str]:
    """Return the lines of a difference as Git gives them, with the real hashes filled in."""
    return [scene.filled(line) for line in text.strip().splitlines()]


def test_every_look_up_was_answered_and_nothing_was_asked_of_anybody_else(scene: Scene) -> None:
    assert scene.forge.unanswered == []
    assert scene.first.problems == []
    assert scene.second.problems == []
    assert scene.first.asked == scene.second.asked == {"127.0.0.1"}


def test_shipped_recipes_with_something_to_move_have_one_branch_each_and_actions_their_own(scene: Scene) -> None:
    of_actions = {
        f"renovate/{action.replace('/', '-')}-{version.partition('.')[0][1:]}.x"
        for action, _, version in actions()
    }
    shipped = {
        path.parent.name: pins(parse_recipe(path.read_text(encoding="utf-8"), file=path.name))
        for path in (REPOSITORY / "images").glob("*/recipe.toml")
        if origin_of(path.read_text(encoding="utf-8")) is None
    }
    of_recipes = {
        f"renovate/image-{name}"
        for name, found in shipped.items()
        if {pin.kind for pin in found} - {"requirement"}
    }
    assert set(scene.first.branches(OWN)) == of_recipes | of_actions
    assert {each["result"] for each in scene.first.branches(OWN).values()} == {"pr-created"}
    assert set(scene.forge.hosted[OWN].branches()) == set(scene.first.branches(OWN))


def test_of_the_shipped_recipe_on_debians_torch_the_wheels_move_and_the_rest_stays(scene: Scene) -> None:
    assert scene.proposed[(OWN, "renovate/image-sglang-debian")] == {
        "images/sglang-debian/recipe.toml": [
            '-version = "3.6.0"', '+version = "3.9.0"', '-version = "0.5.16"', '+version = "0.5.17.post1"'
        ]
    }  # fmt: skip


@pytest.mark.parametrize("name", ["vllm-debian", "vllm-debian-patched"])
def test_of_the_shipped_recipes_from_a_release_source_each_version_moves_with_it(scene: Scene, name: str) -> None:
    assert scene.proposed[(OWN, f"renovate/image-{name}")] == {
        f"images/{name}/recipe.toml": [
            '-version = "0.28.0"', '+version = "0.33.0"',
            '-version = "2.13.0+cpu"', '+version = "2.14.1+cpu"',
            '-version = "3.8.0"', '+version = "3.9.0"',
            '-version = "0.28.0"', '+version = "0.33.0"',
            '-build-env = { VLLM_TARGET_DEVICE = "empty", VLLM_VERSION_OVERRIDE = "0.28.0" }',
            '+build-env = { VLLM_TARGET_DEVICE = "empty", VLLM_VERSION_OVERRIDE = "0.33.0" }',
        ]
    }  # fmt: skip


def test_of_the_recipes_for_production_everything_moves_and_what_is_open_stays_open(scene: Scene) -> None:
    """The variants of a recipe move with it: they have no pins. Of the nightly the digest is all there is."""
    lines = {
        name: scene.proposed[(OWN, f"renovate/image-{name}")][f"images/{name}/recipe.toml"]
        for name in ("sglang-gfx1201", "vllm-gfx1201", "vllm-nightly-gfx1201")
    }
    found = {name: [line for line in each if line.startswith("+")] for name, each in lines.items()}
    nightly = expected(scene, '+image = "docker.io/vllm/vllm-openai-rocm:nightly@NEW-VLLM-NIGHTLY"')
    assert found["vllm-nightly-gfx1201"] == nightly * 2
    bases = (
        '+image = "docker.io/rocm/dev-ubuntu-24.04:7.2.5-complete@NEW-BUILD-BASE"\n'
        '+image = "docker.io/rocm/dev-ubuntu-24.04:7.2.5@NEW-RUNTIME-BASE"\n'
    )
    torch = '+version = "2.12.0+rocm7.2"\n+version = "0.27.0+rocm7.2"\n+version = "2.12.0+rocm7.2"\n'
    assert found["sglang-gfx1201"] == expected(
        scene,
        f"""
+rocm = "7.2.5"
{bases}+tag = "v0.5.17"
+commit = "NEW-SGLANG"
+commit = "NEW-SERIES"
{torch}+version = "3.7.0"
+version = "0.5.17"
""",
    )
    assert found["vllm-gfx1201"] == expected(
        scene,
        f"""
+rocm = "7.2.5"
{bases}+version = "0.33.0"
+tag = "v0.1.22.post2"
+version = "2.8.4"
+commit = "NEW-TRITON-KERNELS"
{torch}+version = "3.7.0"
+version = "7.0.3"
+version = "0.1.22.post2"
+version = "2.8.4"
+version = "0.33.0"
+VLLM_VERSION_OVERRIDE = "0.33.0"
""",
    )


def test_actions_of_the_workflows_move_by_commit_with_the_version_beside_it(scene: Scene) -> None:
    for action, commit, version in actions():
        major, minor = version.split(".")[:2]
        found = scene.proposed[(OWN, branch_of(action, version))]
        assert all(file.startswith(".github/") for file in found)
        lines = {re.sub(r" +(- )?", " ", line) for many in found.values() for line in many}
        assert lines == {
            f"- uses: {action}@{commit} # {version}",
            f"+ uses: {action}@{NEW_ACTION} # {major}.{int(minor) + 1}.0",
        }


def test_a_repository_of_recipes_has_one_branch_for_each_and_one_for_what_it_deploys(scene: Scene) -> None:
    assert {name: each["result"] for name, each in scene.first.branches(RECIPES).items()} == {
        "renovate/image-sglang-rocm": "pr-created",
        "renovate/image-vllm-rocm": "pr-created",
        "renovate/deployed-images": "pr-created",
    }
    titles = {pull["title"]: pull["head"]["label"] for pull in scene.forge.hosted[RECIPES].pulls}
    assert titles["Update image sglang-rocm"] == "renovate/image-sglang-rocm"
    assert titles["Update image vllm-rocm"] == "renovate/image-vllm-rocm"


def test_engine_series_torch_family_aiter_and_triton_arrive_together_whole_and_of_their_kind(scene: Scene) -> None:
    """Tags take their commits along, annotated ones too; local versions, prefixes and `made-for` stay."""
    found = scene.proposed[(RECIPES, "renovate/image-sglang-rocm")]
    assert list(found) == ["images/sglang-rocm/recipe.toml"]
    assert found["images/sglang-rocm/recipe.toml"] == expected(
        scene,
        f"""
-rocm = "7.2.4"
+rocm = "7.2.5"
-image = "docker.io/rocm/dev-ubuntu-24.04:7.2.4-complete@sha256:{1:064}"
+image = "docker.io/rocm/dev-ubuntu-24.04:7.2.5-complete@NEW-BUILD-BASE"
-image = "docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:{2:064}"
+image = "docker.io/rocm/dev-ubuntu-24.04:7.2.5@NEW-RUNTIME-BASE"
-commit = "{11:040}"
-tag = "v0.5.16"
+commit = "NEW-SGLANG"
+tag = "v0.5.17"
-commit = "{12:040}"
+commit = "NEW-RDNA4"
-tag = "v0.1.21.post1"
-commit = "{13:040}"
+tag = "v0.1.22.post2"
+commit = "NEW-AITER"
-tag = "rocm-3.6.0"
-commit = "{14:040}"
+tag = "rocm-3.7.0"
+commit = "NEW-TRITON"
-tag = "26.3.2-3"
-commit = "{15:040}"
+tag = "26.3.2-10"
+commit = "NEW-ROCSHMEM"
-archive = "https://github.com/ROCm/aotriton/releases/download/v0.11.1/aotriton-0.11.1-shared.tar.gz"
-sha256 = "{3:064}"
+archive = "https://github.com/ROCm/aotriton/releases/download/v0.12.0/aotriton-0.12.0-shared.tar.gz"
+sha256 = "NEW-AOTRITON"
-version = "2.11.0+rocm7.2"
+version = "2.12.0+rocm7.2"
-version = "0.26.0+rocm7.2"
+version = "0.27.0+rocm7.2"
-version = "2.11.0+rocm7.2.0.lw.git1a2b3c4d"
+version = "2.12.0+rocm7.2.0.lw.git5e6f7a8b"
-version = "3.6.0"
-build-env = {{ TRITON_WHEEL_VERSION = "3.6.0", MAX_JOBS = "4" }}
+version = "3.7.0"
+build-env = {{ TRITON_WHEEL_VERSION = "3.7.0", MAX_JOBS = "4" }}
-version = "0.11.1"
+version = "0.12.0"
-version = "0.1.21.post1"
+version = "0.1.22.post2"
-version = "0.5.16"
+version = "0.5.17"
""",
    )


def test_a_version_that_stands_at_many_places_moves_where_it_is_a_pin(scene: Scene) -> None:
    found = scene.proposed[(RECIPES, "renovate/image-vllm-rocm")]
    assert found == {
        "images/vllm-rocm/recipe.toml": [
            '-version = "0.28.0"', '+version = "0.29.0"',
            '-version = "4.57.1"', '+version = "4.58.0"',
            '-version = "0.28.0"', '+version = "0.29.0"',
            '-build-env = { VLLM_VERSION_OVERRIDE = "0.28.0" }',
            '+build-env = { VLLM_VERSION_OVERRIDE = "0.29.0" }',
        ]
    }  # fmt: skip


def test_a_tag_that_moved_is_seen_and_not_proposed(scene: Scene) -> None:
    pins = {
        each["depName"]: each
        for _, file, each in scene.first.dependencies(RECIPES)
        if file == "images/settled/recipe.toml"
    }
    commits = scene.forge.hosted[RECIPES].git("show", "main:images/settled/recipe.toml")
    assert pins["moved"]["currentDigest"] in commits
    assert [each["updateType"] for each in pins["moved"]["updates"]] in ([], ["digest"])
    assert "renovate/image-settled" not in scene.forge.hosted[RECIPES].branches()


def test_of_deployed_images_a_moving_tag_is_followed_by_digest_and_that_of_a_build_is_not(scene: Scene) -> None:
    image = "    image: ghcr.io/example/llm/sglang-rocm:nightly"
    assert scene.proposed[(RECIPES, "renovate/deployed-images")] == {
        "deploy/compose.yaml": expected(scene, f"-{image}@sha256:{41:064}\n+{image}@NEW-NIGHTLY")
    }


def test_a_second_run_changes_nothing_also_where_the_bump_workflow_has_committed_a_lock(scene: Scene) -> None:
    for name in (OWN, RECIPES):
        before, after = scene.before_second[name], scene.forge.hosted[name].branches()
        settled = set(before) - ({LOCKED_AND_MOVED} if name == RECIPES else set())
        assert {branch: after[branch] for branch in settled} == {branch: before[branch] for branch in settled}
        results = {branch: each["result"] for branch, each in scene.second.branches(name).items()}
        assert set(results) == set(before) == set(after)
        assert {results[branch] for branch in settled} == {"done"}
    assert "images/sglang-rocm/recipe.lock" in scene.forge.hosted[RECIPES].changes(LOCKED)


def test_renovate_goes_on_with_a_branch_that_the_bump_workflow_has_committed_to(scene: Scene) -> None:
    """It makes the branch anew, without the lock: what is pushed is judged and locked again."""
    found = scene.forge.hosted[RECIPES].changes(LOCKED_AND_MOVED)
    assert list(found) == ["images/vllm-rocm/recipe.toml"]
    assert '+version = "4.59.0"' in found["images/vllm-rocm/recipe.toml"]
    assert len(scene.forge.hosted[RECIPES].pulls) == 3
    after = scene.forge.written[scene.written_by_first :]
    assert [line for line in after if "Dashboard" not in line] == [f"{RECIPES}: Update image vllm-rocm: body"]
