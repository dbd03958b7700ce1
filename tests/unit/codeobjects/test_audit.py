"""The judgement: what is missing, what is only partly there, what is too much, and which files belong together."""

from __future__ import annotations

import pytest

from builder.codeobjects.audit import Audit, Found, Partly, audit
from builder.codeobjects.reading import read_file

from . import forge


def found(path: str, data: bytes, owner: str = "engine", *, judged: bool = True) -> Found:
    code = read_file(memoryview(data))
    assert code is not None
    return Found(path=path, code=code, owner=owner, judged=judged)


def library(*targets: str) -> bytes:
    return forge.program(forge.bundle(*targets))


def missing(judged: Audit) -> dict[str, tuple[str, ...]]:
    return {part.path: part.missing for part in judged.failed}


def test_f75_a_library_without_code_for_the_card_is_found() -> None:
    wanted = ["gfx1150", "gfx1201"]
    lacking = audit([found("lib/libkernels.so", library("gfx1100", "gfx1201"))], wanted)
    assert missing(lacking) == {"lib/libkernels.so": ("gfx1150",)}
    mended = audit([found("lib/libkernels.so", library("gfx1150", "gfx1201"))], wanted)
    assert missing(mended) == {}


def test_f43_kernels_that_were_compiled_for_other_gpus_alone_are_found() -> None:
    prebuilt = [
        found(f"aiter_meta/hsa/{gfx}/gemm/k{number}.co", forge.code(gfx), "aiter")
        for gfx in ("gfx942", "gfx950")
        for number in range(3)
    ]
    judged = audit(prebuilt, ["gfx942", "gfx1201"])
    (part,) = judged.parts
    assert (part.path, part.files, part.missing) == ("aiter_meta/hsa/", 6, ("gfx1201",))
    assert [(each.target, each.bytes, each.surplus) for each in part.targets] == [
        ("gfx942", 768, False), ("gfx950", 768, True),
    ]  # fmt: skip


def test_every_library_has_to_have_the_code_itself() -> None:
    judged = audit([found("a.so", library("gfx1201")), found("b.so", library("gfx942"))], ["gfx942", "gfx1201"])
    assert missing(judged) == {"a.so": ("gfx942",), "b.so": ("gfx1201",)}


def test_what_some_bundles_of_a_library_lack_is_told_and_is_no_failure() -> None:
    """Kernels that exist for some GPUs only are compiled for those: attention for CDNA, and so on."""
    data = forge.program(forge.bundle("gfx942", "gfx1201"), forge.bundle("gfx942"), forge.bundle())
    (part,) = audit([found("libtorch_hip.so", data)], ["gfx942", "gfx1201"]).parts
    assert (part.bundles, part.missing, part.partly) == (2, (), (Partly(target="gfx1201", without=1),))


def test_code_for_one_setting_of_a_feature_leaves_the_other_missing() -> None:
    judged = audit([found("a.so", library("gfx90a:xnack-"))], ["gfx90a"])
    assert missing(judged) == {"a.so": ("gfx90a:xnack+",)}


def test_code_for_a_family_counts_for_its_members_and_is_not_surplus() -> None:
    (part,) = audit([found("a.so", library("gfx12-generic", "gfx11-generic"))], ["gfx1201"]).parts
    assert part.missing == ()
    assert {each.target: each.surplus for each in part.targets} == {"gfx11-generic": True, "gfx12-generic": False}


def test_what_nobody_answers_for_is_shown_and_fails_nothing() -> None:
    judged = audit([found("a.so", library("gfx942"), "debian:librccl1", judged=False)], ["gfx1201"])
    assert judged.parts[0].missing == ("gfx1201",)
    assert judged.failed == ()
    assert judged.plain()["passed"] is True


def test_without_wanted_targets_nothing_is_missing_or_too_much() -> None:
    (part,) = audit([found("a.so", library("gfx942"))], []).parts
    assert (part.missing, [each.surplus for each in part.targets]) == ((), [False])


def test_code_that_cannot_be_read_is_for_no_gpu() -> None:
    broken = forge.program(forge.compressed(forge.bundle("gfx1201"), says=7))
    (part,) = audit([found("a.so", broken)], ["gfx1201"]).parts
    assert part.missing == ("gfx1201",)
    assert part.problems == (
        "a.so: zstd, version 3: it decompresses to more than the 7 bytes that it says it has",
    )


@pytest.mark.parametrize(
    ("paths", "folders"),
    [
        (["rocblas/library/K_gfx1201.co", "hipblaslt/library/K.co"], ["hipblaslt/library/", "rocblas/library/"]),
        (["hsa/gfx942/a/x.co", "hsa/gfx950/b/y.co", "hsa/gfx90a-xnack+/z.co"], ["hsa/"]),
        # Triton's cache: a folder for each kernel, named by its hash in base 32.
        ([f"root/.triton/cache/{letter * 52}/kernel.hsaco" for letter in "ABC"], ["root/.triton/cache/"]),
        ([f"gemm/aot/M={number}/kernel.hsaco" for number in range(8)], ["gemm/aot/"]),
        ([f"gemm/aot/M={number}/kernel.hsaco" for number in range(2)], ["gemm/aot/M=0/", "gemm/aot/M=1/"]),
        (["kernel.hsaco"], ["./"]),
    ],
)
def test_loose_code_objects_are_judged_together_by_folder(paths: list[str], folders: list[str]) -> None:
    judged = audit([found(path, forge.code("gfx1201")) for path in paths], ["gfx1201"])
    assert [part.path for part in judged.parts] == folders
    assert judged.failed == ()


def test_the_table_adds_up_per_component() -> None:
    judged = audit(
        [found("a.so", library("gfx942", "gfx1201")), found("b.so", library("gfx1201")),
         found("c.so", library("gfx942"), "torch")],
        ["gfx1201"],
    )  # fmt: skip
    engine, torch = judged.plain()["components"]  # type: ignore[misc]
    assert (engine["name"], engine["missing"], engine["surplus"]) == ("engine", [], ["gfx942"])
    assert {each["target"]: each["bytes"] for each in engine["targets"]} == {"gfx942": 256, "gfx1201": 512}
    assert (torch["name"], torch["missing"]) == ("torch", ["gfx1201"])
