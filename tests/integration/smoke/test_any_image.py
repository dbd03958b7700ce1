"""Images that this project did not build: a bootstrapped Debian, and one from a Dockerfile that somebody wrote."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from builder.mirrors import load_mirrors

from ..project import COMMAND, REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.network]

DOCKERFILE = """
FROM {base}
RUN useradd --create-home --uid 1234 server \\
 && printf '#!/bin/sh\\nexec "$@"\\n' > /usr/local/bin/serve && chmod 755 /usr/local/bin/serve
{more}
USER server
ENTRYPOINT ["serve"]
CMD ["python3", "--version"]
"""
FAULTS = """
RUN mkdir -p /opt/engine/.git && printf 'ref: refs/heads/main' > /opt/engine/.git/HEAD
RUN install -D /dev/null /home/server/.cache/torch_extensions/py313_cpu/hash/lock
RUN rm /usr/local/bin/serve
ENV HSA_OVERRIDE_GFX_VERSION= SCCACHE_BUCKET=builds
"""
NO_PYTHON = "there is no python3 on the PATH of the image, which probes need"
NO_RECIPE = "the image comes without a recipe, and nothing in it says this"
RECIPE = """
schema = 1
name = "served"
description = "What a hand-written image is held to"
gfx = ["gfx1100"]
python = "3.13"

[base.build]
debian = { suite = "trixie" }

[base.runtime]
debian = { suite = "trixie" }
apt = ["python3"]

[image]
user = "server"
uid = 1234
workdir = "/"
env = { HOME = "/tmp/home" }

[smoke]
argv = ["python3", "--version"]
paths = ["/usr/local/bin/serve", "/opt/rocm/bin/rocminfo"]
"""
Test = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def debian(client: docker.DockerClient) -> Iterator[Callable[..., str]]:
    """Bootstrap a minimal Debian with some packages, and import it: no recipe, no labels, no command."""
    made: dict[tuple[str, ...], str] = {}

    def bootstrap(*packages: str) -> str:
        if packages not in made:
            mirror = load_mirrors(REPOSITORY).debian_mirror()
            name = f"rocm-images-forged-{secrets.token_hex(6)}:1"
            include = [f"--include={','.join(packages)}"] if packages else []
            relaxed = ['--aptopt=Acquire::Check-Valid-Until "false"']
            done = subprocess.run(
                ["mmdebstrap", "--quiet", "--variant=minbase", *include, *relaxed, "trixie", "-", mirror.url],
                capture_output=True, check=True,
            )  # fmt: skip
            client.api.import_image_from_data(done.stdout, repository=name.partition(":")[0], tag="1")
            made[packages] = name
        return made[packages]

    yield bootstrap
    for name in made.values():
        client.images.remove(name, force=True)


@pytest.fixture(scope="module")
def written(client: docker.DockerClient, debian: Callable[..., str]) -> Iterator[Callable[[str], str]]:
    """Build an image from a Dockerfile that knows nothing of this project."""
    made: list[str] = []

    def build(more: str) -> str:
        name = f"rocm-images-forged-{secrets.token_hex(6)}:1"
        text = DOCKERFILE.format(base=debian("python3"), more=more)
        subprocess.run(["docker", "build", "-q", "-t", name, "-"], input=text, text=True, check=True)
        made.append(name)
        return name

    yield build
    for name in made:
        client.images.remove(name, force=True)


@pytest.fixture
def run(tmp_path: Path) -> Test:
    """Run `rocm-images test` in a folder that is no project."""
    env = {name: value for name, value in os.environ.items() if name != "GITHUB_ACTIONS"}

    def test(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, "test", *words], cwd=tmp_path, capture_output=True, text=True, check=False, env=env
        )

    return test


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    assert done.stdout, done.stderr
    return {test["title"]: test for test in json.loads(done.stdout)["tests"]}


def test_a_bootstrapped_debian_is_tested_as_far_as_anything_is_known(
    run: Test, debian: Callable[..., str], tmp_path: Path
) -> None:
    done = run(debian(), "--json", "--results", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    found = outcomes(done)
    passed = {title for title, test in found.items() if test["outcome"] == "passed"}
    assert passed == {
        "no variable is set that must not be", "nothing is in the image that must not ship",
        "no cache came along with the image",
    }  # fmt: skip
    assert {test["outcome"] for title, test in found.items() if title not in passed} == {"not run"}
    assert all(test["finding"]["cause"] for title, test in found.items() if title not in passed)
    assert found["the module imports"]["finding"]["cause"] == NO_PYTHON
    assert found["the version equals the pin"]["finding"]["cause"] == NO_RECIPE
    assert found["the program that it starts is in the image"]["finding"]["cause"] == (
        "the image has neither ENTRYPOINT nor CMD"
    )
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["smoke.json", "smoke.log", "smoke.xml"]


def test_an_image_of_this_program_is_held_to_its_manifest_where_its_recipe_is_not_at_hand(
    run: Test, image: str
) -> None:
    done = run(image, "--json")
    assert done.returncode == 0, done.stderr
    found = outcomes(done)
    requirements = found["declared requirements are met"]
    assert requirements["outcome"] == "not run"
    assert requirements["finding"]["cause"].endswith("is in the recipe: name it with --recipe")
    for title in ("the variables are the declared ones", "the image runs as the declared user"):
        assert found[title]["outcome"] == "passed"


def test_a_sound_image_from_a_dockerfile_passes_what_it_can_be_held_to(
    run: Test, written: Callable[[str], str]
) -> None:
    done = run(written("ENV PYTORCH_ROCM_ARCH=gfx1100"), "--json")
    assert done.returncode == 0, done.stderr
    found = outcomes(done)
    passed = {title for title, test in found.items() if test["outcome"] == "passed"}
    assert passed >= {
        "the program that it starts is in the image", "every compiled part has code for the gpus",
        "every needed library is found", "declared requirements are met", "there is no network",
        "nothing is in the image that must not ship",
    }  # fmt: skip
    assert found["triton compiles a kernel from a cold cache"]["finding"]["cause"] == (
        "there is no triton in the image"
    )
    assert found["the variables are the declared ones"]["outcome"] == "not run"


def test_what_is_wrong_with_an_image_from_a_dockerfile_is_named(run: Test, written: Callable[[str], str]) -> None:
    done = run(written(FAULTS))
    assert done.returncode == 6
    for cause in (
        "HSA_OVERRIDE_GFX_VERSION is set: even empty, it makes the runtime take the card for another one",
        "SCCACHE_BUCKET is set: a cache of the build's compiler",
        "/opt/engine/.git must not ship: a git repository, 20 bytes",
        "/home/server/.cache/torch_extensions/py313_cpu/hash/lock is in the image: a lock file",
        "the program serve, which the image starts, is not in it",
    ):
        assert cause in done.stdout
        assert cause.partition(":")[0] in done.stderr


def test_an_image_built_elsewhere_is_held_to_a_recipe_that_is_a_file(
    run: Test, written: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    image = written("RUN rm -rf /tmp && mkdir -m 1777 /tmp\nENV HOME=/tmp/home\nWORKDIR /")
    done = run(image, "--recipe", "recipe.toml", "--json")
    found = outcomes(done)
    assert done.returncode == 6
    assert [title for title, test in found.items() if test["outcome"] == "failed"] == [
        "the path exists (/opt/rocm/bin/rocminfo)"
    ]
    for title in ("the command ends well (as declared)", "the command ends well (as another user)",
                  "the image runs as the declared user", "nothing else is writable"):  # fmt: skip
        assert found[title]["outcome"] == "passed", found[title]
    assert found["the label tells how to run the image (rocm-images.gfx)"]["outcome"] == "not run"


def test_an_image_of_a_registry_is_pulled_where_the_engine_does_not_have_it(
    run: Test, written: Callable[[str], str], registry: str, client: docker.DockerClient
) -> None:
    name = f"{registry}/test-{secrets.token_hex(6)}/served"
    local = client.images.get(written(""))
    local.tag(name, tag="1")
    client.images.push(name, tag="1")
    client.images.remove(f"{name}:1")
    try:
        done = run(f"{name}:1", "--json")
        assert done.returncode == 0, done.stderr
        assert "pulling" in done.stderr
        assert json.loads(done.stdout)["image"] == f"{name}:1"
    finally:
        client.images.remove(f"{name}:1", force=True)


def test_an_image_that_is_nowhere_is_no_verdict(run: Test, registry: str) -> None:
    done = run("nothing-of-that-name")
    assert done.returncode == 8
    assert "neither an image of this project nor one in the engine" in done.stderr
    gone = run(f"{registry}/nothing/there:1")
    assert gone.returncode == 8
    assert "the registry does not give it" in gone.stderr


def test_a_required_gpu_tier_refuses_where_there_is_no_card(run: Test, debian: Callable[..., str]) -> None:
    done = run(debian(), "--require", "gpu")
    assert done.returncode == 6
    assert (
        "the gpu tier of the smoke tests is required and was not run: this machine has no /dev/kfd" in done.stderr
    )
    assert run(debian(), "--require", "gpo").returncode == 2
