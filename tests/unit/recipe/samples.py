"""Recipes and locks for tests: small, whole, and never fetched."""

from __future__ import annotations

import hashlib
from typing import Any

import tomli
import tomli_w

from builder.lockfile import DebianPackage, Lock, LockedSource, PythonFile, asked
from builder.locktables import LockedPatch, LockedPatchFile
from builder.patchset import asked_of, patched_source, source_patches
from builder.patchtables import Patch
from builder.plan import Tooling
from builder.recipe import Recipe, parse_recipe

EPOCH = 1795252544
FULL = """
schema = 1
name = "probe"
description = "Every kind of component on a bootstrapped base"
engine = "sglang"
gfx = ["gfx1100", "gfx1201"]
python = "3.13"
forbid = ["nvidia-*"]

[base.build]
debian = { suite = "trixie" }
apt = ["g++", "python3"]
env = { CC = "gcc" }

[base.runtime]
debian = { suite = "trixie" }
apt = ["hipcc", "ninja-build", "python3", "python3-torch"]

[source.kernels]
path = "kernels"

[[component]]
name = "torch"
apt = "python3-torch"
version = "2.6.0"
protected = true

[[component]]
name = "triton"
wheel = "triton"
version = "3.6.0"

[[component]]
name = "kernels"
source = "kernels"
version = "1.0"
build = ["make {offload-arch}", "make install DESTDIR={destdir}"]

[[component]]
name = "sglang"
wheel = "sglang"
version = "0.5.16"
requires = ["numpy"]
reason = "its metadata asks for the CUDA set"

[image]
env = { HOME = "/var/cache/engine", KV = "/var/cache/engine/{fingerprint}", GFX = "{gfx}" }
cmd = ["python3", "-m", "sglang.launch_server"]
expose = [30000]
writable = ["/tmp", "/var/cache/engine"]
devices = ["/dev/kfd", "/dev/dri"]
groups = ["render", "video"]
shm = "8g"

[smoke]
imports = ["sglang"]
absent = ["aiter"]
jit = ["triton", "hipcc"]
"""
SMALL = """
schema = 1
name = "probe"
description = "Nothing but a base"
gfx = ["gfx1100"]
python = "3.13"

[base.build]
debian = { suite = "trixie" }

[base.runtime]
debian = { suite = "trixie" }
"""
TOOLING = Tooling(steps={"install-wheels": "1" * 64, "layout": "2" * 64}, uv="0.9.0")


def digest(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()


def recipe(text: str = FULL, **changed: Any) -> Recipe:
    """Read a recipe; `changed` replaces keys of its top level."""
    table = tomli.loads(text) | changed
    return parse_recipe(tomli_w.dumps(table), file="images/probe/recipe.toml", name=table["name"])


def package(name: str, stage: Any, version: str = "1.0-1") -> DebianPackage:
    return DebianPackage(
        name=name,
        version=version,
        file=f"pool/{name}.deb",
        size=len(name),
        sha256=digest(name + version),
        stage=stage,
    )


def wheel(project: str, layer: str, version: str = "1.0") -> PythonFile:
    file = f"{project}-{version}-py3-none-any.whl"
    return PythonFile(
        project=project, version=version, file=file, size=len(file), sha256=digest(file), layer=layer
    )


def locked_patch(of: Recipe, patch: Patch) -> LockedPatch:
    """Make what a lock has of a patch that has files, or changes a source; a series has two files."""
    if patch.series is not None:
        names = [f"patches/probe/000{number}-{patch.name}.patch" for number in (1, 2)]
        files = [LockedPatchFile(file=name, sha256=digest(name), state="applies", hunks=3) for name in names]
    else:
        files = [LockedPatchFile(file=name, sha256=digest(name)) for name in patch.files]
    state = "applies" if patched_source(of, patch) is not None else None
    return LockedPatch(name=patch.name, state=state, file=tuple(files))


def lock(of: Recipe) -> Lock:
    """Make the lock of a recipe as a resolver might have, with a package of the base and a dependency."""
    stages = {"build": of.base.build, "runtime": of.base.runtime}
    wanted = {stage: {name for name in base.apt if base.debian is not None} for stage, base in stages.items()}
    both = wanted["build"] & wanted["runtime"]
    debs = [package(name, "both") for name in both] + [
        package(name, stage) for stage, names in wanted.items() for name in names - both
    ]
    if any(base.debian is not None for base in stages.values()):
        debs.append(package("bash", "base"))
    wheels = [wheel(c.wheel or "", c.name, c.version) for c in of.wheels]
    if wheels:
        wheels.append(wheel("numpy", "dependencies", "2.2.4"))
    return Lock(
        schema=1, image=of.name, epoch=EPOCH, asked=asked(of),
        source={
            name: LockedSource(
                tree=digest(name), commit=source.commit,
                patched=digest(f"{name} patched")[:40] if source_patches(of, name) else None,
                built=digest(f"{name} built")[:40] if source.ignore else None,
            )
            for name, source in of.source.items()
        },
        patch=tuple(locked_patch(of, patch) for patch in of.patch if asked_of(of, patch) is not None),
        deb=tuple(sorted(debs, key=lambda deb: deb.name)),
        python=tuple(sorted(wheels, key=lambda file: file.project)),
    )  # fmt: skip
