"""Reads what a project consists of: recipes, locks, and what its last builds left. Asks no engine, no network."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.resources
import re
from dataclasses import dataclass
from pathlib import Path

from builder import lockfile, plan, record, render
from builder.errors import LockError, RecipeError
from builder.lockfile import Lock
from builder.plan import Tooling
from builder.recipe import Recipe, parse_recipe
from builder.workspace import Workspace

LOCAL = "rocm-images.local"  # images that are built but not published; no registry has this name


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A recipe with the lock that fits it, and what follows from both without any effect."""

    recipe: Recipe
    lock: Lock
    lock_hash: str
    inputs: dict[str, str]
    content_key: str
    test_key: str
    fingerprint: str

    @property
    def tag(self) -> str:
        """The version tag: the engine's version and the content key, so that it names these bytes alone."""
        return f"{re.sub(r'[^A-Za-z0-9._-]', '_', self.recipe.version)}-{self.content_key[:12]}"

    @property
    def local(self) -> str:
        """The name of the image in the engine's store."""
        return f"{LOCAL}/{self.recipe.name}:{self.tag}"

    def rendered(self) -> render.Rendered:
        """Return the Dockerfile."""
        return render.render(self.recipe, self.lock, content_key=self.content_key, fingerprint=self.fingerprint)


# The programs that run in build stages. Each has a folder of the context, so that a change reruns its steps alone.
STEPS = {
    "build-source": ("build-source.sh", "settle.sh"),
    "install-debs": ("install-debs.sh", "settle.sh"),
    "install-wheels": ("install_wheels.py",),
    "layout": ("layout.sh",),
    "make-user": ("make-user.sh", "settle.sh"),
}


def step_files(step: str) -> tuple[Path, ...]:
    """Return the files of this package that a build step consists of."""
    folder = Path(str(importlib.resources.files("builder"))) / "inside"
    return tuple(folder / name for name in STEPS[step])


@functools.cache
def tooling() -> Tooling:
    """Return what of this program goes into images: its steps by hash, and uv by version."""
    steps = {}
    for step in STEPS:
        digest = hashlib.sha256()
        for file in step_files(step):
            digest.update(f"{file.name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
        steps[step] = digest.hexdigest()
    return Tooling(steps=steps, uv=importlib.metadata.version("uv"))


def load_recipe(workspace: Workspace, name: str) -> Recipe:
    """Read the recipe of an image. Raises `RecipeError`."""
    path = workspace.recipe(name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        known = ", ".join(names(workspace)) or "none"
        raise RecipeError(
            f"{workspace.shown(path)}: there is no image called {name!r}; known: {known}", hint="rocm-images list"
        ) from missing
    except UnicodeDecodeError as error:
        raise RecipeError(f"{workspace.shown(path)}: not a TOML file: not UTF-8: {error}") from error
    return parse_recipe(text, file=workspace.shown(path), name=name)


def names(workspace: Workspace) -> tuple[str, ...]:
    """Return the images of a workspace, sorted."""
    return tuple(sorted(path.parent.name for path in workspace.images.glob("*/recipe.toml")))


def load_lock(workspace: Workspace, recipe: Recipe) -> tuple[Lock, str]:
    """Read the lock of a recipe, and its sha256. Raises `LockError` when it is missing or does not fit."""
    path = workspace.lock(recipe.name)
    file, remedy = workspace.shown(path), f"rocm-images lock {recipe.name}"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        raise LockError(f"{file}: the recipe was never locked", hint=remedy) from missing
    lock = lockfile.parse_lock(text, file=file)
    lockfile.require_fit(recipe, lock, file=file)
    return lock, hashlib.sha256(text.encode()).hexdigest()


def prepare(workspace: Workspace, name: str) -> Prepared:
    """Read an image's recipe and lock and derive its keys."""
    recipe = load_recipe(workspace, name)
    lock, lock_hash = load_lock(workspace, recipe)
    inputs = plan.content_inputs(recipe, lock, tooling())
    fingerprint = plan.fingerprint(recipe, lock)
    # What this program makes of the inputs is one as well: another Dockerfile is another image.
    made = {
        "dockerfile": render.render(recipe, lock, content_key="", fingerprint=fingerprint).dockerfile.encode(),
        "manifest": lockfile.canonical(render.manifest(recipe, lock, content_key="", fingerprint=fingerprint)),
    }
    inputs |= {name: f'"{hashlib.sha256(made[name]).hexdigest()}"' for name in plan.DERIVED}
    return Prepared(
        recipe=recipe, lock=lock, lock_hash=lock_hash, inputs=inputs, content_key=plan.content_key(inputs),
        test_key=plan.test_key(recipe, _tests_hash(workspace, name)), fingerprint=fingerprint,
    )  # fmt: skip


def _tests_hash(workspace: Workspace, name: str) -> str:
    """Return the hash of the shipped suite and of the image's own tests."""
    digest = _shipped_tests().copy()
    _add_tests(digest, workspace.images / name / "tests")
    return digest.hexdigest()


@functools.cache
def _shipped_tests() -> hashlib._Hash:
    digest = hashlib.sha256()
    _add_tests(digest, Path(str(importlib.resources.files("builder"))) / "smoke")
    return digest


def _add_tests(digest: hashlib._Hash, folder: Path) -> None:
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())


def tree_hash(folder: Path) -> str:
    """Return the sha256 of a tree: every file's path, whether it may be executed, and its content, in order."""
    digest = hashlib.sha256()
    if not folder.is_dir():
        raise RecipeError(f"{folder}: expected a folder with sources", hint="check source.*.path in the recipe")
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise RecipeError(f"{path}: expected a plain file or folder in a source")
        if path.is_file():
            mode = "x" if path.stat().st_mode & 0o100 else "-"
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{mode}\0{content}\n".encode())
    return digest.hexdigest()


def known(workspace: Workspace, name: str) -> plan.Known | None:
    """Return what is known of an image's last build here."""
    path = workspace.dist / name / "state.json"
    return record.parse_state(path.read_text(), file=workspace.shown(path)) if path.exists() else None
