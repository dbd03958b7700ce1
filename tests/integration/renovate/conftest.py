"""The real Renovate, run on this repository, on a made-up one of every kind of pin, and on all recipes there are.

Everything it asks for is on loopback. What made-up recipes have as hashes and commits is filled in here.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.ci import commits
from builder.story import Silent

from ..project import REPOSITORY
from . import upstreams
from .forge import Forge, Hosted, Release, served
from .tool import Ran, Tool, installed, run
from .upstreams import Upstream

MADE_UP = REPOSITORY / "tests/data/renovate"
OWN, RECIPES, EVERY = "example/rocm-images", "example/recipes", "example/every-recipe"
# Branches that the bump workflow commits a lock to between the runs; for one, something newer is there then.
LOCKED, LOCKED_AND_MOVED = "renovate/image-sglang-rocm", "renovate/image-vllm-rocm"
DEFAULT_INDEX = "default/simple"
NEW_ACTION = "ac" * 20
_USES = re.compile(r"uses: ([\w-]+/[\w-]+)@([0-9a-f]{40}) # (v[0-9.]+)")
_EVERY_SETTINGS = """{
  "extends": ["config:recommended", "local>example/rocm-images"],
  "packageRules": [{ "matchPackageNames": ["*"], "enabled": false }]
}
"""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What Renovate was run on, and what both runs came to. `real` has what stands in for what is made up.

    `proposed` are the changed lines of files after the first run, by repository and branch.
    """

    forge: Forge
    first: Ran
    second: Ran
    proposed: dict[tuple[str, str], dict[str, list[str]]]
    before_second: dict[str, dict[str, str]]
    written_by_first: int
    real: dict[str, str]

    def filled(self, text: str) -> str:
        """Fill in the real hashes, commits and addresses."""
        return _filled(text, self.real)


def _filled(text: str, real: dict[str, str]) -> str:
    pattern = re.compile("|".join(map(re.escape, sorted(real, key=len, reverse=True))))
    return pattern.sub(lambda match: real[match[0]], text)


@pytest.fixture(scope="session")
def renovate() -> Tool:
    """The real Renovate, as tests/data/renovate-tool pins it."""
    return installed()


@pytest.fixture(scope="session")
def scene(renovate: Tool, registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("renovate")
    upstream = Upstream(folder=folder)
    with served(Forge()) as forge:
        namespace = f"test-{secrets.token_hex(6)}"
        real = _upstreams(forge, upstream, registry, namespace)
        for name, files in (
            (OWN, _tracked(lambda path: not path.startswith("tests/integration/"))),
            (RECIPES, _made_up(real)),
            (EVERY, _every_recipe()),
        ):
            forge.hosted[name] = Hosted(bare=upstream.hosted(name, files))
        settings = _settings(forge, registry, namespace)

        def once(word: str, *names: str) -> Ran:
            return run(
                renovate, names, folder=folder / word, home=upstream.home, forge=forge.address,
                index=f"{forge.address}/{DEFAULT_INDEX}/", settings=settings,
            )  # fmt: skip

        first = once("first", OWN, RECIPES, EVERY)
        proposed = {
            (name, branch): hosted.changes(branch)
            for name, hosted in forge.hosted.items()
            for branch in hosted.branches()
        }
        for branch in (LOCKED, LOCKED_AND_MOVED):
            _as_the_bump_workflow(upstream, forge.hosted[RECIPES], branch)
        upstreams.listed(forge, DEFAULT_INDEX, "transformers", ["4.57.1", "4.58.0", "4.59.0"])
        before_second = {name: hosted.branches() for name, hosted in forge.hosted.items()}
        written = len(forge.written)
        second = once("second", OWN, RECIPES)
        yield Scene(
            forge=forge, first=first, second=second, proposed=proposed, before_second=before_second,
            written_by_first=written, real=real,
        )  # fmt: skip


def _upstreams(forge: Forge, upstream: Upstream, registry: str, namespace: str) -> dict[str, str]:
    """Make every upstream; return what stands in for the made-up values of the recipes."""
    sglang = upstream.repository("sgl-project/sglang", ["v0.5.16", "v0.5.17", "v0.6.0rc1"], annotated=True)
    rdna4 = upstream.repository("example/sglang-rdna4", ["before"])
    kernels = upstream.repository(
        "ROCm/aiter", ["v0.1.21.post1", "v0.1.22", "v0.1.22.post2", "v0.1.23.dev1", "rocm-9.0.0"]
    )
    triton = upstream.repository(
        "ROCm/triton", ["rocm-3.6.0", "rocm-3.7.0", "rocm-3.8.0-rc1", "v9.0.0"], branch="release/internal/3.6.x"
    )
    series = upstream.repository("mattbucci/2x-R9700-RDNA4-GFX1201-sglang-inference", [])
    rocshmem = upstream.repository("ROCm/rocSHMEM", ["25.9.1-0", "26.3.2-3", "26.3.2-10", "26.3.2-4"])
    moved = upstream.repository("example/moved", ["v1.0.0", "nightly"])
    base = upstreams.push(
        registry, f"{namespace}/rocm/dev-ubuntu-24.04",
        ["7.2.4", "7.2.4-complete", "7.2.5", "7.2.5-complete", "7.3.0-rc1", "8.0.0-other", "latest"],
    )  # fmt: skip
    nightly = upstreams.push(registry, f"{namespace}/vllm/vllm-openai-rocm", ["nightly"])
    engine = upstreams.push(
        registry, f"{namespace}/llm/sglang-rocm", ["nightly", "0.5.16-3ad9b88cfd8e", "0.5.17-0123456789ab"]
    )
    _indexes(forge)
    old, new = b"the old one", b"the new one"
    forge.releases["ROCm/aotriton"] = [
        upstreams.release(f"v{version}", f"{version}-shared", aotriton=content)
        for version, content in (("0.11.1", old), ("0.12.0", new), ("0.13.0b1", b"newest"), ("0.9.2", b"older"))
    ]
    for action, commit, version in actions():
        major, minor = version.split(".")[:2]
        successor = Release(tag=f"{major}.{int(minor) + 1}.0", commit=NEW_ACTION)
        forge.releases[action] = [Release(tag=version, commit=commit), successor]
    return {
        f"sha256:{1:064}": base["7.2.4-complete"], "NEW-BUILD-BASE": base["7.2.5-complete"],
        f"sha256:{2:064}": base["7.2.4"], "NEW-RUNTIME-BASE": base["7.2.5"],
        f"sha256:{4:064}": base["latest"].replace(base["latest"][-8:], "0" * 8),
        f"sha256:{41:064}": base["7.2.4"], "NEW-NIGHTLY": engine["nightly"],
        f"sha256:{42:064}": engine["0.5.16-3ad9b88cfd8e"],
        f"{11:040}": sglang["v0.5.16"], "NEW-SGLANG": sglang["v0.5.17"],
        f"{12:040}": rdna4["before"], "NEW-RDNA4": rdna4["main"],
        f"{13:040}": kernels["v0.1.21.post1"], "NEW-AITER": kernels["v0.1.22.post2"],
        f"{14:040}": triton["rocm-3.6.0"], "NEW-TRITON": triton["rocm-3.7.0"],
        "NEW-TRITON-KERNELS": triton["main"], "NEW-SERIES": series["main"],
        "NEW-VLLM-NIGHTLY": nightly["nightly"],
        f"{15:040}": rocshmem["26.3.2-3"], "NEW-ROCSHMEM": rocshmem["26.3.2-10"],
        f"{21:040}": moved["main"], f"{22:040}": moved["nightly"],
        f"{3:064}": hashlib.sha256(old).hexdigest(), "NEW-AOTRITON": hashlib.sha256(new).hexdigest(),
        "https://wheels.example": forge.address,
    }  # fmt: skip


def _indexes(forge: Forge) -> None:
    """List wheels and sdists: for each project the version that is pinned, its successor, and what is none."""
    rocm = "whl/rocm7.2"
    upstreams.listed(
        forge, rocm, "torch",
        ["2.11.0+rocm7.2", "2.12.0+rocm7.2", "2.12.0+rocm7.1", "2.13.0.dev1+rocm7.2", "2.14.0+cpu", "2.15.0"],
    )  # fmt: skip
    upstreams.listed(forge, rocm, "torchvision", ["0.26.0+rocm7.2", "0.27.0+rocm7.2", "0.28.0+cpu"])
    upstreams.listed(forge, rocm, "torchaudio", ["2.11.0+rocm7.2", "2.12.0+rocm7.2", "2.13.0"])
    upstreams.listed(forge, rocm, "triton", ["3.6.0", "3.7.0", "3.8.0+rocm7.2"])
    upstreams.listed(forge, DEFAULT_INDEX, "amdsmi", ["7.0.1", "7.0.2", "7.0.3"])
    upstreams.listed(forge, DEFAULT_INDEX, "flash-attn", ["2.8.3", "2.8.3.post2", "2.8.4"])
    upstreams.flat(
        forge, "flat",
        {
            "torchaudio": ["2.11.0+rocm7.2.0.lw.git1a2b3c4d", "2.12.0+rocm7.2.0.lw.git5e6f7a8b", "2.13.0+rocm7.1"],
            "torchaudio-extra": ["9.0.0+rocm7.2.0"],
        },
    )  # fmt: skip
    upstreams.listed(forge, "simple", "vllm", ["0.28.0", "0.29.0", "0.30.0rc1"])
    upstreams.listed(forge, DEFAULT_INDEX, "vllm", ["0.27.0", "0.28.0", "0.33.0", "0.34.0rc2"])
    upstreams.listed(forge, DEFAULT_INDEX, "sglang", ["0.5.15", "0.5.16", "0.5.17.post1", "0.6.0.dev3"])
    upstreams.listed(forge, DEFAULT_INDEX, "triton", ["3.6.0", "3.8.0", "3.9.0", "3.9.1+rocm7.2"])
    upstreams.listed(forge, DEFAULT_INDEX, "transformers", ["4.57.1", "4.58.0", "5.0.0rc1", "5.0.0+local"])
    upstreams.listed(forge, DEFAULT_INDEX, "newest", ["1.4", "1.5", "1.6.dev1", "1.6+cpu"])
    upstreams.listed(forge, "cpu", "torch", ["2.12.0+cpu", "2.13.0+cpu", "2.14.1+cpu", "2.15.0", "2.15.0+cu130"])


def _as_the_bump_workflow(upstream: Upstream, hosted: Hosted, branch: str) -> None:
    """Commit a lock to a branch, as the workflow does that judges what Renovate proposes."""
    work = upstream.folder / "checkouts" / branch
    work.parent.mkdir(parents=True, exist_ok=True)
    upstream.git(work.parent, "clone", "--quiet", "--branch", branch, str(hosted.bare), str(work))
    (work / "images" / branch.removeprefix("renovate/image-") / "recipe.lock").write_text("# made anew\n")
    assert commits.commit(work, ["images"], message="Lock what was bumped") is not None
    assert commits.push(work, branch, token=None, story=Silent())


def _settings(forge: Forge, registry: str, namespace: str) -> dict[str, object]:
    """Return the settings of whoever runs Renovate: where everything is that recipes have by public addresses."""
    own = f"{registry}/{namespace}/"
    return {
        "onboarding": False, "githubTokenWarn": False, "fetchChangeLogs": "off", "repositoryCache": "disabled",
        "gitAuthor": "bot <bot@example.com>",
        "hostRules": [
            {"matchHost": "127.0.0.1", "allowInternal": True},
            {"matchHost": f"https://{registry}", "hostType": "docker", "insecureRegistry": True},
            {"matchHost": forge.address, "token": "none"},
        ],
        "packageRules": [
            {"matchPackageNames": ["docker.io/rocm/**", "docker.io/vllm/**"],
             "overridePackageName": f"{{{{{{replace 'docker.io/' '{own}' packageName}}}}}}"},
            {"matchPackageNames": ["ghcr.io/example/**"],
             "overridePackageName": f"{{{{{{replace 'ghcr.io/example/' '{own}' packageName}}}}}}"},
            {"matchDatasources": ["github-releases", "github-release-attachments", "github-tags"],
             "registryUrls": [forge.address]},
            # What runners there are, and since when, is built into Renovate.
            {"matchDatasources": ["github-runners"], "enabled": False},
            # PyTorch's own index for CPUs, which shipped recipes name.
            {"matchPackageNames": ["torch"], "matchFileNames": ["images/vllm-debian*/**"],
             "registryUrls": [f"{forge.address}/cpu/"]},
            # Its index for ROCm.
            {"matchPackageNames": ["torch", "torchaudio", "torchvision", "triton"],
             "matchFileNames": ["images/sglang-gfx1201/**", "images/vllm-gfx1201/**"],
             "registryUrls": [f"{forge.address}/whl/rocm7.2/"]},
        ],
    }  # fmt: skip


def _tracked(wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the files of this repository, as they are now."""
    listed = subprocess.run(
        ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [name for name in listed.stdout.split("\0") if name and wanted(name)]
    return {name: (REPOSITORY / name).read_bytes() for name in names if (REPOSITORY / name).is_file()}


def _made_up(real: dict[str, str]) -> dict[str, bytes]:
    return {
        str(path.relative_to(MADE_UP)): _filled(path.read_text(encoding="utf-8"), real).encode()
        for path in MADE_UP.rglob("*")
        if path.is_file()
    }


def actions() -> set[tuple[str, str, str]]:
    """Return the actions that this repository uses: action, commit, version."""
    found: set[tuple[str, str, str]] = set()
    for path in (REPOSITORY / ".github").rglob("*.yml"):
        found.update(_USES.findall(path.read_text(encoding="utf-8")))
    return found


def _every_recipe() -> dict[str, bytes]:
    """Return a repository of every recipe here that can be read: shipped ones, and those of other tests."""
    files = {"renovate.json": _EVERY_SETTINGS.encode()}
    for folder in every_recipe():
        files[f"images/{folder.parent.name}-{folder.name}/recipe.toml"] = (folder / "recipe.toml").read_bytes()
    return files


def every_recipe() -> list[Path]:
    """Return the folders of all recipes of this repository that are right."""
    found = []
    for place in ("images", "tests/data/goldens", "tests/data/images", "tests/data/renovate/images"):
        found += [path.parent for path in sorted((REPOSITORY / place).glob("*/recipe.toml"))]
    return found
