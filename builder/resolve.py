"""From a recipe to its lock: asks apt, uv, repositories and indexes what the recipe leaves open."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from builder import debian, lockfile, project
from builder.declared import runtime_requirements
from builder.errors import LockError, RecipeError
from builder.knownbases import glibc
from builder.lockfile import DEPENDENCIES, SCHEMA, DebianPackage, Lock, LockedBase, PythonFile
from builder.locktables import LockedPatch
from builder.mirrors import Mirrors
from builder.openpins import require_closed
from builder.patched import patch_trees, with_built
from builder.patchset import pins_of, require_made_for, series_sources
from builder.pinned import PinnedTree, fetch_source
from builder.project import Below
from builder.recipe import BUILD_SUFFIX, Component, DebianBase, Recipe
from builder.scope import Scope, scope_of
from builder.solve import Answer, Offer, Pin, Question, Solved, refuse_withdrawn, solve
from builder.story import Story
from builder.workspace import Workspace

_OLD_GLIBC = 28  # what a published base is assumed to have at least


def make_lock(
    recipe: Recipe,
    *,
    workspace: Workspace,
    mirrors: Mirrors,
    story: Story,
    old: Lock | None = None,
    update: str | Collection[str] | None = None,
    strict: bool = False,
) -> Lock:
    """Resolve everything a recipe leaves open, apply its patches, and write nothing.

    With `update`, names of components and sources or 'debian', only those are resolved anew, and everything else
    stays as `old` has it. Raises `LockError` for a pin that does not hold, `RecipeError` for one that cannot,
    `PatchError` for patches that do not apply, and with `strict` for those that are redundant.
    """
    where = f"images/{recipe.name}/recipe.toml"
    require_closed(recipe.open, file=where)
    require_made_for(recipe, pins_of(recipe, {}), file=where)
    below = project.images_below(workspace, recipe)
    scope = scope_of(recipe, old, update)
    packages, epoch = _debian(recipe, below, scope, mirrors, story, where=where)
    if old is not None and packages == old.deb and _bases(scope, below) == old.base:
        epoch = old.epoch  # the suite was published again, and for this image nothing came of it
    _check_versions(recipe, packages, below, where=where)
    with tempfile.TemporaryDirectory(prefix="rocm-images-trees.") as place:
        trees = {
            name: fetch_source(
                recipe, name, locked=scope.kept_source(name), into=Path(place) / name, workspace=workspace,
                mirrors=mirrors, story=story,
            )
            for name in sorted(recipe.source)
            if not scope.keeps_python or name in scope.sources | series_sources(recipe, scope.sources)
        }  # fmt: skip
        trees, patches = patch_trees(
            recipe, trees, scope, place=Path(place), workspace=workspace, epoch=epoch, story=story, strict=strict
        )
        trees = with_built(recipe, trees)
        sources = {
            name: locked
            for name in recipe.source
            if (locked := trees[name].locked if name in trees else scope.kept_source(name)) is not None
        }
        if scope.old is not None and scope.keeps_python:
            python = scope.old.python
        else:
            asking = _Asking(recipe, below, packages, trees, scope, mirrors, story, where)
            python = asking.python()
    return Lock(
        schema_=SCHEMA,
        image=recipe.name,
        epoch=epoch,
        asked=dict(scope.asked),
        source=sources,
        patch=patches,
        base=_bases(scope, below),
        deb=packages,
        python=python,
    )


def _bases(scope: Scope, below: Mapping[str, Below]) -> dict[str, LockedBase]:
    """Return what the images below had for this lock; an update of a component did not look at them."""
    if scope.old is not None and not scope.debian:
        return scope.old.base
    return {name: LockedBase(provides=lockfile.provided_hash(each.offered)) for name, each in below.items()}


def _debian(
    recipe: Recipe, below: Mapping[str, Below], scope: Scope, mirrors: Mirrors, story: Story, *, where: str
) -> tuple[tuple[DebianPackage, ...], int]:
    """Return the packages of the stages that are Debian all the way down, and the time stamp of the image."""
    if scope.old is not None and not scope.debian:
        return scope.old.deb, scope.old.epoch
    stages: dict[str, debian.Stage] = {}
    suites: set[DebianBase] = set()
    for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime)):
        if base.debian is not None:
            stages[stage] = debian.Stage(apt=base.apt)
            suites.add(base.debian)
        elif base.recipe is not None and (bottom := below[base.recipe].debian) is not None:
            if base.apt:
                stages[stage] = debian.Stage(apt=base.apt, installed=below[base.recipe].packages)
            suites.add(bottom)
    epochs = [each.lock.epoch for each in below.values()]
    if len(suites) > 1:
        names = ", ".join(sorted(suite.words for suite in suites))
        raise RecipeError(f"{where}: base: its stages are made of different Debian suites: {names}")
    suite = next(iter(suites), None)
    if suite is None or not stages:
        return (), max(epochs, default=0)
    mirror = mirrors.debian_mirror(suite.suite)
    if mirror.allow_expired:
        story.warn(f"Release files that have expired are accepted from {mirror.url} ({mirror.origin})")
    with story.step(f"resolving Debian {suite.words} packages from {mirror.url} ({mirror.origin})"):
        found = debian.resolve(
            suite, build=stages.get("build"), runtime=stages.get("runtime"), mirror=mirror, file=where
        )
    return found.packages, max([found.epoch, *epochs])


def _check_versions(
    recipe: Recipe, packages: Sequence[DebianPackage], below: Mapping[str, Below], *, where: str
) -> None:
    """Refuse an archive, or a base, that has another version than a component pins."""
    base = below.get(recipe.base.runtime.recipe or "")
    offered = base.offered if base is not None else {}
    versions = {package.name: package.version for package in packages if package.stage != "build"}
    for component in recipe.component:
        key = f"{where}: component.{component.name}.version"
        if component.apt is not None:
            full = versions.get(component.apt, offered.get(f"deb {component.apt}"))
            if full is None and base is not None:
                raise RecipeError(
                    f"{where}: component.{component.name}.apt: {component.apt!r} is neither in base.runtime.apt "
                    f"nor in image {base.recipe.name}"
                )
            if full is not None and upstream_version(full) != component.version:
                have = upstream_version(full)
                raise LockError(
                    f"{key}: the recipe pins {component.version}, the archive has {have} ({component.apt} {full})",
                    hint=f"set version = {have!r} if that is wanted, or name a mirror that has the other",
                )
        elif component.base is not None:
            there = offered.get(f"python {canonicalize_name(component.base)}")
            if there is not None and there != component.version:
                raise LockError(
                    f"{key}: the recipe pins {component.version}, image {recipe.base.runtime.recipe} has {there}",
                    hint=f"set version = {there!r} if that is wanted",
                )


def upstream_version(debian_version: str) -> str:
    """Return the upstream part of a Debian version: without epoch, revision, and the marks Debian adds.

    `1.2+really1.1` is what an archive calls 1.1 after it had 1.2 (Debian developer's reference, 5.6.3).
    """
    version = debian_version.partition(":")[2] or debian_version
    version = version.rpartition("-")[0] or version
    version = version.rpartition("+really")[2] or version
    return re.split(r"[+~](?:dfsg|ds|repack)[0-9.]*|[+~](?:deb|bpo)[0-9]+|\+(?:b|nmu)[0-9]+$", version)[0]


def glibc_minor(libc: str) -> int | None:
    """Return N of a Debian version of glibc 2.N; None for no such version."""
    match = re.match(r"2\.([0-9]+)", libc)
    return int(match[1]) if match else None


class _Asking:
    """Puts the questions about Python files: one for the image, one for each component that is built."""

    def __init__(
        self,
        recipe: Recipe,
        below: Mapping[str, Below],
        packages: Sequence[DebianPackage],
        trees: Mapping[str, PinnedTree],
        scope: Scope,
        mirrors: Mirrors,
        story: Story,
        where: str,
    ) -> None:
        self._recipe = recipe
        self._scope = scope
        self._mirrors = mirrors
        self._story = story
        self._where = where
        self._base = below.get(recipe.base.runtime.recipe or "")
        self._below = below
        self._packages = packages
        self._requires = {
            component.name: runtime_requirements(
                trees[component.source].path, component, python=recipe.python,
                where=f"{where}: component.{component.name}",
            )
            for component in recipe.component
            if component.source is not None and component.is_python_build
        }  # fmt: skip

    def python(self) -> tuple[PythonFile, ...]:
        """Return all files: the image's and those that components are built with."""
        served, answer = self._served()
        found = list(served)
        for component in self._recipe.component:
            layer = component.name + BUILD_SUFFIX
            if not component.is_python_build:
                continue
            if self._scope.old is not None and component.name not in self._scope.components:
                found += self._scope.old.wheels(layer)
            elif component.build_requires or component.needs:
                found += self._built_with(component, layer, answer)
        return tuple(sorted(found, key=lambda file: (file.layer.endswith(BUILD_SUFFIX), file.project, file.layer)))

    def _served(self) -> tuple[tuple[PythonFile, ...], Answer | None]:
        recipe, old = self._recipe, self._scope.old
        also = tuple(
            text for component in recipe.component if component.build for text in component.requires or ()
        )
        pins = tuple(_pin(component) for component in recipe.wheels)
        roots = tuple(self._root(component) for component in recipe.component if component.is_python_build)
        if not (pins or roots or also):
            return (), None
        fixed = {f.project: f.version for f in old.python if f.layer == DEPENDENCIES} if old is not None else {}
        libc = self._glibc("runtime")
        question = Question(
            where=self._where, python=recipe.python, glibc=libc, pins=pins, roots=roots, also=also, fixed=fixed,
            offers=self._offers(), forbid=recipe.forbid,
        )  # fmt: skip
        with self._story.step(f"resolving the Python {recipe.python} set for glibc 2.{libc}"):
            answer = solve(question, self._mirrors, self._story)
            return self._locked(answer.files, DEPENDENCIES), answer

    def _built_with(self, component: Component, layer: str, served: Answer | None) -> tuple[PythonFile, ...]:
        """Return what a component is built with, and what the components it needs import, without those."""
        recipe = self._recipe
        needed = [other for other in recipe.component if other.name in component.needs]
        there = tuple(
            Offer(name=other.name, version=other.version)
            for other in recipe.component
            if other.apt is not None and other.apt in recipe.base.build.apt
        )
        question = Question(
            where=f"{self._where}: component.{component.name}.build-requires", python=recipe.python,
            glibc=self._glibc("build"), offers=there, also=component.build_requires, forbid=recipe.forbid,
            pins=tuple(_pin(other) for other in needed if other.wheel is not None),
            roots=tuple(self._root(other) for other in needed if other.is_python_build),
            preferred=served.text if served is not None else None,
        )  # fmt: skip
        with self._story.step(f"resolving what {component.name} is built with"):
            files = tuple(file for file in solve(question, self._mirrors, self._story).files if file.pin is None)
            return self._locked(files, layer)

    def _locked(self, files: Sequence[Solved], layer: str) -> tuple[PythonFile, ...]:
        """Return files as the lock has them; one that the old lock has at this version stays as it is there."""
        old = self._scope.old
        kept = {(f.project, f.version, f.layer): f for f in old.python} if old is not None else {}
        owners = {component.wheel: component.name for component in self._recipe.wheels}
        found: list[PythonFile] = []
        new: list[Solved] = []
        for file in files:
            owner = owners[file.pin.name] if file.pin is not None else layer
            held = kept.get((file.project, file.version, owner))
            if held is not None and owner not in self._scope.components:
                found.append(held)
                continue
            new.append(file)
            found.append(
                PythonFile(
                    project=file.project, version=file.version, file=file.file, size=file.size, layer=owner,
                    sha256=file.sha256, index=file.pin.index if file.pin is not None else None,
                    index_kind=file.pin.kind if file.pin is not None else "simple",
                )
            )  # fmt: skip
        refuse_withdrawn(new, self._mirrors)
        return tuple(found)

    def _root(self, component: Component) -> Offer:
        return Offer(name=component.name, version=component.version, requires=self._requires[component.name])

    def _offers(self) -> tuple[Offer, ...]:
        """Return what the runtime stage has already."""
        there = dict(self._base.distributions) if self._base is not None else {}
        for component in self._recipe.component:
            name = canonicalize_name(component.distribution or "")
            if component.is_layer and name in there:
                raise RecipeError(
                    f"{self._where}: component.{component.name}: image {self._recipe.base.runtime.recipe} has "
                    f"{name} {there[name]} already",
                    hint=f"base = {name!r} instead, with version = {there[name]!r}",
                )
            if not component.is_layer:
                there[name] = component.version
        return tuple(Offer(name=name, version=version) for name, version in sorted(there.items()))

    def _glibc(self, stage: str) -> int:
        """Return the minor version of a stage's glibc 2, an old one where nothing is known of its base."""
        other = "runtime" if stage == "build" else "build"
        found = {p.version for p in self._packages if p.name == "libc6" and p.stage != other}
        base = self._recipe.base.build if stage == "build" else self._recipe.base.runtime
        bottom = base.image
        if base.recipe is not None and not found:
            below = self._below[base.recipe]
            found = {version for key, version in below.offered.items() if key == "deb libc6"}
            bottom = below.image
        minor = glibc_minor(max(found, default=""))
        if minor is not None and base.image is None:
            return minor
        known = glibc(bottom or "")
        if known is None:
            self._story.note(
                f"nothing is known of the C library of {bottom}; wheels are chosen for glibc 2.{_OLD_GLIBC}"
            )
        return known or _OLD_GLIBC


def _pin(component: Component) -> Pin:
    index = component.index
    return Pin(
        key=f"component.{component.name}", name=component.wheel or "", version=component.version,
        extras=component.extras, requires=component.requires, protected=component.protected,
        index=index.url if index is not None else None, kind=index.kind if index is not None else "simple",
    )  # fmt: skip


def told(old: Lock | None, new: Lock) -> tuple[str, ...]:
    """Return, in words, what a new lock has changed."""
    if old is None:
        return (f"{len(new.deb)} Debian packages and {len(new.python)} Python distributions locked",)
    before, after = _held(old), _held(new)
    lines = []
    for name in sorted(before.keys() | after.keys()):
        (was, its), (now, other) = before.get(name, ("not there", "")), after.get(name, ("gone", ""))
        if was != now:
            lines.append(f"{name}: {was} -> {now}")
        elif its != other:
            lines.append(f"{name}: {now} is another file, {its} -> {other}")
    return tuple(lines) or ("nothing changed",)


def _held(lock: Lock) -> dict[str, tuple[str, str]]:
    """Return what a lock holds by name: a version, and the start of the hash of its file."""
    debs = {
        f"deb {p.name}{' (build)' if p.stage == 'build' else ''}": (p.version, p.sha256[:12]) for p in lock.deb
    }
    files = {
        f"{f.project} ({f.layer})" if f.layer.endswith(BUILD_SUFFIX) else f.project: (f.version, f.sha256[:12])
        for f in lock.python
    }
    sources = {
        f"source {name}": (
            source.file or (source.commit or source.tree or source.sha256 or "")[:12],
            str(source.sha256 or "")[:12],
        )
        for name, source in lock.source.items()
    }
    patched = {
        f"source {name}, patched": (source.patched[:12], "")
        for name, source in lock.source.items()
        if source.patched is not None
    }
    patches = {f"patch {patch.name}": (_patch(patch), "") for patch in lock.patch}
    return debs | files | sources | patched | patches


def _patch(patch: LockedPatch) -> str:
    """Return the start of a hash of a patch's files, and what a tree made of it."""
    content = hashlib.sha256(" ".join(file.sha256 for file in patch.file).encode()).hexdigest()[:12]
    return f"{content} ({patch.state})" if patch.state is not None else content
