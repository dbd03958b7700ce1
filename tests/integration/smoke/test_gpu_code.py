"""GPU code for the wrong cards, in the smallest image with that fault, is found; mended, it passes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from builder.smoke.contract import Contract
from builder.smoke.run import require_passed

from .conftest import Run, failed

pytestmark = pytest.mark.engine

Only = Callable[..., Contract]
Forge = Callable[..., str]
TITLE = "every compiled part has code for the gpus"
KERNEL = "__global__ void scale(float *x) { x[threadIdx.x] *= 2.0f; }"


def compiled(path: str, *targets: str) -> str:
    """Return the instruction that compiles a library for some targets in the image itself."""
    flags = " ".join(f"--offload-arch={target}" for target in targets)
    lines = f"#include <hip/hip_runtime.h>\\n{KERNEL}\\nvoid run(float *x) {{ scale<<<1, 1>>>(x); }}\\n"
    return (
        f"RUN mkdir -p $(dirname {path}) && printf '{lines}' > /tmp/k.hip && "
        f"hipcc {flags} -O2 -fPIC -shared /tmp/k.hip -o {path} && rm /tmp/k.hip"
    )


def test_f75_a_library_that_lacks_the_card_fails_and_names_it(
    smoke: Run, forge: Forge, only: Only, ours: object
) -> None:
    path = "/usr/local/lib/kernels/libkernels.so"
    contract = only(gfx=("gfx1100",))
    report = smoke(forge(compiled(path, "gfx90a", "gfx942")), contract)
    test = failed(report, TITLE)
    assert test.finding is not None
    assert test.finding.cause == (
        "usr/local/lib/kernels/libkernels.so of unowned has no code for gfx1100, it has gfx90a, gfx942"
    )
    assert "invalid device function" in test.production
    assert [each.title for each in report.failed] == [TITLE]

    mended = smoke(forge(compiled(path, "gfx90a", "gfx1100")), contract)
    require_passed(mended)
    (sound,) = (each for each in mended.tests if each.title == TITLE)
    assert sound.figures["gpu_code"]["unowned"]["surplus"] == ["gfx90a"]


def test_f75_a_library_of_a_distribution_is_told_by_its_name(
    smoke: Run, forge: Forge, only: Only, ours: object
) -> None:
    site = "/usr/local/lib/python3.13/dist-packages"
    record = f"{site}/kernels_gfx-1.0.dist-info/RECORD"
    lists = f"RUN mkdir -p $(dirname {record}) && echo 'kernels_gfx/k.so,,' > {record}"
    library = compiled(f"{site}/kernels_gfx/k.so", "gfx90a")
    declared = ("import json; p='/usr/share/rocm-images/manifest.json'; t=json.load(open(p)); "
                "t['distributions']['kernels-gfx']={'layer': 'sglang'}; json.dump(t, open(p, 'w'))")  # fmt: skip
    contract = only(gfx=("gfx1100",))
    # Nobody answers for what the recipe does not name, as for the rest of a base.
    require_passed(smoke(forge(library, lists), contract))
    report = smoke(forge(library, lists, f"RUN {json.dumps(['python3', '-c', declared])}"), contract)
    test = failed(report, TITLE)
    assert test.finding is not None
    assert test.finding.cause.startswith(
        "usr/local/lib/python3.13/dist-packages/kernels_gfx/k.so of sglang has no"
    )


def test_f43_loose_kernels_for_other_cards_alone_fail(smoke: Run, forge: Forge, only: Only, ours: object) -> None:
    source = f"#include <hip/hip_runtime.h>\\n{KERNEL}\\n"

    def kernels(*targets: str) -> list[str]:
        return [
            f"RUN mkdir -p /opt/hsa/{target} && printf '{source}' > /tmp/k.hip && "
            f"hipcc --offload-arch={target} --genco /tmp/k.hip -o /opt/hsa/{target}/k.co && rm /tmp/k.hip"
            for target in targets
        ]

    contract = only(gfx=("gfx1100",))
    test = failed(smoke(forge(*kernels("gfx942")), contract), TITLE)
    assert test.finding is not None
    assert test.finding.cause == "opt/hsa/ of unowned has no code for gfx1100, it has gfx942"
    require_passed(smoke(forge(*kernels("gfx942", "gfx1100")), contract))
