"""What an image is made of, by recipe and lock, as one flat list that every document is written from. Pure.

A part is served, or only the build has it. Nothing of a part can let anybody in: addresses are stripped here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from packaging.utils import canonicalize_name

from builder.lockfile import DebianPackage, Lock, LockedSource, PythonFile
from builder.patchledger import entry
from builder.project import Prepared
from builder.recipe import BUILD_SUFFIX, Base, Component, Patch, Recipe
from builder.reference import parse_reference
from builder.supply.addresses import (
    base_image_purl,
    debian_purl,
    generic_purl,
    git_location,
    git_purl,
    public,
    python_purl,
)

Kind = Literal["base", "debian", "python", "built", "git", "archive", "folder", "patch", "image"]
FLOATING = "taken from the base image's archive as it was on the day of the build"


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One thing that went in. `id` is unique in an image; `made_from` and `patches` are ids of other parts.

    `sha256` is that of its file, `commit` git's. `origin` is an address without credentials, None for the
    client's default. `served` is False for what only the build has. `told` are further facts, in words.
    """

    id: str
    kind: Kind
    name: str
    version: str | None = None
    purl: str | None = None
    sha256: str | None = None
    commit: str | None = None
    tree: str | None = None
    origin: str | None = None
    made_from: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    served: bool = True
    told: Mapping[str, str] = field(default_factory=dict)


def parts_of(prepared: Prepared) -> tuple[Part, ...]:
    """Return what an image is made of, with the images of this project that it is built on, sorted by id."""
    found = _parts(prepared)
    return tuple(found[key] for key in sorted(found))


def _parts(prepared: Prepared) -> dict[str, Part]:
    recipe, lock = prepared.recipe, prepared.lock
    parts: dict[str, Part] = {}
    for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime)):
        under = prepared.below.get(base.recipe or "")
        if under is not None:
            served = stage == "runtime"
            parts |= {key: replace(part, served=part.served and served) for key, part in _parts(under).items()}
            parts[f"image-{under.recipe.name}"] = Part(
                id=f"image-{under.recipe.name}", kind="image", name=under.recipe.name,
                version=under.recipe.version, sha256=under.lock_hash, served=False,
                told={"content-key": under.content_key, "stage": stage},
            )  # fmt: skip
        elif base.image is not None:
            parts |= _by_id(_base_image(stage, base))
    parts |= _by_id(_debian(prepared))
    parts |= _by_id(_wheel(file) for file in lock.python)
    for name, source in lock.source.items():
        parts |= _by_id(_source(recipe, name, source))
    for patch in recipe.patch:
        parts |= _by_id(_patch_parts(recipe, lock, patch))
    for component in recipe.component:
        part = _component(component, recipe, lock, parts)
        added = tuple(
            part_id
            for patch in recipe.patch
            if patch.target == component.name
            for part_id in (each.id for each in _patch_parts(recipe, lock, patch))
        )
        parts[part.id] = replace(part, patches=(*part.patches, *added))
    return parts


def _by_id(parts: Iterator[Part]) -> dict[str, Part]:
    return {part.id: part for part in parts}


def _base_image(stage: str, base: Base) -> Iterator[Part]:
    reference = parse_reference(base.image or "")
    yield Part(
        id=f"base-{stage}", kind="base", name=reference.name, version=reference.tag,
        purl=base_image_purl(reference), sha256=reference.digest.hex if reference.digest else None,
        origin=str(reference), served=stage == "runtime", told={"stage": stage},
    )  # fmt: skip


def suite_of(prepared: Prepared, stage: Literal["build", "runtime"]) -> str | None:
    """Return the Debian suite at the bottom of a stage, None where there is another base."""
    base = prepared.recipe.base.build if stage == "build" else prepared.recipe.base.runtime
    if base.debian is not None:
        return base.debian.suite
    under = prepared.below.get(base.recipe or "")
    return suite_of(under, "runtime") if under is not None else None


def _debian(prepared: Prepared) -> Iterator[Part]:
    lock = prepared.lock
    for package in lock.deb:
        yield _package(package, suite_of(prepared, "build" if package.stage == "build" else "runtime"))
    held = {package.name for package in lock.deb}
    for stage, base in (("build", prepared.recipe.base.build), ("runtime", prepared.recipe.base.runtime)):
        for name in base.apt if base.image is not None else ():
            if name not in held:
                yield Part(
                    id=_debian_id(name, stage), kind="debian", name=name, served=stage == "runtime",
                    told={"floating": FLOATING, "stage": stage},
                )  # fmt: skip


def _package(package: DebianPackage, suite: str | None) -> Part:
    return Part(
        id=_debian_id(package.name, package.stage), kind="debian", name=package.name, version=package.version,
        purl=debian_purl(package.name, package.version, suite=suite, file=package.file), sha256=package.sha256,
        served=package.stage != "build", told={"file": package.file, "stage": package.stage},
    )  # fmt: skip


def _debian_id(name: str, stage: str) -> str:
    return f"deb-build-{name}" if stage == "build" else f"deb-{name}"


def _wheel(file: PythonFile) -> Part:
    built_with = file.layer.endswith(BUILD_SUFFIX)
    address = public(file.index) if file.index else None
    return Part(
        id=f"python-{file.layer}-{file.project}" if built_with else f"python-{file.project}", kind="python",
        name=file.project, version=file.version, sha256=file.sha256, served=not built_with, origin=address,
        purl=python_purl(file.project, file.version, index=address, file=file.file),
        told={"file": file.file, "layer": file.layer, "index": address or "default"},
    )  # fmt: skip


def _source(recipe: Recipe, name: str, locked: LockedSource) -> Iterator[Part]:
    asked, key = recipe.source[name], f"source-{recipe.name}-{name}"
    patched = {"tree-with-patches": locked.patched} if locked.patched else {}
    if asked.git is not None and locked.commit is not None:
        modules = tuple(f"{key}-{module.path.replace('/', '-')}" for module in locked.submodule)
        refs = {kind: value for kind, value in (("tag", asked.tag), ("branch", asked.branch)) if value}
        yield Part(
            id=key, kind="git", name=name, version=asked.tag or locked.commit, commit=locked.commit,
            tree=locked.tree, purl=git_purl(name, asked.git, locked.commit), made_from=modules, served=False,
            origin=git_location(asked.git, locked.commit), told=refs | patched,
        )  # fmt: skip
        for module, part_id in zip(locked.submodule, modules, strict=True):
            own = public(module.url).rstrip("/").rpartition("/")[2].removesuffix(".git")
            yield Part(
                id=part_id, kind="git", name=own, version=module.commit, commit=module.commit, served=False,
                purl=git_purl(own, module.url, module.commit), origin=git_location(module.url, module.commit),
                told={"submodule-of": name, "path": module.path},
            )  # fmt: skip
    elif asked.sdist is not None:
        address, file = public(locked.index) if locked.index else None, locked.file or ""
        yield Part(
            id=key, kind="archive", name=str(canonicalize_name(asked.sdist)), version=asked.version,
            purl=python_purl(str(canonicalize_name(asked.sdist)), asked.version or "", index=address, file=file),
            sha256=locked.sha256, origin=address, served=False,
            told={"file": file, "index": address or "default"} | patched,
        )  # fmt: skip
    elif asked.archive is not None:
        address = public(asked.archive)
        yield Part(
            id=key, kind="archive", name=name, version=locked.sha256, sha256=locked.sha256, origin=address,
            purl=generic_purl(name, locked.sha256 or "", download=address, sha256=locked.sha256), served=False,
            told=patched,
        )  # fmt: skip
    else:
        where = {"path": f"images/{recipe.name}/{asked.path}"}
        yield Part(
            id=key, kind="folder", name=name, version=locked.tree, tree=locked.tree, served=False,
            told=where | patched,
        )  # fmt: skip


def _patch_parts(recipe: Recipe, lock: Lock, patch: Patch) -> Iterator[Part]:
    """Yield the files of a patch, one part each; one part for a patch without files, which is in the recipe."""
    whole = entry(recipe, lock, patch)
    words = {
        "patch": patch.name, "target": patch.target, "kind": patch.kind, "state": str(whole["state"]),
        "change-sha256": str(whole["sha256"]), "reason": patch.reason, "upstream": public(patch.upstream),
        "drop-when": patch.drop_when,
    }  # fmt: skip
    key = f"patch-{recipe.name}-{patch.name}"
    locked = next((each for each in lock.patch if each.name == patch.name), None)
    files = locked.file if locked is not None else ()
    if not files:
        yield Part(id=key, kind="patch", name=patch.name, served=False, told=words)
    for number, file in enumerate(files, start=1):
        state = {"state-of-file": file.state} if file.state is not None else {}
        yield Part(
            id=f"{key}-{number}", kind="patch", name=file.file, sha256=file.sha256, served=False,
            told=words | state,
        )  # fmt: skip


def _component(component: Component, recipe: Recipe, lock: Lock, parts: Mapping[str, Part]) -> Part:
    """Return the part a component is, among those that are there already or as one of its own."""
    project = str(canonicalize_name(component.distribution or component.name))
    named = {"component": component.name}
    match component.kind:
        case "wheel":
            part = parts[f"python-{project}"]
        case "source":
            made_from = (f"source-{recipe.name}-{component.source}",)
            python = component.is_python_build
            part = Part(
                id=f"python-{project}" if python else f"built-{component.name}",
                kind="python" if python else "built", name=project if python else component.name,
                version=component.version, made_from=made_from,
                purl=python_purl(project, component.version) if python
                else generic_purl(component.name, component.version),
            )  # fmt: skip
        case "apt":
            there = parts.get(f"deb-{component.apt}")
            part = there or Part(id=f"deb-{component.apt}", kind="debian", name=component.apt or "")
            if part.version is None:
                named["version-found"] = component.version
        case "base":
            part = parts.get(f"python-{project}") or Part(
                id=f"python-{project}", kind="python", name=project, version=component.version,
                purl=python_purl(project, component.version), told={"provided-by": "the base image"},
            )  # fmt: skip
    return replace(part, told={**part.told, **named})
