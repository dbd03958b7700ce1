"""The real engines from the Python package index, resolved for Python 3.12 whatever runs these tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tomli

from .conftest import Project

pytestmark = pytest.mark.network

# What only NVIDIA's cards are served with.
CUDA_ONLY = ("nvidia-*", "flashinfer-*", "sgl-kernel", "sglang-kernel")


def engine(name: str, version: str, forbid: tuple[str, ...] = ()) -> str:
    patterns = ", ".join(f'"{pattern}"' for pattern in forbid)
    return f'forbid = [{patterns}]\n\n[[component]]\nname = "{name}"\nwheel = "{name}"\nversion = "{version}"\n'


@pytest.fixture
def real(tmp_path: Path) -> Project:
    """Return a project whose Python index is the one this machine uses."""
    root = tmp_path / "project"
    (root / "images").mkdir(parents=True)
    return Project(root=root, env=dict(os.environ) | {"NO_COLOR": "1"})


@pytest.mark.parametrize(("name", "version"), [("sglang", "0.5.16"), ("vllm", "0.28.0")])
def test_a_real_engine_is_locked_for_another_python_the_same_way_twice(
    real: Project, name: str, version: str
) -> None:
    real.recipe(engine(name, version))
    first = real.lock()
    assert real.lock() == first
    files = tomli.loads(first)["python"]
    assert len(files) > 100
    assert {file["version"] for file in files if file["layer"] == name} == {version}
    wheels = [file["file"].removesuffix(".whl").split("-")[-3:-1] for file in files]
    assert {interpreter for interpreter, abi in wheels if abi not in ("none", "abi3")} == {"cp312"}
    assert all(len(file["sha256"]) == 64 and file["index"] == "default" for file in files)


@pytest.mark.parametrize(("name", "version"), [("sglang", "0.5.16"), ("vllm", "0.28.0")])
def test_a_real_engine_that_would_bring_cuda_is_refused_naming_who_asks(
    real: Project, name: str, version: str
) -> None:
    real.recipe(engine(name, version, CUDA_ONLY))
    said = real.refused()
    assert "forbid: the resolved set would contain " in said
    assert "nvidia-" in said
    assert "via torch" in said
    assert f"via {name}" in said
