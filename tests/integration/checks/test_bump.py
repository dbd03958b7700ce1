"""What `lock` and `check` say when a recipe moves from one real SGLang release to the next."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from builder.process import Completed, run
from builder.workspace import Workspace

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[3]
COMMAND = Path(sys.executable).with_name("rocm-images")
RECIPE = """\
schema = 1
name = "bumped"
description = "SGLang alone, for what its files say"
engine = "sglang"
gfx = ["gfx1100"]
python = "3.13"

[base.build]
debian = { suite = "trixie" }

[base.runtime]
debian = { suite = "trixie" }
apt = ["g++", "hipcc", "libtorch-dev", "ninja-build", "pybind11-dev", "python3-dev", "python3-setuptools"]

[[component]]
name = "sglang"
wheel = "sglang"
version = "0.5.14"
requires = []
reason = "only its own files are of interest"
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Return a repository with one image that shares the store of this checkout."""
    there = Workspace(root=tmp_path)
    there.recipe("bumped").parent.mkdir(parents=True)
    there.recipe("bumped").write_text(RECIPE)
    store = Workspace(root=ROOT).store
    store.mkdir(parents=True, exist_ok=True)
    there.state.mkdir()
    there.store.symlink_to(store)
    return there


def ask(workspace: Workspace, *words: str) -> Completed:
    return run([COMMAND, "--root", workspace.root, *words])


def edit(workspace: Workspace, before: str, after: str) -> None:
    text = workspace.recipe("bumped").read_text()
    assert before in text
    workspace.recipe("bumped").write_text(text.replace(before, after))


def errors(done: Completed) -> list[dict[str, str]]:
    return [finding for finding in json.loads(done.stdout) if finding["severity"] == "error"]


def test_f01_a_bump_to_0_5_15_names_the_new_headers_and_the_package_the_runtime_stage_lacks(
    workspace: Workspace,
) -> None:
    assert ask(workspace, "lock").status == 0
    before = ask(workspace, "check", "--online", "--json")
    assert (before.status, errors(before)) == (0, [])

    edit(workspace, 'version = "0.5.14"', 'version = "0.5.15"')
    bumped = ask(workspace, "lock", "--update", "sglang")
    assert bumped.status == 0
    said = [line.strip() for line in bumped.stderr.splitlines()]
    place = "included by sglang/srt/mem_cache/cpp_utils/hash_binding.cpp"
    assert any(line.startswith("sglang: 0.5.14 ") and "-> 0.5.15" in line for line in said)
    assert f"new header Python.h (python3-dev), {place}" in said
    assert f"new header openssl/sha.h (libssl-dev), {place}" in said
    assert "base.runtime has python3-dev for what is new" in said
    assert any(line.startswith("base.runtime.apt: libssl-dev is missing in the runtime stage") for line in said)

    after = ask(workspace, "check", "--json")
    assert after.status == 2
    (error,) = errors(after)
    assert (error["file"], error["key"]) == ("images/bumped/recipe.toml", "base.runtime.apt")
    assert error["message"].startswith("libssl-dev is missing in the runtime stage: needed for -lcrypto (")
    assert "openssl/sha.h (sglang/srt/mem_cache/cpp_utils/hash_binding.cpp)" in error["message"]
    assert error["hint"] == "add 'libssl-dev' to base.runtime.apt, then: rocm-images lock bumped"

    edit(workspace, '"hipcc", ', '"hipcc", "libssl-dev", ')
    stale = ask(workspace, "check", "--json")
    assert stale.status == 3
    assert [error["check"] for error in errors(stale)] == ["lock"]
    assert ask(workspace, "lock", "--update", "debian").status == 0
    assert ask(workspace, "check").status == 0
