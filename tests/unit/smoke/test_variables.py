"""Which variables must not be set in a served image, and which declaration lets one be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.smoke.contract import Contract
from builder.smoke.variables import forbidden_variables

BARE = Contract(image="x")


@pytest.mark.parametrize(
    "name",
    [
        "HSA_OVERRIDE_GFX_VERSION", "SCCACHE_BUCKET", "CCACHE_DIR", "AWS_REGION", "HF_TOKEN", "MY_PASSWORD",
        "https_proxy", "HTTP_PROXY", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL",
        "DEBIAN_FRONTEND", "SOURCE_DATE_EPOCH", "CXXFLAGS", "SETUPTOOLS_SCM_PRETEND_VERSION",
    ],
)  # fmt: skip
def test_what_no_served_image_should_set_is_told_without_its_value(name: str) -> None:
    (told,) = forbidden_variables({name: "never-told"}, BARE)
    assert told.startswith(f"{name} is set: ")
    assert "never-told" not in told


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "PYTORCH_ROCM_ARCH", "LD_PRELOAD", "PIP_NO_CACHE_DIR", "TOKENIZERS_PARALLELISM", "CC"]
)
def test_what_servers_need_is_none_of_them(name: str) -> None:
    assert forbidden_variables({name: "x"}, BARE) == []


def test_a_declared_variable_is_right_but_for_the_one_that_is_never() -> None:
    env = {"CXXFLAGS": "-O2", "HSA_OVERRIDE_GFX_VERSION": ""}
    declared = replace(BARE, env=env)
    assert [told.partition(" ")[0] for told in forbidden_variables(env, declared)] == ["HSA_OVERRIDE_GFX_VERSION"]
    assert forbidden_variables(env, replace(declared, allowed=("HSA_OVERRIDE_GFX_VERSION",))) == []
    # Without a recipe the contract's variables are the image's own, which declares nothing.
    assert len(forbidden_variables(env, replace(declared, silent={"env": "nobody says it"}))) == 2


def test_what_a_recipe_forbids_is_told_as_its_own() -> None:
    assert forbidden_variables({"CC": "gcc"}, replace(BARE, forbidden=("CC",))) == [
        "CC is set, and the recipe forbids it"
    ]
