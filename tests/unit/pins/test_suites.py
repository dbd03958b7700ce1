"""A base of several suites: what apt is told of them, and how the base is named and counted."""

from __future__ import annotations

from builder.debian import _preference
from builder.debiantable import DebianBase

ALSO = {"suite": "experimental", "packages": ["src:rocm-llvm", "rocminfo"]}


def base(**keys: object) -> DebianBase:
    return DebianBase.model_validate({"suite": "sid", **keys})


def test_apt_takes_what_is_named_of_a_suite_and_nothing_else_of_it() -> None:
    """Both names of a suite count: of experimental the code name is rc-buggy."""
    (added,) = base(also=[ALSO]).also
    assert _preference(added).split("\n\n") == [
        "Package: rocminfo src:rocm-llvm\nPin: release n=experimental\nPin-Priority: 990",
        "Package: rocminfo src:rocm-llvm\nPin: release a=experimental\nPin-Priority: 990",
        "Package: *\nPin: release n=experimental\nPin-Priority: -1",
        "Package: *\nPin: release a=experimental\nPin-Priority: -1\n",
    ]


def test_a_base_is_named_with_all_its_suites() -> None:
    assert base().words == "sid"
    assert base(also=[ALSO]).words == "sid with experimental"
    assert base(also=[ALSO, {"suite": "trixie", "packages": ["gcc"]}]).words == "sid with experimental, trixie"


def test_a_base_of_one_suite_counts_as_it_always_did() -> None:
    assert base().content == {"suite": "sid", "components": ["main"]}
    assert base(also=[ALSO]).content == {
        "suite": "sid", "components": ["main"], "also": {"experimental": ["rocminfo", "src:rocm-llvm"]}
    }  # fmt: skip


def test_the_order_of_suites_and_packages_does_not_count() -> None:
    other = {"suite": "trixie", "packages": ["gcc"]}
    turned = {**ALSO, "packages": ALSO["packages"][::-1]}
    assert base(also=[ALSO, other]).content == base(also=[other, turned]).content
