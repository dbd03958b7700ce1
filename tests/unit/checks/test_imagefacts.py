from __future__ import annotations

import zipfile

import pytest

from builder import compat, imagefacts
from builder.checks.metadata import asks
from builder.knownbases import carried
from builder.lockfile import Lock, PythonFile, asked
from builder.recipe import Recipe, parse_recipe
from builder.sources.store import Store, sha256_of
from builder.workspace import Workspace

DIGEST = "a" * 64
RECIPE = """\
schema = 1
name = "one"
description = "for a test"
engine = "vllm"
gfx = ["gfx1201", "gfx942:xnack-"]
python = "3.12"
rocm = "7.2.4"
[base.build]
image = "%(image)s"
[base.runtime]
image = "%(image)s"
[source.vllm]
git = "https://git.example/vllm"
tag = "v0.28.0"
commit = "0123456789012345678901234567890123456789"
[[component]]
name = "torch"
wheel = "torch"
version = "2.11.0+rocm7.2"
index = "https://index.example/rocm7.2"
[[component]]
name = "vllm"
source = "vllm"
version = "0.28.0"
build = ["true"]
[image]
env = { HSA_OVERRIDE_GFX_VERSION = "" }
[[override]]
rule = "hsa-override"
reason = "tried"
until = "vllm==0.28.0"
"""


def recipe(image: str = f"docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:{DIGEST}") -> Recipe:
    return parse_recipe(RECIPE % {"image": image}, file="images/one/recipe.toml")


def lock(of: Recipe, *files: PythonFile) -> Lock:
    return Lock(schema=1, image="one", epoch=1, asked=asked(of), python=files)


def test_the_facts_of_an_image_are_its_pins() -> None:
    of = recipe()
    torchvision = PythonFile(
        project="torchvision", version="0.25.0+cpu", file="t.whl", sha256=DIGEST, layer="dependencies"
    )
    facts = imagefacts.facts_of(of, lock(of, torchvision), file="images/one/recipe.toml")
    assert (facts.rocm, facts.python, facts.base, facts.gfx) == (
        "7.2.4", "3.12", "ubuntu-24.04", ("gfx1201", "gfx942"),
    )  # fmt: skip
    assert facts.versions == {"torch": "2.11.0+rocm7.2", "vllm": "0.28.0", "torchvision": "0.25.0+cpu"}
    assert facts.kinds == {"torch": "wheel", "vllm": "source", "torchvision": "wheel"}
    assert facts.tags == {"vllm": "v0.28.0"}
    assert facts.commits == {"vllm": "0123456789012345678901234567890123456789"}
    assert facts.env == {"HSA_OVERRIDE_GFX_VERSION": ""}


def test_a_torchvision_that_the_resolver_took_from_elsewhere_is_found() -> None:
    of = recipe()
    locked = lock(
        of, PythonFile(project="torchvision", version="0.26.0+cpu", file="t", sha256=DIGEST, layer="dependencies")
    )
    facts = imagefacts.facts_of(of, locked, file="f")
    found = {f.rule: f.severity for f in compat.check(facts, imagefacts.overrides_of(of))}
    assert found["torch-local-version"] == "error"
    assert found["hsa-override"] == "note"


@pytest.mark.parametrize(
    ("image", "base"),
    [
        ("docker.io/library/debian:13", "debian-13"),
        ("docker.io/library/debian:bookworm-slim", "debian-12"),
        ("docker.io/library/ubuntu:24.04", "ubuntu-24.04"),
        ("docker.io/library/ubuntu:noble-20250101", "ubuntu-24.04"),
        ("docker.io/rocm/dev-ubuntu-22.04:7.2.4-complete", "ubuntu-22.04"),
        ("docker.io/rocm/pytorch:rocm7.2_ubuntu24.04_py3.12", "ubuntu-24.04"),
        ("registry.example/team/base:1", None),
    ],
)
def test_the_distribution_of_a_published_base_is_in_its_name(image: str, base: str | None) -> None:
    assert imagefacts.distribution_of(recipe(f"{image}@sha256:{DIGEST}")) == base


def test_the_longest_pattern_says_what_a_base_carries() -> None:
    plain = carried(f"docker.io/rocm/dev-ubuntu-24.04:7.2.4@sha256:{DIGEST}")
    complete = carried(f"mirror.example/hub/rocm/dev-ubuntu-24.04:7.2.4-complete@sha256:{DIGEST}")
    assert plain is not None
    assert complete is not None
    assert "rocm-dev" in plain
    assert set(complete) > set(plain)
    assert carried(f"registry.example/team/base:1@sha256:{DIGEST}") is None


def test_what_torch_asks_for_is_read_from_its_wheel_once(workspace: Workspace) -> None:
    of = recipe()
    path = workspace.root / "torch.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            "torch-2.11.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n"
            "Requires-Dist: triton==3.6.0; sys_platform == 'linux'\n"
            "Requires-Dist: numpy; extra == 'all'\nRequires-Dist: old; python_version < '3.12'\n",
        )
    sha256 = sha256_of(path)
    locked = lock(of, PythonFile(project="torch", version="2.11.0", file="t", sha256=sha256, layer="torch"))
    assert asks(workspace, of, locked, ("torch", "vllm")) == {}
    Store(workspace.store).add(path, sha256)
    assert asks(workspace, of, locked, ("torch", "vllm")) == {"torch": {"triton": "==3.6.0"}}
    Store(workspace.store).path(sha256).unlink()
    assert asks(workspace, of, locked, ("torch",)) == {"torch": {"triton": "==3.6.0"}}
