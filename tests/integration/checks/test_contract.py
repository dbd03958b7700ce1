"""The contract of a recipe that takes the real vLLM from its sdist and an AITER that is older than its pin."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.checks.contracts import contract
from builder.checks.offline import check_images
from builder.checks.trees import Fetch
from builder.lockfile import Lock, LockedSource, PythonFile, asked, dump_lock
from builder.mirrors import load_mirrors
from builder.project import load_recipe
from builder.story import Silent
from builder.workspace import Workspace

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[3]
BASE = f'image = "docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:{"b" * 64}"\n'
RECIPE = f"""\
schema = 1
name = "served"
description = "vLLM with an AITER that is older than its pin"
engine = "vllm"
gfx = ["gfx942"]
python = "3.12"
rocm = "7.2.4"

[base.build]
{BASE}
[base.runtime]
{BASE}
[source.vllm]
sdist = "vllm"
version = "0.28.0"

[[component]]
name = "aiter"
wheel = "amd-aiter"
version = "0.1.7.post2.dev18"

[[component]]
name = "vllm"
source = "vllm"
version = "0.28.0"
build = ["true"]
"""
AITER = PythonFile(
    project="amd-aiter", version="0.1.7.post2.dev18", file="amd_aiter-0.1.7.post2.dev18-py3-none-any.whl",
    sha256="fe139d74438217c35e87e3b961166bac8db2d381eadccb371da2e63615f05a31", layer="aiter",
)  # fmt: skip
VLLM = LockedSource(
    file="vllm-0.28.0.tar.gz", sha256="ac96dd0ec5be9c13f2aa4bfb50498c4727110406f6e4980b58a4097e4d18634a"
)


def test_f34_check_lists_what_an_old_aiter_lacks_for_vllm_0_28_0(tmp_path: Path) -> None:
    workspace = Workspace(root=tmp_path)
    workspace.recipe("served").parent.mkdir(parents=True)
    workspace.recipe("served").write_text(RECIPE)
    workspace.state.mkdir()
    workspace.store.symlink_to(Workspace(root=ROOT).store)
    recipe = load_recipe(workspace, "served")
    lock = Lock(schema=1, image="served", epoch=1, asked=asked(recipe), source={"vllm": VLLM}, python=(AITER,))
    workspace.lock("served").write_text(dump_lock(lock))
    mirrors = load_mirrors(ROOT)
    outcome = contract(workspace, recipe, lock, ("vllm", "aiter"), fetch=Fetch(mirrors=mirrors, story=Silent()))
    assert outcome is not None
    assert (outcome.checked, len(outcome.missing), len(outcome.optional), outcome.unknown) == (151, 23, 5, ())

    findings = {(finding.check, finding.severity): finding for finding in check_images(
        workspace, ["served"], mirrors=mirrors
    )}  # fmt: skip
    missing = findings["contract", "error"]
    assert missing.line == (
        "images/served/recipe.toml: smoke.contracts: vllm 0.28.0 -> aiter 0.1.7.post2.dev18: of 151 imports, "
        "23 names are not there"
    )
    assert missing.hint == "pin the aiter that vllm 0.28.0 was made with"
    assert any(line.startswith("aiter.ops.gemm_op_a8w8.AITER_CONFIGS: no such name") for line in missing.details)
    assert findings["aiter-of-vllm", "error"].message == (
        "vLLM 0.28.0 was made with AITER 0.1.19, not 0.1.7.post2.dev18"
    )
