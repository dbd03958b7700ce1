"""A real engine image to test, variants of it that each have one real fault, and a look at what runs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from builder import process
from builder.engine.client import connect
from builder.engine.containers import RUN_LABEL
from builder.smoke.contract import OF_EVERY_IMAGE, ComponentVersion, Contract
from builder.smoke.run import SmokeReport, SmokeTest, run_smoke
from builder.story import Silent

IMAGE_VARIABLE = "ROCM_IMAGES_TEST_IMAGE"
RUNTIME = (
    "g++", "hipcc", "libssl-dev", "ninja-build", "pybind11-dev", "python3", "python3-dev", "python3-setuptools",
    "python3-torch",
)  # fmt: skip

Run = Callable[..., SmokeReport]


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    found = connect()
    yield found
    found.close()


@pytest.fixture(scope="session")
def image(request: pytest.FixtureRequest) -> str:
    """The reference of an sglang-debian image that was built from its recipe: a given one, or one built now."""
    if given := os.environ.get(IMAGE_VARIABLE):
        return given
    _, built = request.getfixturevalue("sglang_debian")
    return str(built.result.partition("@")[0])  # as the engine lists its containers


@pytest.fixture(scope="session")
def sound(image: str, client: docker.DockerClient) -> Contract:
    """What that image promises, from what it says of itself."""
    config: dict[str, Any] = client.images.get(image).attrs["Config"]
    env = dict(entry.split("=", 1) for entry in config["Env"])
    return Contract(
        image="sglang-debian",
        user=config["User"],
        workdir=config["WorkingDir"],
        env=env,
        writable=tuple(config["Labels"]["rocm-images.writable"].split(",")),
        gfx=("gfx1100",),
        components=(
            ComponentVersion(name="torch", version="2.6.0", distribution="torch", apt="python3-torch"),
            ComponentVersion(name="triton", version="3.6.0", distribution="triton"),
            ComponentVersion(name="sglang", version="0.5.16", distribution="sglang"),
            ComponentVersion(name="hipcc", version="5.7.1", apt="hipcc"),
        ),
        imports=("sglang", "torch", "triton"),
        absent=("aiter", "nvidia-cublas-cu12"),
        jit=("sglang-hash", "triton", "hipcc"),
        triton_gfx=("gfx1100", "gfx1201"),
        hip_gfx=("gfx1100",),
        packages={"base.build": ("g++", "hipcc", "python3"), "base.runtime": RUNTIME},
        shm="1g",
    )


@pytest.fixture(scope="session")
def only(sound: Contract) -> Callable[..., Contract]:
    """Return the contract cut down to what one test is about, so that it takes seconds."""

    def cut(*jit: str, without: str | None = None, build: str | None = None, **changes: Any) -> Contract:
        runtime = tuple(package for package in RUNTIME if package != without)
        packages = {"base.build": ("g++", *([build] if build else [])), "base.runtime": runtime}
        bare = {
            "components": (),
            "imports": (),
            "absent": (),
            "jit": jit,
            "triton_gfx": ("gfx1100",),
            "packages": packages,
            "silent": dict.fromkeys(OF_EVERY_IMAGE, "this test is about something else"),
        }
        fields = {name: getattr(sound, name) for name in Contract.__dataclass_fields__}
        return Contract(**(fields | bare | changes))

    return cut


@pytest.fixture(scope="session")
def references(image: str) -> set[str]:
    """The images that these tests run; the engine may be busy with others of somebody else."""
    return {image}


@pytest.fixture(scope="session")
def forge(image: str, references: set[str]) -> Iterator[Callable[..., str]]:
    """Build an image from the sound one with some more instructions, as root, and go back to its user."""
    made: dict[tuple[str, ...], str] = {}

    def build(*instructions: str, user: str = "1000:1000") -> str:
        key = (*instructions, user)
        if key not in made:
            made[key] = f"rocm-images-forged-{secrets.token_hex(6)}:1"
            dockerfile = "\n".join([f"FROM {image}", "USER 0:0", *instructions, f"USER {user}", ""])
            done = process.run(
                ["docker", "build", "-q", "--network", "none", "-t", made[key], "-"], stdin=dockerfile
            )
            assert done.status == 0, done.stderr
            references.add(made[key])
        return made[key]

    yield build
    for tag in made.values():
        process.run(["docker", "image", "rm", "--force", tag])


@pytest.fixture
def smoke(tmp_path: Path) -> Run:
    """Run the suite and return its report."""

    def run(image: str, contract: Contract, **more: Any) -> SmokeReport:
        return run_smoke(image, contract, results=tmp_path / "results", story=Silent(), **more)

    return run


@pytest.fixture
def ours(client: docker.DockerClient, references: set[str]) -> Iterator[Callable[[], list[str]]]:
    """Return the names of the containers that these tests have running; a test must leave none."""

    def names() -> list[str]:
        found = client.api.containers(all=True, filters={"label": RUN_LABEL})
        return [entry["Names"][0].lstrip("/") for entry in found if entry["Image"] in references]

    assert names() == []
    yield names
    assert names() == []


def failed(report: SmokeReport, title: str) -> SmokeTest:
    """Return the failed test with this title; its finding must be there."""
    found = next((test for test in report.failed if test.title == title), None)
    assert found is not None, [(test.title, test.finding) for test in report.failed]
    assert found.finding is not None
    return found
