"""What a recipe pins: every version, tag, commit and hash in it that names a thing to fetch, by its key.

This is what a robot may move. What the recipe merely says of those things is no pin: a suite or a Python version,
the version a package of the distribution must have, what a series was made for, what an exception ends with. A
version that has to be that of its source, such as a component's that is built from it, is one: it moves along.
`default.json` says the same to Renovate, and a test holds the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from builder.openpins import STAND_INS
from builder.recipe import Component, Index, Recipe, Source
from builder.reference import parse_reference

Kind = Literal[
    "image", "untagged-image", "tag", "branch", "sdist", "release-file", "archive", "wheel", "version",
    "requirement",
]  # fmt: skip
Origin = Literal["registry", "git", "index", "flat-index", "github", "address"]
# A file of a release on GitHub, unless its name has the whole tag again: text alone does not tell the two apart.
_RELEASE_FILE = re.compile(r"https://github\.com/([^/]+/[^/]+)/releases/download/([^/%]+)/((?:(?!\2)[^/])+)")
_TAG = re.compile(r"([A-Za-z_-]*)([0-9].*)")  # letters before the version, as in 'v1.2' and 'rocm-7.2'
_LETTERS = re.compile(r"[A-Za-z_/-]*")
_EXACT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*==\s*([^\s;,*=]+)\s*(?:;.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One pin. `origin` and `source` say where its successor is asked for: which kind of place, and what there.

    `value` is the version, tag or branch, `digest` the hash that goes with it; one of the two may be missing.
    `name` is that of the distribution, the image or the [source].
    """

    key: str
    kind: Kind
    name: str
    origin: Origin
    source: str
    index: str | None = None
    value: str | None = None
    digest: str | None = None

    def as_table(self) -> dict[str, str]:
        """Return it as JSON has it: without what is missing."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def pins(recipe: Recipe) -> tuple[Pin, ...]:
    """Return every pin of a recipe: bases first, then sources, components, and what moves along with those."""
    return (
        *_images(recipe),
        *(pin for name, source in recipe.source.items() for pin in _source(name, source)),
        *(_wheel(component, component.wheel) for component in recipe.component if component.wheel is not None),
        *_versions(recipe),
        *_requirements(recipe),
    )


def _images(recipe: Recipe) -> Iterator[Pin]:
    for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime)):
        if base.image is not None:
            image = parse_reference(base.image)
            yield Pin(
                key=f"base.{stage}.image",
                kind="image" if image.tag is not None else "untagged-image",
                name=image.name,
                origin="registry",
                source=image.name,
                value=image.tag,
                digest=str(image.digest),
            )


def _source(name: str, source: Source) -> Iterator[Pin]:
    where = f"source.{name}"
    if source.git is not None:
        kind: Kind = "tag" if source.tag is not None else "branch"
        yield Pin(
            key=f"{where}.{kind}", kind=kind, name=name, origin="git", source=source.git,
            value=source.tag or source.branch,
            digest=source.commit if source.commit != STAND_INS["commit"] else None,
        )  # fmt: skip
    elif source.sdist is not None:
        origin, index = _index(source.index)
        yield Pin(
            key=f"{where}.version", kind="sdist", name=name, origin=origin, source=source.sdist, index=index,
            value=source.version,
        )  # fmt: skip
    elif source.archive is not None and (release := _RELEASE_FILE.fullmatch(source.archive)):
        yield Pin(
            key=f"{where}.archive", kind="release-file", name=name, origin="github", source=release[1],
            value=release[2], digest=source.sha256,
        )  # fmt: skip
    elif source.archive is not None:
        yield Pin(
            key=f"{where}.archive", kind="archive", name=name, origin="address", source=source.archive,
            digest=source.sha256,
        )  # fmt: skip


def _wheel(component: Component, distribution: str) -> Pin:
    origin, index = _index(component.index)
    return Pin(
        key=f"component.{component.name}.version", kind="wheel", name=distribution, origin=origin,
        source=distribution, index=index, value=component.version,
    )  # fmt: skip


def _versions(recipe: Recipe) -> Iterator[Pin]:
    """Find versions that are those of a source or of a base, and have to move with it."""
    for name, source in recipe.source.items():
        release = _RELEASE_FILE.fullmatch(source.archive or "")
        if release is not None and (parts := _TAG.fullmatch(release[2])) and parts[2] in release[3]:
            yield _of_release(f"source.{name}.archive", name, release[1], parts[2])
    for component in recipe.component:
        if component.source is None or component.source not in recipe.source:
            continue
        of = recipe.source[component.source]
        given = {f"build-env.{key}": value for key, value in component.build_env.items() if "." in value}
        for key, value in {"version": component.version, **given}.items():
            if _is_of(value, of):
                yield _along(f"component.{component.name}.{key}", component.source, of, value)
    for base in (recipe.base.runtime, recipe.base.build):
        image = parse_reference(base.image) if base.image is not None else None
        tag = image.tag or "" if image is not None else ""
        if image is not None and recipe.rocm in (tag, tag.partition("-")[0]):
            yield Pin(
                key="rocm", kind="version", name=image.name, origin="registry", source=image.name,
                value=recipe.rocm,
            )  # fmt: skip
            break


def _is_of(version: str, source: Source) -> bool:
    """Whether a version is that of a source: the same, or behind the letters that its tags begin with."""
    if source.sdist is not None:
        return version == source.version
    release = _RELEASE_FILE.fullmatch(source.archive or "")
    tag = source.tag or (release[2] if release is not None else "")
    before = tag.partition(version)[0]
    return tag == before + version and _LETTERS.fullmatch(before) is not None


def _along(key: str, name: str, source: Source, version: str) -> Pin:
    if source.sdist is not None:
        origin, index = _index(source.index)
        return Pin(
            key=key, kind="version", name=name, origin=origin, source=source.sdist, index=index, value=version
        )
    if source.git is not None:
        return Pin(key=key, kind="version", name=name, origin="git", source=source.git, value=version)
    release = _RELEASE_FILE.fullmatch(source.archive or "")
    assert release is not None  # noqa: S101 -- `_is_of` found its tag
    return _of_release(key, name, release[1], version)


def _of_release(key: str, name: str, repository: str, version: str) -> Pin:
    return Pin(key=key, kind="version", name=name, origin="github", source=repository, value=version)


def _requirements(recipe: Recipe) -> Iterator[Pin]:
    for component in recipe.component:
        for key, lines in (("requires", component.requires or ()), ("build-requires", component.build_requires)):
            for place, line in enumerate(lines):
                if exact := _EXACT.fullmatch(line):
                    yield Pin(
                        key=f"component.{component.name}.{key}[{place}]", kind="requirement", name=exact[1],
                        origin="index", source=exact[1], value=exact[2],
                    )  # fmt: skip


def _index(index: Index | None) -> tuple[Literal["index", "flat-index"], str | None]:
    if index is None:
        return "index", None
    return ("flat-index" if index.kind == "flat" else "index"), index.url
