"""A variant has all pins of another recipe, and says only what differs for whoever runs the image."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli

from builder.bump.touched import touched_images
from builder.errors import RecipeError
from builder.fingerprint import fingerprint, fingerprint_inputs
from builder.lockfile import asked, dump_lock
from builder.plan import content_inputs
from builder.project import load_recipe, prepare
from builder.recipefiles import recipe_text
from builder.render import served_environment
from builder.workspace import Workspace

from . import samples

VARIANT = """
schema = 1
name = "two"
description = "The same for two cards"
variant-of = "probe"
gfx = ["gfx1201"]

[image]
shm = "16g"

[image.env]
RANKS = "2"
GFX = "{gfx} of two"

[kv-cache]
page-size = 64
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A repository with a recipe, a variant of it, and a lock of each."""
    made = Workspace(root=tmp_path)
    for name, text in (("probe", samples.FULL), ("two", VARIANT)):
        made.recipe(name).parent.mkdir(parents=True)
        made.recipe(name).write_text(text)
        made.lock(name).write_text(dump_lock(samples.lock(load_recipe(made, name))))
    return made


def write(workspace: Workspace, name: str, text: str) -> None:
    workspace.recipe(name).parent.mkdir(parents=True, exist_ok=True)
    workspace.recipe(name).write_text(text)


def refused(workspace: Workspace, name: str) -> tuple[str, str | None]:
    with pytest.raises(RecipeError) as failure:
        load_recipe(workspace, name)
    return failure.value.message, failure.value.hint


def test_tables_are_taken_together_and_lists_and_texts_take_the_place_of_the_other(workspace: Workspace) -> None:
    origin, variant = load_recipe(workspace, "probe"), load_recipe(workspace, "two")
    assert (variant.name, variant.description, variant.gfx) == ("two", "The same for two cards", ("gfx1201",))
    assert variant.image.env == {**origin.image.env, "RANKS": "2", "GFX": "{gfx} of two"}
    assert (variant.image.shm, variant.image.devices) == ("16g", origin.image.devices)
    assert variant.kv_cache == {"page-size": 64}
    assert (variant.base, variant.component, variant.source) == (origin.base, origin.component, origin.source)
    assert served_environment(variant, fingerprint="f")["GFX"] == "gfx1201 of two"


def test_what_is_locked_of_a_variant_is_what_is_locked_of_its_origin(workspace: Workspace) -> None:
    assert asked(load_recipe(workspace, "two")) == asked(load_recipe(workspace, "probe"))


def test_a_variant_is_an_image_of_its_own_with_the_fingerprint_that_its_settings_give(
    workspace: Workspace,
) -> None:
    origin, variant = load_recipe(workspace, "probe"), load_recipe(workspace, "two")
    locks = [samples.lock(each) for each in (origin, variant)]
    inputs = [content_inputs(of, lock, samples.TOOLING) for of, lock in zip((origin, variant), locks, strict=True)]
    differing = {key for key in inputs[0].keys() | inputs[1].keys() if inputs[0].get(key) != inputs[1].get(key)}
    assert differing == {"name", "gfx", "image.env", "image.shm", "kv-cache.page-size"}
    prints = [
        fingerprint(fingerprint_inputs(of, lock, beneath=None))
        for of, lock in zip((origin, variant), locks, strict=True)
    ]
    assert prints[0] != prints[1]
    plain = variant.model_copy(update={"kv_cache": {}})
    assert fingerprint(fingerprint_inputs(plain, locks[1], beneath=None)) == prints[0]


def test_the_folder_beside_a_variant_and_its_tests_are_those_of_the_origin(workspace: Workspace) -> None:
    assert [load_recipe(workspace, name).folder for name in ("probe", "two")] == ["probe", "probe"]
    before = [prepare(workspace, name).test_key for name in ("probe", "two")]
    tests = workspace.images / "probe/tests"
    tests.mkdir()
    (tests / "test_more.py").write_text("def test_more() -> None: ...\n")
    after = [prepare(workspace, name).test_key for name in ("probe", "two")]
    assert all(old != new for old, new in zip(before, after, strict=True))


def test_a_variant_that_says_a_pin_is_refused_with_what_it_may_say(workspace: Workspace) -> None:
    write(workspace, "two", VARIANT + '[base.runtime]\napt = ["curl"]\n[[component]]\nname = "more"\n')
    message, hint = refused(workspace, "two")
    assert message == (
        "images/two/recipe.toml: variant-of: 'base', 'component' would differ from probe, whose pins a variant of "
        "it has"
    )
    assert hint == (
        "a variant says gfx, build, image, kv-cache, publish, smoke; anything else belongs into "
        "images/probe/recipe.toml"
    )


@pytest.mark.parametrize("origin", ["two", "nowhere"])
def test_a_variant_of_itself_or_of_nothing_is_refused(workspace: Workspace, origin: str) -> None:
    write(workspace, "two", VARIANT.replace('"probe"', f'"{origin}"'))
    assert refused(workspace, "two") == (
        f"images/two/recipe.toml: variant-of: there is no other image called {origin!r}; known: probe",
        "rocm-images list",
    )


def test_a_variant_of_a_variant_is_told_the_origin(workspace: Workspace) -> None:
    write(workspace, "four", VARIANT.replace('"two"', '"four"').replace('"probe"', '"two"'))
    assert refused(workspace, "four") == (
        "images/four/recipe.toml: variant-of: two is a variant itself", 'variant-of = "probe"'
    )  # fmt: skip


def test_what_is_wrong_with_the_origin_is_told_of_the_file_it_stands_in(workspace: Workspace) -> None:
    write(workspace, "probe", samples.FULL.replace('python = "3.13"', 'python = "3"'))
    assert refused(workspace, "two")[0].startswith("images/probe/recipe.toml: python: ")


def test_what_is_wrong_with_a_variant_is_told_of_its_own_file(workspace: Workspace) -> None:
    write(workspace, "two", VARIANT.replace('shm = "16g"', 'shm = "16"\nshim = "1"'))
    lines = refused(workspace, "two")[0].splitlines()
    assert [line.partition(": expected")[0].partition(": unknown")[0] for line in lines] == [
        "images/two/recipe.toml: image.shim", "images/two/recipe.toml: image.shm"
    ]  # fmt: skip
    write(workspace, "two", VARIANT + "gfx = [\n")
    assert refused(workspace, "two")[0].startswith("images/two/recipe.toml: not a TOML file: ")


def test_the_whole_recipe_of_a_variant_is_a_recipe(workspace: Workspace) -> None:
    table = tomli.loads(recipe_text(workspace, "two"))
    assert (table["variant-of"], table["engine"]) == ("probe", "sglang")
    assert recipe_text(workspace, "probe") == samples.FULL


def test_a_change_of_the_origin_touches_its_variants_and_not_the_other_way_round(workspace: Workspace) -> None:
    assert touched_images(workspace, workspace, ["images/probe/recipe.toml"]) == ("probe", "two")
    assert touched_images(workspace, workspace, ["images/two/recipe.toml"]) == ("two",)
