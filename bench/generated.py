"""Makes a repository of recipes with locks that fit, of any number, the same on every machine.

Of each 25 images one is a base of Debian packages, ten have a base of their own, and the rest stand on another of
the 25: most on that base, the last two on one another. So 500 images are over 20 bases that are shared, and every
share of the kinds stays as the number grows. By name, neighbours stand on different bases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import tomli_w

from builder.lockfile import DebianPackage, Lock, LockedBase, PythonFile, asked, dump_lock, provided, provided_hash
from builder.recipe import Recipe, parse_recipe

PER_BASE, DEBS, WHEELS = 25, 360, 40
_SHARED, _OWN = 13, 23  # of the 25: up to the first on the shared base, up to the second on their own
_APT = ["g++", "libssl-dev", "ninja-build", "python3-dev", "python3-torch"]


def make_repository(root: Path, images: int, *, stands_on: Callable[[int, int], str | None] | None = None) -> None:
    """Write `images/NAME/` with recipe and lock for a number of images below `root`.

    `stands_on` says, as `base_of` does, which earlier image each one is built on.
    """
    offered: dict[str, dict[str, str]] = {}
    for number in range(images):
        name, base = image_name(number), (stands_on or base_of)(number, images)
        text = tomli_w.dumps(_recipe(name, base))
        recipe = parse_recipe(text, file="recipe.toml", name=name)
        lock = _lock(recipe, number, base, offered)
        offered[name] = provided(recipe, lock, offered[base] if base is not None else {})
        folder = root / "images" / name
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text(text)
        (folder / "recipe.lock").write_text(dump_lock(lock))


def image_name(number: int) -> str:
    """Return the name of an image."""
    return f"engine-{number:03}"


def base_of(number: int, images: int) -> str | None:
    """Return the image that one of a number of images is built on, if it is one of the repository."""
    bases = max(images // PER_BASE, 1)
    place = number // bases
    if place == 0 or _SHARED <= place < _OWN:
        return None
    if place > _OWN:
        return image_name(number - bases)
    return image_name(number % bases + (_SHARED - 1 if place == _OWN else 0) * bases)


def _recipe(name: str, base: str | None) -> dict[str, object]:
    stage = {"recipe": base} if base is not None else {"debian": {"suite": "trixie"}}
    apt = [] if base is not None else _APT
    torch = [] if base is not None else [{"name": "torch", "apt": "python3-torch", "version": "2.6.0"}]
    return {
        "schema": 1, "name": name, "description": "generated", "engine": "sglang", "gfx": ["gfx1201"],
        "python": "3.13", "base": {"build": stage | {"apt": apt}, "runtime": stage | {"apt": apt}},
        "component": [*torch, {"name": "sglang", "wheel": "sglang", "version": "0.5.16"}],
        "image": {"env": {"SGLANG_USE_AITER": "0", "SGLANG_USE_AITER_AR": "0"}},
    }  # fmt: skip


def _lock(recipe: Recipe, number: int, base: str | None, offered: Mapping[str, Mapping[str, str]]) -> Lock:
    packages = [*_APT, *(f"package-{place:03}" for place in range(DEBS - len(_APT)))]
    debs = tuple(
        DebianPackage(
            name=package, version=f"1.{place}-{number}", size=1000 + place, sha256=_sha(number, place),
            file=f"pool/main/p/package/{package}_1.{place}-{number}_amd64.deb",
            stage="base" if 200 < place < 300 else "both",
        )
        for place, package in enumerate(packages)
    )  # fmt: skip
    projects = ["sglang", *(f"project-{place:02}" for place in range(WHEELS - 1))]
    wheels = tuple(
        PythonFile(
            project=project, version="0.5.16" if project == "sglang" else f"{place}.{number}", size=12345,
            file=f"{project.replace('-', '_')}-1-py3-none-any.whl", sha256=_sha(number, 1000 + place),
            layer="sglang" if project == "sglang" else "dependencies",
        )
        for place, project in enumerate(projects)
    )  # fmt: skip
    return Lock(
        schema_=1, image=recipe.name, epoch=1, asked=asked(recipe),
        base={base: LockedBase(provides=provided_hash(offered[base]))} if base is not None else {},
        deb=debs if base is None else (), python=wheels,
    )  # fmt: skip


def _sha(*words: int) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()
