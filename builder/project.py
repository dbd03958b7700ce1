"""Reads what a project consists of: recipes, locks, and what its last builds left. Asks no engine, no network."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.resources
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from builder import edits, hooks, lockfile, origins, patchledger, plan, record, render, whatchanged
from builder.errors import LockError, RecipeError
from builder.fingerprint import Beneath, counted, fingerprint_inputs, names_of
from builder.fingerprint import fingerprint as fingerprint_of
from builder.lockfile import DebianPackage, Lock
from builder.openpins import LOCK, require_closed
from builder.patchfiles import require_unchanged
from builder.patchset import hook_patches, pins_of, require_made_for
from builder.plan import Tooling
from builder.recipe import DebianBase, Recipe, parse_recipe
from builder.recipefiles import recipe_names, recipe_text
from builder.workspace import Workspace

LOCAL = "rocm-images.local"  # images that are built but not published; no registry has this name


@dataclass(frozen=True, kw_only=True, slots=True)
class Below:
    """An image that another one is built on: its recipe and lock, and what it offers.

    `offered` is as `lockfile.provided` returns it. `debian` is the suite at the very bottom and `packages` are all
    that are installed, both only where the image is Debian all the way down; `image` is the published image at the
    bottom otherwise.
    """

    recipe: Recipe
    lock: Lock
    offered: Mapping[str, str]
    debian: DebianBase | None
    packages: tuple[DebianPackage, ...]
    image: str | None

    @property
    def distributions(self) -> dict[str, str]:
        """The Python distributions it has, by version."""
        return {
            key.removeprefix("python "): version
            for key, version in self.offered.items()
            if key.startswith("python ")
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A recipe with the lock that fits it, and what follows from both without any effect.

    `below` are the images of this project that its stages start from.
    """

    recipe: Recipe
    lock: Lock
    lock_hash: str
    inputs: dict[str, str]
    content_key: str
    test_key: str
    fingerprint: str
    below: Mapping[str, Prepared]

    @property
    def tag(self) -> str:
        """The version tag: the engine's version and the content key, so that it names these bytes alone."""
        return f"{re.sub(r'[^A-Za-z0-9._-]', '_', self.recipe.version)}-{self.content_key[:12]}"

    @property
    def local(self) -> str:
        """The name of the image in the engine's store."""
        return f"{LOCAL}/{self.recipe.name}:{self.tag}"

    @property
    def fingerprint_inputs(self) -> dict[str, object]:
        """What the fingerprint is made of, by name."""
        return fingerprint_inputs(self.recipe, self.lock, beneath=_beneath(self.recipe, self.below))

    @property
    def named_below(self) -> dict[str, tuple[str, str]]:
        """Content key and fingerprint of the images that this one is built on."""
        return {name: (each.content_key, each.fingerprint) for name, each in self.below.items()}

    @property
    def beneath(self) -> Beneath:
        """What the fingerprint of an image that is built on this one depends on."""
        runtime = self.below.get(self.recipe.base.runtime.recipe or "")
        under = runtime.beneath.counted if runtime is not None else frozenset()
        own = frozenset(name for component in counted(self.recipe) for name in names_of(component))
        return Beneath(fingerprint=self.fingerprint, content_key=self.content_key, counted=own | under)

    @property
    def ledger(self) -> dict[str, object]:
        """The ledger of its patches, with those of what its runtime stage is built on."""
        base = self.below.get(self.recipe.base.runtime.recipe or "")
        return patchledger.ledger(self.recipe, self.lock, below=base.ledger if base is not None else None)

    def rendered(self) -> render.Rendered:
        """Return the Dockerfile."""
        base = self.below.get(self.recipe.base.runtime.recipe or "")
        return render.render(
            self.recipe, self.lock, content_key=self.content_key, fingerprint=self.fingerprint,
            below=base.recipe if base is not None else None,
        )  # fmt: skip


# The programs that run in build stages. Each has a folder of the context, so that a change reruns its steps alone.
STEPS = {
    "adopt-user": ("adopt-user.sh", "make-user.sh", "settle.sh"),
    "build-source": ("build-source.sh", "jobs.sh"),
    "build-wheel": ("build_wheel.py", "jobs.sh"),
    "install-debs": ("install-debs.sh", "settle.sh"),
    "install-wheels": ("install_wheels.py", "bytecode.py"),
    "edit-tree": edits.STEP_FILES,
    "install-hooks": hooks.STEP_FILES,
    "layout": ("layout.sh",),
    "layout-edits": ("layout-edits.sh", "layout.sh"),
    "probe-patches": ("probe_patches.py", "probing.py"),
    "make-user": ("make-user.sh", "settle.sh"),
}


def step_files(step: str) -> tuple[Path, ...]:
    """Return the files of this package that a build step consists of."""
    folder = Path(str(importlib.resources.files("builder"))) / "inside"
    return tuple(folder / name for name in STEPS[step])


@cache
def tooling() -> Tooling:
    """Return what of this program goes into images: its steps by hash, and uv by version."""
    steps = {}
    for step in STEPS:
        digest = hashlib.sha256()
        for file in step_files(step):
            digest.update(f"{file.name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
        steps[step] = digest.hexdigest()
    return Tooling(steps=steps, uv=importlib.metadata.version("uv"))


# An image that others are built on is read for each of them, and with every question about circles. Of locks only
# theirs are kept, so that those of a large repository are not all in memory. The text decides, not the file.
_kept_recipe = lru_cache(maxsize=256)(parse_recipe)
_kept_lock = lru_cache(maxsize=64)(lockfile.parse_lock)


def load_recipe(workspace: Workspace, name: str) -> Recipe:
    """Read the recipe of an image. Raises `RecipeError`."""
    return _kept_recipe(recipe_text(workspace, name), file=workspace.shown(workspace.recipe(name)), name=name)


def names(workspace: Workspace) -> tuple[str, ...]:
    """Return the images of a workspace, sorted."""
    return recipe_names(workspace)


def is_open(workspace: Workspace, recipe: Recipe) -> bool:
    """Whether a recipe says that a pin is open, so that there can be no lock, or that its lock is and has none."""
    pins = {each.pin for each in recipe.open}
    return bool(pins - {LOCK}) or (LOCK in pins and not workspace.lock(recipe.name).is_file())


def load_lock(workspace: Workspace, recipe: Recipe) -> tuple[Lock, str]:
    """Read the lock of a recipe, and its sha256.

    Raises `LockError` when it is missing or does not fit the recipe or its patch files, `PatchError` when a series
    was made for another pin.
    """
    require_no_circle(workspace, recipe)
    lock, text, _ = _fitting(workspace, recipe, lockfile.parse_lock)
    return lock, hashlib.sha256(text.encode()).hexdigest()


def _fitting(
    workspace: Workspace, recipe: Recipe, parse: Callable[..., Lock]
) -> tuple[Lock, str, dict[str, Below]]:
    """Return the lock of a recipe that is on no circle, its text, and the images below; raises as `load_lock`."""
    require_closed(recipe.open, file=workspace.shown(workspace.recipe(recipe.name)))
    path = workspace.lock(recipe.name)
    file, remedy = workspace.shown(path), f"rocm-images lock {recipe.name}"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        raise LockError(f"{file}: the recipe was never locked", hint=remedy) from missing
    lock = parse(text, file=file)
    trees = {name: source.tree for name, source in lock.source.items()}
    require_made_for(recipe, pins_of(recipe, trees), file=workspace.shown(workspace.recipe(recipe.name)))
    below = _below(workspace, recipe)
    offered = {name: each.offered for name, each in below.items()}
    lockfile.require_fit(recipe, lock, file=file, offered=offered)
    require_unchanged(workspace, recipe, lock)
    return lock, text, below


def images_below(workspace: Workspace, recipe: Recipe) -> dict[str, Below]:
    """Return the images of this project that the stages of a recipe start from, by name.

    Raises `RecipeError` for one that is not there and for a circle, `LockError` for one whose lock does not fit.
    """
    require_no_circle(workspace, recipe)
    return _below(workspace, recipe)


def _below(workspace: Workspace, recipe: Recipe) -> dict[str, Below]:
    found = {}
    for name in recipe.bases:
        base = load_recipe(workspace, name)
        lock, _, lower = _fitting(workspace, base, _kept_lock)
        under = lower.get(base.base.runtime.recipe or "")
        suite = under.debian if under is not None else base.base.runtime.debian
        packages = {p.name: p for p in under.packages} if under is not None else {}
        packages |= {p.name: p for p in lock.deb if p.stage != "build"}
        found[name] = Below(
            recipe=base, lock=lock, debian=suite, packages=tuple(packages.values()) if suite is not None else (),
            image=under.image if under is not None else base.base.runtime.image,
            offered=lockfile.provided(base, lock, under.offered if under is not None else {}),
        )  # fmt: skip
    return found


def require_no_circle(workspace: Workspace, recipe: Recipe, path: Sequence[str] = ()) -> None:
    """Raise `RecipeError` when an image is, over others, built on itself, naming the circle."""
    here = (*path, recipe.name)
    for name, stage in recipe.bases.items():
        if name in here:
            circle = " -> ".join((*here[here.index(name) :], name))
            raise RecipeError(f"images/{recipe.name}/recipe.toml: base.{stage}.recipe: a circle: {circle}")
        if not workspace.recipe(name).is_file():
            known = ", ".join(names(workspace))
            raise RecipeError(
                f"images/{recipe.name}/recipe.toml: base.{stage}.recipe: there is no image called {name!r}; "
                f"known: {known}",
                hint="rocm-images list",
            )
        require_no_circle(workspace, load_recipe(workspace, name), here)


def in_order(workspace: Workspace, chosen: Sequence[str]) -> tuple[str, ...]:
    """Return images so that each comes after those it is built on, otherwise as given. Raises `RecipeError`."""
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in ordered:
            return
        recipe = load_recipe(workspace, name)
        require_no_circle(workspace, recipe)
        for base in recipe.bases:
            visit(base)
        ordered[name] = None

    for name in chosen:
        visit(name)
    wanted = frozenset(chosen)
    return tuple(name for name in ordered if name in wanted)


def prepare(workspace: Workspace, name: str, *, bases: dict[str, Prepared] | None = None) -> Prepared:
    """Read an image's recipe and lock and derive its keys.

    `bases` keeps the images that others are built on, for a caller that prepares many while no file changes.
    """
    bases = {} if bases is None else bases
    if name in bases:
        return bases[name]
    recipe = load_recipe(workspace, name)
    lock, lock_hash = load_lock(workspace, recipe)
    below = {base: prepare(workspace, base, bases=bases) for base in recipe.bases}
    bases |= below
    inputs = plan.content_inputs(
        recipe, lock, tooling(), below={base: each.content_key for base, each in below.items()}
    )
    runtime = below.get(recipe.base.runtime.recipe or "")
    _check_user(recipe, runtime.recipe if runtime is not None else None)
    _check_hooks(recipe, runtime)
    fingerprint = fingerprint_of(fingerprint_inputs(recipe, lock, beneath=_beneath(recipe, below)))
    # What this program makes of the inputs is one as well: another Dockerfile is another image.
    rendered = render.render(
        recipe, lock, content_key="", fingerprint=fingerprint,
        below=runtime.recipe if runtime is not None else None,
    )  # fmt: skip
    made = {
        "dockerfile": rendered.dockerfile.encode(),
        "manifest": lockfile.canonical(render.manifest(recipe, lock, content_key="", fingerprint=fingerprint)),
    }
    inputs |= {name: f'"{hashlib.sha256(made[name]).hexdigest()}"' for name in plan.DERIVED}
    return Prepared(
        recipe=recipe, lock=lock, lock_hash=lock_hash, inputs=inputs, content_key=plan.content_key(inputs),
        test_key=plan.test_key(recipe, _tests_hash(workspace, recipe)), fingerprint=fingerprint, below=below,
    )  # fmt: skip


def _beneath(recipe: Recipe, below: Mapping[str, Prepared]) -> Beneath | None:
    runtime = below.get(recipe.base.runtime.recipe or "")
    return runtime.beneath if runtime is not None else None


def _check_user(recipe: Recipe, base: Recipe | None) -> None:
    """Refuse a user that is half the base's: the same name with another id, or the other way round."""
    if base is None or (recipe.image.user == base.image.user) == (recipe.image.uid == base.image.uid):
        return
    raise RecipeError(
        f"images/{recipe.name}/recipe.toml: image.user: image {base.name} has user {base.image.user!r} with uid "
        f"{base.image.uid}, this one has {recipe.image.user!r} with uid {recipe.image.uid}",
        hint="use the base's user, or another name with another uid",
    )


def _check_hooks(recipe: Recipe, base: Prepared | None) -> None:
    """Refuse hooks on an image that has some: an interpreter has one registry of them."""
    own = hook_patches(recipe)
    while own and base is not None:
        if there := hook_patches(base.recipe):
            raise RecipeError(
                f"images/{recipe.name}/recipe.toml: patch.{own[0].name}.hook: image {base.recipe.name} has hooks "
                f"already: {', '.join(patch.name for patch in there)}",
                hint=f"put all of them into images/{base.recipe.name}/recipe.toml, or all of them here",
            )
        base = base.below.get(base.recipe.base.runtime.recipe or "")


def _tests_hash(workspace: Workspace, recipe: Recipe) -> str:
    """Return the hash of the shipped suite and of the image's own tests."""
    own = _python_files(workspace.images / recipe.folder / "tests")
    return hashlib.sha256(_shipped_suite() + own).hexdigest()


@cache
def _shipped_suite() -> bytes:
    return _python_files(Path(str(importlib.resources.files("builder"))) / "smoke")


def _python_files(folder: Path) -> bytes:
    """Return names and hashes of the Python files below a folder."""
    return b"".join(
        f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest()
        for path in sorted(folder.rglob("*.py"))
    )


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


def plan_offline(workspace: Workspace, prepared: Prepared) -> plan.Plan:
    """Say what has to be done for an image, by the record of its last build here alone.

    Whether an engine or a registry still holds what was built is not asked.
    """
    last = known(workspace, prepared)
    return plan.decide(
        prepared.recipe.name, inputs=prepared.inputs, fingerprint=prepared.fingerprint, tests=prepared.test_key,
        known=last,
        published=last.digest if last is not None and last.content_key == prepared.content_key else None,
    )  # fmt: skip


def known(workspace: Workspace, prepared: Prepared) -> plan.Known | None:
    """Return what is known of an image's last build: here, or where its record was committed.

    What happened here last counts, unless the record is nearer to what is wanted now: of this content where here
    was another one, or tested as it would be now where here it was tested otherwise.
    """
    path = workspace.dist / prepared.recipe.name / "state.json"
    state = record.parse_state(path.read_text(), file=workspace.shown(path)) if path.exists() else None
    wanted = (prepared.content_key, prepared.test_key)
    if state is not None and (state.content_key, state.test_key) == wanted:
        return state
    table = recorded(workspace, prepared.recipe.name)
    if table is None:
        return state
    here = 0 if state is None else 1 + (state.content_key == prepared.content_key)
    there = (table["content-key"] == prepared.content_key) * (2 + (table["test-key"] == prepared.test_key))
    if state is not None and here >= there:
        return state
    changed = whatchanged.changes(origins.in_short(went_in(prepared)), origins.in_short(table))
    return plan.Known(
        inputs={}, content_key=table["content-key"], test_key=table["test-key"], digest=table["digest"],
        passed=record.passed(table), changed=changed,
    )  # fmt: skip


def recorded(workspace: Workspace, name: str) -> dict[str, Any] | None:
    """Return the record of an image's last published, tested build; None where there is none that can be read."""
    path = workspace.pin(name)
    try:
        table = record.parse_pin(path.read_text(encoding="utf-8"), file=workspace.shown(path))
    except (FileNotFoundError, UnicodeDecodeError, LockError):
        return None
    return table if record.is_whole(table) else None


def went_in(prepared: Prepared) -> dict[str, object]:
    """Return the part of an image's record that its recipe and lock decide."""
    return record.went_in(
        prepared.recipe, prepared.lock, lock_hash=prepared.lock_hash, content_key=prepared.content_key,
        test_key=prepared.test_key, fingerprint=prepared.fingerprint, inputs=prepared.fingerprint_inputs,
        below=prepared.named_below,
    )  # fmt: skip
