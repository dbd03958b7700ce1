"""Writes the builds between two locks as folders that can be built, and knows what goes together in between."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli
import tomli_w
from packaging.utils import canonicalize_name

from builder.checks.metadata import requirements_of
from builder.compare.breaks import breaks
from builder.compare.isolating import Step, steps
from builder.compare.mixing import BASE, State, state
from builder.declared import runtime_requirements
from builder.errors import Failure, RecipeError
from builder.inspection.subjects import LOCK, RECIPE, at_revision
from builder.lockfile import dump_lock
from builder.mirrors import FILE_NAME, Mirrors
from builder.patchfiles import own_files
from builder.pinned import fetch_source
from builder.project import Prepared, load_recipe, names, prepare
from builder.recipe import Component, Recipe
from builder.recipefiles import recipe_text
from builder.record import parse_pin
from builder.sources.revisions import Repository, as_of
from builder.story import Story
from builder.workspace import Workspace, write_atomic

PLAN = "plan.json"
_HINT = "name an image, REV:IMAGE, a recipe.lock, or the record of one: rocm-images isolate --help"


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """A step as it was written: its folder, what changes, why not less, its content key, and how it is built.

    `same` tells that its bytes are those of the step before, so that there is nothing to build.
    """

    folder: Path
    what: str
    because: tuple[str, ...]
    content_key: str
    command: str
    same: bool

    def plain(self) -> dict[str, Any]:
        """Return this as a table for JSON."""
        return {
            "folder": str(self.folder), "changes": self.what, "because": list(self.because),
            "content-key": self.content_key, "command": self.command, "same-as-before": self.same,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """The builds between two locks, the older one first; of `unknown` distributions no requirements are known."""

    image: str
    builds: tuple[Build, ...]
    unknown: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Return this as a table for JSON."""
        return {
            "image": self.image,
            "builds": [build.plain() for build in self.builds],
            "requirements-unknown": list(self.unknown),
        }


def isolate(
    old: str, new: str, *, workspace: Workspace, out: Path | None, mirrors: Mirrors, story: Story
) -> Isolation:
    """Write one folder for each build between two locks, below `out` or dist/isolate/IMAGE.

    Raises `RecipeError` for two different images, and where nothing that is built differs.
    """
    with ExitStack() as stack:
        sides = [stack.enter_context(_project(word, workspace)) for word in (old, new)]
        (before, image), (after, other) = sides
        if image != other:
            raise RecipeError(
                f"{old} is image {image!r}, {new} is {other!r}: between two images nothing can be isolated",
                hint=f"rocm-images diff {old} {new}",
            )
        for side in (before, after):
            _link_state(workspace, side.root)
            _write_whole(side, image)
        prepared = [prepare(side, image) for side in (before, after)]
        if prepared[0].content_key == prepared[1].content_key:
            raise RecipeError(
                f"{old} and {new} are built to the same bytes, content key {prepared[0].content_key[:12]}"
            )
        states = [_state(side, each) for side, each in zip((before, after), prepared, strict=True)]
        asking = _Asking((before, after), states, mirrors, story)
        with story.step(f"finding out what of {image} changes alone"):
            found = steps(
                states[0], states[1], lambda mix: breaks(mix, asking.of, file="recipe.toml"), file="recipe.toml"
            )
        target = out or workspace.dist / "isolate" / image
        builds = _write(target, found, before, after, prepared, image=image, origin=workspace)
        return Isolation(image=image, builds=builds, unknown=tuple(sorted(asking.unknown)))


@contextmanager
def _project(word: str, workspace: Workspace) -> Iterator[tuple[Workspace, str]]:
    """Give the project that somebody names a lock of, in a copy that may be written to, and the image."""
    path = Path(word)
    if word in names(workspace):
        source, commit, image = workspace, None, word
    elif path.is_file() and path.suffix == ".json":
        table = parse_pin(path.read_text(encoding="utf-8"), file=word)
        image, sha256 = str(table["image"]), str(table["lock"]).removeprefix("sha256:")
        source, commit = workspace, None
        if image not in names(workspace) or prepare(workspace, image).lock_hash != sha256:
            commit = Repository(workspace.root).commit_with_lock(image, sha256)
    elif path.is_file() and path.name == LOCK and path.absolute().parents[1].name == "images":
        source, commit, image = Workspace(root=path.absolute().parents[2]), None, path.absolute().parent.name
    elif (found := at_revision(word, workspace)) is not None:
        source, (commit, image) = workspace, found
    else:
        raise RecipeError(f"{word}: names no recipe with its lock", hint=_HINT)
    if commit is not None:
        with as_of(source, commit) as past:
            yield past, image
        return
    with tempfile.TemporaryDirectory(prefix="rocm-images-isolate.") as folder:
        copied = Workspace(root=Path(folder))
        for name in ("images", "patches"):
            if (source.root / name).is_dir():
                shutil.copytree(source.root / name, copied.root / name, symlinks=True)
        yield copied, image


def _state(workspace: Workspace, prepared: Prepared) -> State:
    path = workspace.recipe(prepared.recipe.name)
    return state(path.read_text(encoding="utf-8"), prepared.lock, file=workspace.shown(path))


class _Asking:
    """Knows what distributions ask for, from their files as far as they are on this machine or can be fetched."""

    def __init__(
        self, sides: Sequence[Workspace], states: Sequence[State], mirrors: Mirrors, story: Story
    ) -> None:
        self._sides = tuple(zip(sides, states, strict=True))
        self._mirrors = mirrors
        self._story = story
        self._known: dict[str, Sequence[str] | None] = {}
        self.unknown: set[str] = set()

    def of(self, mix: State, name: str) -> Sequence[str] | None:
        """Return the requirements of a distribution of a mix, None where they are not known."""
        component = next(
            (c for c in mix.recipe.component if canonicalize_name(c.distribution or c.name) == name), None
        )
        if component is not None and component.requires is not None:
            return component.requires
        file = next((each for each in mix.lock.served if each.project == name), None)
        if file is not None:
            key = file.sha256
            if key not in self._known:
                self._known[key] = requirements_of(self._sides[0][0], file.sha256)
        elif component is not None and component.is_python_build:
            key = f"{component}{mix.lock.source.get(component.source or '')}"
            if key not in self._known:
                self._known[key] = self._of_source(component)
        else:
            return ()  # what the distribution brings is not this program's to resolve
        if self._known[key] is None:
            self.unknown.add(name)
        return self._known[key]

    def _of_source(self, component: Component) -> Sequence[str] | None:
        """Return what a component that is built asks for, from the tree of the side that has it so."""
        for workspace, each in self._sides:
            if component not in each.recipe.component or component.source is None:
                continue
            with tempfile.TemporaryDirectory(prefix="rocm-images-tree.") as folder:
                try:
                    tree = fetch_source(
                        each.recipe, component.source, locked=each.lock.source[component.source],
                        into=Path(folder) / "tree", workspace=workspace, mirrors=self._mirrors, story=self._story,
                    )  # fmt: skip
                    return runtime_requirements(
                        tree.path, component, python=each.recipe.python, where=f"component.{component.name}"
                    )
                except Failure as failure:
                    self._story.warn(f"what {component.name} {component.version} requires is not known: {failure}")
        return None


def _write(
    target: Path,
    found: Sequence[Step],
    before: Workspace,
    after: Workspace,
    prepared: Sequence[Prepared],
    *,
    image: str,
    origin: Workspace,
) -> tuple[Build, ...]:
    """Write all steps, or nothing: a folder that is there and is none of this command's is left alone."""
    if target.exists() and not (target / PLAN).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise RecipeError(f"{target}: is there already, and was not written by this command", hint="--out FOLDER")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".isolate.") as place:
        part = Path(place) / "plan"
        keys: list[str] = []
        rows: list[tuple[str, str, tuple[str, ...]]] = [("00-before", "nothing: what is compared with", ())]
        rows += [(f"{n:02}-{_file_name(step)}", step.what, step.because) for n, step in enumerate(found, start=1)]
        taken: set[str] = set()
        for (name, what, _), step in zip(rows, [None, *found], strict=True):
            root = Workspace(root=part / name)
            taken |= set(step.parts if step is not None else ())
            last = step is found[-1]
            source = after if last else before
            _copy(source, root, image)
            if step is not None and not last:
                _take(step.state, before, after, root, image, taken)
            _link_state(origin, root.root)
            keys.append(_key(root, image, what))
        if keys[0] != prepared[0].content_key or keys[-1] != prepared[1].content_key:
            raise AssertionError("what was written is not what was read")
        builds = tuple(
            Build(
                folder=target / name, what=what, because=tuple(because), content_key=key,
                command=f"rocm-images --root {target / name} build {image}",
                same=number > 0 and keys[number - 1] == key,
            )
            for number, ((name, what, because), key) in enumerate(zip(rows, keys, strict=True))
        )  # fmt: skip
        write_atomic(part / PLAN, json.dumps([build.plain() for build in builds], indent=2) + "\n")
        for name, _, _ in rows:  # a link is relative to where it lies in the end
            link = part / name / origin.state.name
            link.unlink()
            link.symlink_to(os.path.relpath(origin.state, target / name))
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
    return builds


def _key(root: Workspace, image: str, what: str) -> str:
    try:
        return prepare(root, image).content_key
    except Failure as failure:
        raise RecipeError(
            f"{image}: the step '{what}' cannot be put together: {failure.message}", details=failure.details,
            hint="build it by hand, or isolate between revisions that are closer to one another",
        ) from failure  # fmt: skip


def _write_whole(workspace: Workspace, image: str) -> None:
    """Make plain recipes of an image and of those below it where they are variants, with all files beside them."""
    for name in (image, *_below(workspace, image)):
        if (origin := load_recipe(workspace, name).variant_of) is None:
            continue
        table = tomli.loads(recipe_text(workspace, name))
        del table["variant-of"]
        shutil.copytree(
            workspace.images / origin, workspace.images / name, symlinks=True, dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(RECIPE, LOCK),
        )  # fmt: skip
        write_atomic(workspace.recipe(name), tomli_w.dumps(table))


def _copy(source: Workspace, target: Workspace, image: str) -> None:
    """Copy an image, those it is built on, and the patches of the project."""
    for name in (image, *_below(source, image)):
        shutil.copytree(source.images / name, target.images / name, symlinks=True, dirs_exist_ok=True)
    for name in ("patches", FILE_NAME):
        if (source.root / name).is_dir():
            shutil.copytree(source.root / name, target.root / name, symlinks=True)
        elif (source.root / name).is_file():
            shutil.copyfile(source.root / name, target.root / name)


def _below(workspace: Workspace, image: str) -> tuple[str, ...]:
    bases = prepare(workspace, image).recipe.bases
    return tuple(dict.fromkeys(each for name in bases for each in (name, *_below(workspace, name))))


def _take(mix: State, before: Workspace, after: Workspace, root: Workspace, image: str, taken: set[str]) -> None:
    """Bring the files of the taken parts from the newer project, then recipe and lock of the mix."""
    if BASE in taken:
        for name in _below(after, image):
            shutil.copytree(after.images / name, root.images / name, symlinks=True, dirs_exist_ok=True)
    old, new = (prepare(each, image).recipe for each in (before, after))
    for recipe, side in ((old, before), (new, after)):
        for component in recipe.component:
            if _is_taken(component, taken):
                _bring(component, recipe, side, root, remove=side is before)
    if (new.engine or "") in taken:
        shutil.rmtree(root.images / image / "tests", ignore_errors=True)
        if (after.images / image / "tests").is_dir():
            shutil.copytree(after.images / image / "tests", root.images / image / "tests")
    write_atomic(root.recipe(image), mix.text)
    write_atomic(root.lock(image), dump_lock(mix.lock))


def _is_taken(component: Component, taken: set[str]) -> bool:
    return component.name in taken or f"component {component.name}" in taken


def _bring(component: Component, recipe: Recipe, side: Workspace, root: Workspace, *, remove: bool) -> None:
    """Bring the folder and the patch files of a component from a side, or take away what that side has of them."""
    source = recipe.source.get(component.source or "")
    if source is not None and source.path is not None:
        place = root.images / recipe.name / source.path
        shutil.rmtree(place, ignore_errors=True)
        if not remove:
            shutil.copytree(side.images / recipe.name / source.path, place, symlinks=True)
    for patch in recipe.patch:
        if patch.target != component.name:
            continue
        folder = root.root if patch.series is not None else root.images / recipe.name
        for file in own_files(side, recipe, patch):
            path = folder / file.name
            path.unlink(missing_ok=True)
            if not remove:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.data)


def _link_state(origin: Workspace, root: Path) -> None:
    """Let a project share fetched files and caches with the one it was made from."""
    origin.state.mkdir(exist_ok=True)
    root.mkdir(parents=True, exist_ok=True)
    link = root / origin.state.name
    if not link.exists():
        link.symlink_to(origin.state.absolute())


def _file_name(step: Step) -> str:
    return "-and-".join(part.removeprefix("component ") for part in step.parts)[:80]
