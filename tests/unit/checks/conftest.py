"""Repositories with images whose engine is a folder beside the recipe, so that nothing has to be fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from builder.lockfile import DebianPackage, Lock, LockedSource, PythonFile, asked, dump_lock
from builder.project import load_recipe, tree_hash
from builder.workspace import Workspace

DEBIAN = '{ debian = { suite = "trixie" }, apt = %s }'
ENGINE = {
    "engine/__init__.py": "",
    "engine/hashing.py": "from torch.utils.cpp_extension import load\nload('hash', ['hash.cpp'])\n",
    "engine/hash.cpp": "#include <openssl/sha.h>\nint f();\n",
}
COMPILING = ("g++", "ninja-build", "python3-dev", "python3-setuptools", "libtorch-dev")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Return a repository without images."""
    (tmp_path / "images").mkdir()
    return Workspace(root=tmp_path)


Add = Callable[..., str]


@pytest.fixture
def add(workspace: Workspace) -> Add:
    """Add an image with a lock that fits it; `runtime` and `build` are the packages of the stages."""

    def made(
        name: str,
        *,
        runtime: tuple[str, ...] = (*COMPILING, "libssl-dev"),
        build: tuple[str, ...] = (),
        files: Mapping[str, Mapping[str, str]] | None = None,
        versions: Mapping[str, str] | None = None,
        python: tuple[PythonFile, ...] = (),
        more: str = "",
        head: str = "",
        locked: bool = True,
        bases: str | None = None,
        held: Mapping[str, LockedSource] | None = None,
    ) -> str:
        folder = workspace.images / name
        sources = {"engine": ENGINE} if files is None else files
        for source, texts in sources.items():
            for path, text in texts.items():
                file = folder / source / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        folder.mkdir(parents=True, exist_ok=True)
        stages = bases or "".join(
            f'[base.{stage}]\ndebian = {{ suite = "trixie" }}\napt = {list(listed)!r}\n'.replace("'", '"')
            for stage, listed in (("build", build), ("runtime", runtime))
        )
        components = "".join(
            f'[source.{source}]\npath = "{source}"\n[[component]]\nname = "{source}"\nsource = "{source}"\n'
            f'version = "{(versions or {}).get(source, "1.0")}"\nbuild = ["true"]\n'
            for source in sources
        )
        engine = f'engine = "{next(iter(sources))}"\n' if sources else ""
        (folder / "recipe.toml").write_text(
            f'schema = 1\nname = "{name}"\ndescription = "for a test"\n{engine}'
            f'gfx = ["gfx1100"]\npython = "3.13"\n{head}{stages}{components}{more}'
        )
        if locked:
            recipe = load_recipe(workspace, name)
            listed = {package: "both" if package in runtime else "build" for package in {*build, *runtime}}
            debs = tuple(
                DebianPackage(
                    name=package, version="1", file=f"pool/{package}_1_amd64.deb", size=1, sha256="0" * 64,
                    stage="both" if package in build and package in runtime else "build" if package in build
                    else "runtime",
                )
                for package in sorted(listed)
            )  # fmt: skip
            trees = {source: LockedSource(tree=tree_hash(folder / source)) for source in sources}
            trees |= held or {}
            lock = Lock(
                schema=1, image=name, epoch=1, asked=asked(recipe), source=trees, python=python,
                deb=() if bases else debs,
            )  # fmt: skip
            (folder / "recipe.lock").write_text(dump_lock(lock))
        return name

    return made
