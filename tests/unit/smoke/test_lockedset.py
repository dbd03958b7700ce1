"""What an image's Python set is held to follows from its recipe and lock, and from the wheels at hand."""

from __future__ import annotations

import zipfile
from pathlib import Path

from builder.lockfile import Lock
from builder.project import Prepared
from builder.recipe import Recipe
from builder.smoke.inside.records import identity
from builder.smoke.lockedset import locked_set

from ..recipe import samples


def prepared(recipe: Recipe, lock: Lock, below: dict[str, Prepared] | None = None) -> Prepared:
    return Prepared(
        recipe=recipe, lock=lock, lock_hash="", inputs={}, content_key="0" * 64, test_key="", fingerprint="f",
        below=below or {},
    )  # fmt: skip


def nothing(_: str) -> None:
    return None


def test_every_locked_wheel_is_wanted_with_its_hash_and_debians_are_told_apart() -> None:
    recipe = samples.recipe()
    wanted = locked_set(prepared(recipe, samples.lock(recipe)), nothing)
    found = {each.project: each for each in wanted.distributions}
    assert {"sglang", "triton"} <= found.keys()
    assert "torch" not in found
    assert (found["triton"].file, found["triton"].layer) == ("triton-3.6.0-py3-none-any.whl", "triton")
    assert found["triton"].sha256 == samples.digest("triton-3.6.0-py3-none-any.whl")
    assert wanted.debian == {"torch": "python3-torch"}
    assert "torch" in wanted.protected
    assert wanted.forbid == ("nvidia-*",)
    assert wanted.foreign_base is None


def test_the_record_of_a_wheel_at_hand_is_part_of_it(tmp_path: Path) -> None:
    record = "triton/__init__.py,sha256=AAA,1\ntriton-3.6.0.dist-info/RECORD,,\n"
    at = tmp_path / "wheel"
    with zipfile.ZipFile(at, "w") as wheel:
        wheel.writestr("triton-3.6.0.dist-info/RECORD", record)
    recipe = samples.recipe()
    lock = samples.lock(recipe)
    triton = next(file for file in lock.python if file.project == "triton")
    wanted = locked_set(prepared(recipe, lock), lambda sha256: at if sha256 == triton.sha256 else None)
    found = {each.project: each.record for each in wanted.distributions}
    assert found["triton"] == identity(record)
    assert found["sglang"] is None


def test_what_the_image_below_has_is_wanted_as_well_and_can_be_replaced() -> None:
    base = samples.recipe()
    under = prepared(base, samples.lock(base))
    text = samples.FULL.replace('name = "probe"', 'name = "above"').replace('"3.6.0"', '"3.7.0"')
    top = samples.recipe(text, forbid=["kernels"])
    top = top.model_copy(
        update={"base": top.base.model_copy(
            update={"runtime": top.base.runtime.model_copy(update={"debian": None, "recipe": "probe", "apt": ()})}
        )}
    )  # fmt: skip
    lock = samples.lock(top)
    lock = lock.model_copy(update={"python": tuple(each for each in lock.python if each.project == "triton")})
    wanted = locked_set(prepared(top, lock, {"probe": under}), nothing)
    found = {each.project: each.version for each in wanted.distributions}
    assert found["triton"] == "3.7.0"
    assert found["sglang"] == "0.5.16"
    assert wanted.forbid == ("kernels", "nvidia-*")
    assert wanted.debian == {"torch": "python3-torch"}


def test_requirements_and_extras_of_components_are_those_of_the_recipe() -> None:
    more = '\n[[component]]\nname = "{0}"\nwheel = "{0}.lib"\nversion = "1"\n{1}\nreason = "it asks for CUDA"\n'
    text = samples.FULL + more.format("one", 'requires = ["numpy"]') + more.format("two", 'extras = ["all"]')
    recipe = samples.recipe(text)
    wanted = locked_set(prepared(recipe, samples.lock(recipe)), nothing)
    assert wanted.requires["one-lib"] == ("numpy",)
    assert "two-lib" not in wanted.requires
    assert wanted.extras == {"two-lib": ("all",)}
