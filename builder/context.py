"""Lays out the folder a build reads from, and its bases: every file fetched, verified and named by the lock."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from uv import find_uv_bin

from builder import debian, oci
from builder.errors import EngineError
from builder.layering import layer_of
from builder.lockfile import DebianPackage, Lock, canonical
from builder.mirrors import Mirrors
from builder.patchcontext import lay_patches, without_patches
from builder.patched import fetch_patched, leave_out
from builder.patchset import unpatched
from builder.plan import BASE_FORMAT, steps
from builder.project import step_files
from builder.recipe import Base, Recipe
from builder.reference import Digest
from builder.render import Rendered
from builder.sources.download import Wanted, fetch_all
from builder.sources.index import LockedFile, fetch_wheels
from builder.sources.store import Store
from builder.story import Story
from builder.workspace import Workspace, write_atomic


@dataclass(frozen=True, kw_only=True, slots=True)
class BootstrappedBase:
    """A base that was made here: an OCI image layout, and the digest of the image in it."""

    layout: Path
    digest: Digest


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildContext:
    """A laid out context: its folder, its Dockerfile, and the base per stage, a published one by its name."""

    folder: Path
    dockerfile: Path
    bases: Mapping[str, BootstrappedBase | str]


@contextmanager
def sole_run(workspace: Workspace, image: str) -> Iterator[None]:
    """Keep a second run on the same image out until this one ends, however it ends."""
    path = workspace.state / "locks" / f"{image}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except BlockingIOError as busy:
            raise EngineError(
                f"another run works on {image} right now", hint="wait until it is done, then try again"
            ) from busy
        yield


def lay_out(
    recipe: Recipe,
    lock: Lock,
    rendered: Rendered,
    manifest: Mapping[str, object],
    ledger: Mapping[str, object],
    *,
    workspace: Workspace,
    below: Mapping[str, str],
    mirrors: Mirrors,
    story: Story,
) -> BuildContext:
    """Fetch and verify everything the lock names, and lay it out. The same lock gives the same folder.

    `below` has, by name, the reference under which the engine holds each image that this one is built on.
    """
    store = Store(workspace.store)
    with story.step(f"fetching what {recipe.name} is made of"):
        debs = fetch_debs(lock, store=store, mirrors=mirrors, story=story) if lock.deb else {}
        wheels = fetch_wheels(
            [
                LockedFile(
                    project=f.project, filename=f.file, sha256=f.sha256, size=f.size, index=f.index,
                    kind=f.index_kind,
                )
                for f in lock.python
            ],
            store=store, mirrors=mirrors, story=story,
        )  # fmt: skip
    folder = workspace.state / "contexts" / recipe.name
    if folder.exists():
        shutil.rmtree(folder)
    for stage, packages in (("build", lock.packages("build")), ("runtime", lock.packages("runtime"))):
        for package in packages:
            debian.link_or_copy(debs[package.sha256], folder / "debs" / stage / Path(package.file).name)
    for file, layer in layer_of(lock).items():
        debian.link_or_copy(wheels[file.sha256], folder / "wheels" / layer / file.file)
    for name in recipe.built_sources:
        _lay_source(recipe, name, lock, folder / "sources" / name, workspace, mirrors, story)
    for name in {component.source for component in unpatched(recipe) if component.source is not None}:
        _lay_source(recipe, name, without_patches(lock), folder / "unpatched" / name, workspace, mirrors, story)
    lay_patches(recipe, lock, folder, ledger, workspace=workspace)
    uses = steps(recipe, lock)
    for step in uses:
        (folder / "tools" / step).mkdir(parents=True)
        for program in step_files(step):
            shutil.copyfile(program, folder / "tools" / step / program.name)
    for step in uses & {"install-wheels", "build-wheel"}:
        debian.link_or_copy(Path(find_uv_bin()), folder / "tools" / step / "uv")
    write_atomic(folder / "files/manifest.json", json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(rendered.dockerfile)
    bases = {
        stage: below[base.recipe]
        if base.recipe is not None
        else _base(base, lock, debs, workspace=workspace, mirrors=mirrors, story=story)
        for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime))
    }
    return BuildContext(folder=folder, dockerfile=dockerfile, bases=bases)


def _lay_source(
    recipe: Recipe, name: str, lock: Lock, into: Path, workspace: Workspace, mirrors: Mirrors, story: Story
) -> None:
    """Lay out what is built of a source: its tree with its patches, without git's own files and ignored ones."""
    into.parent.mkdir(parents=True, exist_ok=True)
    tree = fetch_patched(recipe, name, lock=lock, into=into, workspace=workspace, mirrors=mirrors, story=story)
    if tree.path != into:
        shutil.copytree(tree.path, into, symlinks=True)
    for left in sorted(into.rglob(".git"), reverse=True):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()
    leave_out(recipe, name, into, lock.source[name])


def fetch_debs(lock: Lock, *, store: Store, mirrors: Mirrors, story: Story) -> dict[str, Path]:
    """Fetch every Debian package of a lock, from the store or the mirror; return the files by sha256."""
    held = {package.sha256: store.get(package.sha256) for package in lock.deb}
    have = {sha256: path for sha256, path in held.items() if path is not None}
    missing = [package for package in lock.deb if package.sha256 not in have]
    if not missing:
        return have
    archive = mirrors.debian_mirror().url
    wanted = [
        Wanted(name=Path(p.file).name, sha256=p.sha256, size=p.size, urls=(f"{archive}/{p.file}",))
        for p in missing
    ]
    return have | fetch_all(wanted, store=store, mirrors=mirrors, story=story)


def _base(
    base: Base, lock: Lock, debs: Mapping[str, Path], *, workspace: Workspace, mirrors: Mirrors, story: Story
) -> BootstrappedBase | str:
    """Return a stage's base, bootstrapped where nobody did yet."""
    if base.image is not None:
        return mirrors.registry(base.image)
    suite = base.debian.suite if base.debian else ""
    packages = lock.packages("base")
    key = hashlib.sha256(
        canonical(
            {
                "format": BASE_FORMAT, "suite": suite, "epoch": lock.epoch,
                "packages": [p.sha256 for p in packages],
            }
        )
    ).hexdigest()  # fmt: skip
    layout = workspace.state / "bases" / key
    layout.parent.mkdir(parents=True, exist_ok=True)
    # Runs on two images may need the same base; the second waits for the first to make it.
    with layout.with_suffix(".lock").open("w") as guard:
        flock(guard, LOCK_EX)
        digest = oci.layout_digest(layout)
        if digest is None:
            digest = _bootstrap(layout, packages, debs, suite=suite, epoch=lock.epoch, story=story)
    return BootstrappedBase(layout=layout, digest=digest)


def _bootstrap(
    layout: Path,
    packages: Sequence[DebianPackage],
    debs: Mapping[str, Path],
    *,
    suite: str,
    epoch: int,
    story: Story,
) -> Digest:
    if layout.exists():
        story.warn(f"the stored Debian {suite} base is damaged and is made again")
        shutil.rmtree(layout)
    with story.step(f"bootstrapping the Debian {suite} base from {len(packages)} packages"):
        root = layout.with_suffix(".tar")
        try:
            debian.bootstrap(packages, debs, suite=suite, epoch=epoch, target=root)
            return oci.write_layout(root, layout, epoch=epoch, origin=f"mmdebstrap --variant=minbase {suite}")
        finally:
            root.unlink(missing_ok=True)
