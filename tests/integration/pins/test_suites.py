"""A base of several suites, resolved by apt itself from the archive of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import debian
from builder.debian import DebianSet, Stage
from builder.debiantable import DebianBase
from builder.errors import RecipeError
from builder.mirrors import load_mirrors

pytestmark = pytest.mark.network


def resolved(tmp_path: Path, *packages: str) -> DebianSet:
    also = [{"suite": "experimental", "packages": list(packages)}]
    return debian.resolve(
        DebianBase.model_validate({"suite": "sid", "also": also}),
        build=None, runtime=Stage(apt=["hipcc"]), mirror=load_mirrors(tmp_path).debian_mirror("sid"),
        file="images/probe/recipe.toml",
    )  # fmt: skip


def test_what_is_named_comes_from_the_other_suite_and_all_else_from_the_bases_own(tmp_path: Path) -> None:
    named = ("rocm-hipamd", "rocm-llvm", "rocr-runtime")
    found = resolved(tmp_path, *(f"src:{name}" for name in named)).packages
    taken = {package.name: Path(package.file).parent.name for package in found if "~exp" in package.version}
    assert set(taken.values()) == set(named)
    assert {"hipcc", "libamdhip64-dev", "libhsa-runtime64-1"} <= taken.keys()
    assert "libc6" in {package.name for package in found} - taken.keys()


def test_a_package_that_the_other_suite_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as failure:
        resolved(tmp_path, "hipcc", "src:rocm-lvm")
    assert str(failure.value) == (
        "images/probe/recipe.toml: base: Debian experimental has no package 'src:rocm-lvm'"
    )
