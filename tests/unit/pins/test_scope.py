"""What an update of one name resolves anew, and what the lock says of the rest."""

from __future__ import annotations

from typing import Any

import pytest
import tomli

from builder.errors import LockError, RecipeError
from builder.lockfile import asked, differences
from builder.recipe import Recipe
from builder.scope import outdated, scope_of

from ..recipe import samples


def changed(**components: dict[str, Any] | None) -> Recipe:
    """Return the sample recipe with keys of components changed; None takes one away, a new name adds one."""
    table = tomli.loads(samples.FULL)
    listed = [part for part in table["component"] if components.get(part["name"], {}) is not None]
    known = {part["name"]: part for part in listed}
    for name, keys in components.items():
        if name in known:
            known[name].update(keys or {})
        elif keys is not None:
            listed.append({"name": name, **keys})
    return samples.recipe(component=listed, smoke={})


LOCK = samples.lock(samples.recipe())


def test_without_a_name_everything_is_resolved_anew() -> None:
    scope = scope_of(samples.recipe(), LOCK, None)
    assert (scope.old, scope.debian, scope.keeps_python) == (None, True, False)
    assert scope.asked == asked(samples.recipe())
    assert scope.kept_source("kernels") is None


def test_an_update_of_a_wheel_resolves_the_python_set_and_keeps_the_sources() -> None:
    recipe = changed(triton={"version": "3.7.0"})
    scope = scope_of(recipe, LOCK, "triton")
    assert (scope.components, scope.sources, scope.debian) == ({"triton"}, frozenset(), False)
    assert scope.asked == asked(recipe)
    assert scope.kept_source("kernels") == LOCK.source["kernels"]


def test_an_update_of_a_source_or_of_what_is_built_from_it_keeps_the_python_set() -> None:
    scope = scope_of(samples.recipe(), LOCK, "kernels")
    assert (scope.components, scope.sources, scope.keeps_python) == (frozenset(), {"kernels"}, True)


def test_an_update_of_debian_leaves_new_components_for_later_and_says_so() -> None:
    recipe = changed(ninja={"wheel": "ninja", "version": "1.13.0"})
    scope = scope_of(recipe, LOCK, "debian")
    assert (scope.debian, scope.keeps_python) == (True, True)
    updated = LOCK.model_copy(update={"asked": dict(scope.asked)})
    assert differences(recipe, updated) == (
        'component.ninja: locked for nothing, the recipe says {"version": "1.13.0", "wheel": "ninja"}',
    )
    assert scope_of(recipe, updated, "ninja").asked == asked(recipe)


def test_a_built_component_that_is_gone_leaves_the_lock_with_any_update_but_a_wheel_does_not() -> None:
    without = changed(kernels=None)
    assert "component.kernels" not in scope_of(without, LOCK, "debian").asked
    assert "component.triton" in scope_of(changed(triton=None), LOCK, "debian").asked


def test_the_python_set_is_not_resolved_for_one_component_while_others_have_changed() -> None:
    recipe = changed(triton={"version": "3.7.0"}, sglang={"version": "0.5.17"})
    with pytest.raises(LockError) as failure:
        scope_of(recipe, LOCK, "triton")
    assert failure.value.message == (
        "images/probe/recipe.lock: not only triton changed since it was made: component.sglang"
    )
    assert failure.value.hint == "rocm-images lock probe"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            "tritn",
            "--update: no component or source is called 'tritn'",
            "known: debian, kernels, sglang, torch, triton",
        ),
        ("torch", "--update: torch comes with the Debian packages", "rocm-images lock probe --update debian"),
    ],
)
def test_a_name_that_cannot_be_updated_alone_is_refused(name: str, message: str, hint: str) -> None:
    with pytest.raises(RecipeError) as failure:
        scope_of(samples.recipe(), LOCK, name)
    assert (failure.value.message, failure.value.hint) == (message, hint)


def test_there_is_nothing_to_update_without_a_lock() -> None:
    with pytest.raises(LockError) as failure:
        scope_of(samples.recipe(), None, "triton")
    assert failure.value.message == "images/probe/recipe.lock: there is no lock to update"


def test_an_update_of_several_names_resolves_each_of_them_and_keeps_the_rest() -> None:
    recipe = changed(triton={"version": "3.7.0"}, sglang={"version": "0.5.17"}, torch={"version": "2.7.0"})
    scope = scope_of(recipe, LOCK, ("triton", "sglang", "debian"))
    assert (scope.components, scope.debian, scope.sources) == ({"triton", "sglang"}, True, frozenset())
    assert scope.asked == asked(recipe)
    with pytest.raises(LockError, match=r"not only sglang changed since it was made: component\.triton"):
        scope_of(recipe, LOCK, ("sglang",))
    with pytest.raises(RecipeError, match="no component or source is called 'trition'"):
        scope_of(recipe, LOCK, ("sglang", "trition"))


@pytest.mark.parametrize(
    ("recipe", "names"),
    [
        (samples.recipe(), frozenset()),
        (changed(triton={"version": "3.7.0"}), {"triton"}),
        (changed(triton={"version": "3.7.0"}, sglang={"version": "0.5.17"}), {"triton", "sglang"}),
        (changed(torch={"version": "2.7.0"}), {"debian"}),
        (changed(kernels={"version": "1.1"}), {"kernels"}),
        (samples.recipe(source={"kernels": {"path": "others"}}), {"kernels"}),
        (samples.recipe(samples.FULL.replace('"ninja-build", ', "")), {"debian"}),
        (changed(ninja={"wheel": "ninja", "version": "1.13.0"}), {"ninja"}),
        (samples.recipe(forbid=["nvidia-*", "numpy"]), None),  # what is not about one name
        (changed(triton=None), None),  # what is gone is in no update
    ],
)
def test_what_a_recipe_changed_is_as_little_as_makes_its_lock_fit(
    recipe: Recipe, names: frozenset[str] | None
) -> None:
    assert outdated(recipe, LOCK) == names
