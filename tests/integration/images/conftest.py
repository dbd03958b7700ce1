"""The recipes for production on loopback: what they name is stood in for, and pinned to what stands in."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
import tomli

from builder.mirrors import load_mirrors
from builder.sources.index import LockedFile, fetch_wheels
from builder.sources.store import Store
from builder.story import Silent

from ..conftest import forget, removed_afterwards
from ..project import REPOSITORY, Ended, Project, make_project
from . import standins

IMAGES = REPOSITORY / "images"
SGLANG, VLLM = "sglang-gfx1201", "vllm-gfx1201"
ROCM = "rocm/dev-ubuntu-24.04"
SERIES = "mattbucci/2x-R9700-RDNA4-GFX1201-sglang-inference"
Recipe = dict[str, Any]
Change = Callable[[Recipe], None]
_UNWANTED = (
    ("flashinfer-python", "0.6.14"), ("kernels", "0.14.2"), ("nvidia-cublas", "13.1"), ("nvidia-ml-py", "13.0")
)  # fmt: skip
# What the two edits are made in, and what HiCache compiles, is the engine's own text.
_REAL = (
    "sglang/jit_kernel/kvcache.py", "sglang/srt/layers/sampler.py",
    "sglang/srt/mem_cache/cpp_utils/native_hash.py", "sglang/srt/mem_cache/cpp_utils/hash_binding.cpp",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class World:
    """What is reached by the names that recipes have: a folder of repositories and indexes, and images."""

    folder: Path
    hub: str
    digests: dict[str, str]
    commits: dict[str, str]
    repositories: dict[str, standins.Repository]

    def index(self, name: str) -> Path:
        return self.folder / name

    def listed(self) -> None:
        for name in ("simple", "whl/rocm7.2"):
            standins.listed(self.index(name))

    def pinned(self, recipe: Recipe) -> None:
        """Fill a recipe in as Renovate and whoever closes its open pins do; and say what is otherwise here."""
        for base in recipe["base"].values():
            name, _, _ = base["image"].partition("@")
            base["image"] = f"{name}@{self.digests[name]}"
        for source in recipe["source"].values():
            if "git" in source:
                source["commit"] = self.commits[source["git"].removeprefix("https://github.com/")]
        for patch in recipe["patch"]:
            if patch.get("series", {}).get("source") is not None:
                patch["series"]["made-for"] = self.commits["sgl-project/sglang"]
        del recipe["open"]
        recipe["python"] = "3.11"
        recipe["build"]["disk"] = "1g"
        del recipe["smoke"]["jit"]  # there is no compiler

    def project(self, made: Project) -> Project:
        """Let a project get everything from here."""
        (made.workspace.root / "mirrors.toml").write_text(
            f'[registries]\n"docker.io" = "{self.hub}"\n'
            f'[git]\n"https://github.com" = "{(self.folder / "git").as_uri()}"\n'
            f'[indexes]\ndefault = "{self.index("simple").as_uri()}"\n'
            f'"https://download.pytorch.org/whl" = "{(self.folder / "whl").as_uri()}"\n'
        )
        made.env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "UV_FIND_LINKS": ""}
        shutil.copytree(REPOSITORY / "patches", made.workspace.root / "patches")
        return made


@pytest.fixture(scope="session")
def world(
    registry: str, store: Path, engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder, hub = tmp_path_factory.mktemp("world"), f"{registry}/hub-{secrets.token_hex(4)}"
    recipes = {name: tomli.loads((IMAGES / name / "recipe.toml").read_text()) for name in (SGLANG, VLLM)}
    _indexes(folder, store, recipes)
    repositories, commits = _repositories(folder, store)
    made = World(folder=folder, hub=hub, digests={}, commits=commits, repositories=repositories)
    made.listed()
    try:
        made.digests.update(_bases(folder, hub, store, recipes))
        yield made
    finally:
        forget(engine, f"{hub}/")


def _indexes(folder: Path, store: Path, recipes: dict[str, Recipe]) -> None:
    rocm, default = folder / "whl/rocm7.2", folder / "simple"
    asks = ["triton==3.6.0", "typing-extensions"]
    standins.wheel(rocm, "torch", "2.11.0+rocm7.2", standins.tree("wheels/torch"), asks)
    standins.wheel(rocm, "torchvision", "0.26.0+rocm7.2", standins.tree("wheels/torchvision"), ["torch==2.11.0"])
    standins.wheel(rocm, "torchaudio", "2.11.0+rocm7.2", standins.tree("wheels/torchaudio"), ["torch==2.11.0"])
    standins.wheel(rocm, "triton", "3.6.0", standins.tree("wheels/triton"))
    # What must not get in, newer than what is meant, or asked for by the metadata of an engine.
    standins.wheel(rocm, "triton", "3.6.1.dev20260901", {"triton/__init__.py": b""})
    cuda = standins.tree("wheels/torch") | standins.tree("wheels/cuda-torch")
    standins.wheel(default, "torch", "2.13.0", cuda, ["nvidia-cublas==13.1", "triton==3.8.0"])
    standins.wheel(default, "triton", "3.8.0", {"triton/__init__.py": b'__version__ = "3.8.0"\n'})
    for project, version in _UNWANTED:
        standins.wheel(default, project, version, {f"{project.replace('-', '_')}/__init__.py": b""})
    standins.sdist(default, "vllm", "0.28.0", standins.tree("vllm"))
    standins.sdist(default, "flash-attn", "2.8.3.post2", standins.tree("flash-attn"))
    standins.backends(default, store)
    for recipe in recipes.values():
        named = {component["name"] for component in recipe["component"]}
        for component in recipe["component"]:
            asked = [*component.get("requires", ()), *component.get("build-requires", ())]
            standins.anything(default, [each for each in asked if each not in named])
            if "wheel" in component and "index" not in component:
                standins.anything(default, [f"{component['wheel']}=={component['version']}"])
    for name in ("rocm.txt", "common.txt"):
        lines = (standins.STAND_INS / "vllm/requirements" / name).read_text().splitlines()
        standins.anything(default, [line for line in lines if not line.startswith("-r")])


def _repositories(folder: Path, store: Path) -> tuple[dict[str, standins.Repository], dict[str, str]]:
    made = {
        name: standins.repository(folder / "git", name)
        for name in ("sgl-project/sglang", SERIES, "ROCm/aiter", "ROCm/triton")
    }
    kernels = {f"hsa/{target}/k.co": standins.code_object(target) for target in ("gfx942", "gfx950")}
    commits = {
        "sgl-project/sglang": made["sgl-project/sglang"].commit(
            standins.tree("sglang") | _real_sglang(store), tag="v0.5.16"
        ),
        SERIES: made[SERIES].commit(standins.tree("rdna4")),
        "ROCm/aiter": made["ROCm/aiter"].commit(standins.tree("aiter") | kernels, tag="v0.1.21.post1"),
        "ROCm/triton": made["ROCm/triton"].commit(standins.tree("triton"), branch="release/internal/3.6.x"),
    }
    return made, commits


def _real_sglang(store: Path) -> dict[str, bytes]:
    """Return files of the engine itself, with the packages around them."""
    (file,) = standins.shipped_lock("sglang-debian").wheels("sglang")
    wanted = LockedFile(project=file.project, filename=file.file, sha256=file.sha256, size=file.size)
    found = fetch_wheels(
        [wanted], store=Store(store), mirrors=load_mirrors(REPOSITORY, None), story=Silent()
    )[file.sha256]  # fmt: skip
    with zipfile.ZipFile(found) as archive:
        files = {f"python/{name}": archive.read(name) for name in _REAL}
    folders = {parent for name in files for parent in Path(name).parents if len(parent.parts) > 2}
    return {f"{folder}/__init__.py": b"" for folder in folders} | files


def _bases(folder: Path, hub: str, store: Path, recipes: dict[str, Recipe]) -> dict[str, str]:
    """Make both bases of ROCm, push them under their names, and return their digests."""
    root, context = folder / "root.tar", folder / "base"
    standins.root_file_system(store, root)
    asked = [name for recipe in recipes.values() for base in recipe["base"].values() for name in base["apt"]]
    standins.rocm_files(context / "files", asked)
    (context / "Dockerfile").write_text("FROM scratch\nADD root.tar /\nCOPY files/ /\n")
    root.rename(context / "root.tar")
    digests = {}
    for tag in ("7.2.4", "7.2.4-complete"):
        there = f"{hub}/{ROCM}:{tag}"
        with (context / "Dockerfile").open("a") as lines:
            lines.write(f'LABEL stand-in="{tag}"\n')
        _docker("build", "--quiet", "--tag", there, str(context))
        _docker("push", "--quiet", there)
        named = _docker("image", "inspect", "--format", "{{index .RepoDigests 0}}", there)
        digests[f"docker.io/{ROCM}:{tag}"] = named.strip().partition("@")[2]
    (context / "root.tar").unlink()
    return digests


def _docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def projects(
    world: World, namespace: Callable[[], str], shared: dict[str, Path], engine: docker.DockerClient
) -> Iterator[Callable[[str, Change | None], Project]]:
    """Make projects with one of the recipes, pinned to the stand-ins and changed."""
    with removed_afterwards(engine) as made:

        def project(image: str, change: Change | None = None) -> Project:
            new = world.project(make_project(namespace(), shared))
            made.append(new)

            def pinned(recipe: Recipe) -> None:
                world.pinned(recipe)
                if change is not None:
                    change(recipe)

            new.add(image, IMAGES / image, pinned)
            return new

        yield project


@pytest.fixture(scope="module", params=[SGLANG, VLLM])
def built(
    request: pytest.FixtureRequest, projects: Callable[[str, Change | None], Project]
) -> tuple[str, Project, Ended]:
    """One of the recipes, locked, built, tested and published; and what the build said."""
    image = str(request.param)
    project = projects(image, None)
    project.done("lock", image)
    ended = project.build(image)
    assert ended.status == 0, ended.stderr
    return image, project, ended
