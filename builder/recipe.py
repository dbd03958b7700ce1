"""The recipe as written: its model, and how a file becomes one.

A recipe is read in one pass; every problem of a file is reported at once, each with file, key path, what was
expected and near misses. Nothing here touches a disk: the text comes in, values or a `RecipeError` go out.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from builder import foreign, grammar
from builder.agreement import disagreements
from builder.buildtable import Build
from builder.debiantable import DebianBase
from builder.errors import PatchError, RecipeError
from builder.grammar import PLACEHOLDERS, Name, Sha256, type_tuple
from builder.kvcache import KvSetting, KvValue
from builder.marks import open_points
from builder.openpins import OpenPin, open_disagreements, with_stand_ins
from builder.patchtables import Patch, leaving
from builder.problems import Problem, problems
from builder.publishtable import Publish
from builder.smoketables import Smoke
from builder.tables import Table, exactly_one

__all__ = [
    "BUILD_SUFFIX", "PLACEHOLDERS", "Base", "Build", "Component", "DebianBase", "Image", "Index", "Override",
    "Patch", "Recipe", "Sha256", "Smoke", "Source", "Table", "parse_recipe", "type_tuple",
]  # fmt: skip

SCHEMA = 1
BUILD_SUFFIX = ".build"  # of the layer of a component's build requirements, which is in no image
_DESCRIBED = "every key is described in docs/recipe.md"


class Base(Table):
    """What a stage starts from, and what is added to it from the distribution."""

    model_config = ConfigDict(json_schema_extra=exactly_one("image", "debian", "recipe"))

    image: Annotated[
        grammar.PinnedImage | None,
        Field(description="A published image, by tag and digest: host/path:tag@sha256:…"),
    ] = None
    debian: Annotated[DebianBase | None, Field(description="A base bootstrapped by mmdebstrap.")] = None
    recipe: Annotated[Name | None, Field(description="Another image of this project, as it is served.")] = None
    apt: Annotated[grammar.AptPackages, Field(description="Packages installed in this stage.")] = ()
    env: Annotated[
        dict[grammar.EnvName, grammar.Line],
        Field(description="Environment of the build stage's steps, only in base.build; never served."),
    ] = {}  # noqa: RUF012 -- pydantic copies it

    @property
    def origin(self) -> str:
        """What it starts from, in words: a reference, an image of this project, or a suite of Debian."""
        return self.image or self.recipe or f"debian {self.debian.words if self.debian else ''}"


class Bases(Table):
    """The two stages: one that compiles, one that ships."""

    build: Annotated[Base, Field(description="The stage that compiles; nothing of it is shipped.")]
    runtime: Annotated[Base, Field(description="The stage that ships, with what the first request compiles with.")]


class Index(Table):
    """Where files of Python projects are listed."""

    url: Annotated[grammar.IndexAddress, Field(description="Its address.")]
    kind: Annotated[
        Literal["simple", "flat"],
        Field(description="'simple': a page for each project; 'flat': one page with the files of all."),
    ] = "simple"


def _index(value: object) -> object:
    return {"url": _ADDRESS.validate_python(value)} if isinstance(value, str) else value


def _index_or_address(value: object) -> object:
    try:
        return _index(value)
    except ValidationError as error:  # so that it is told of the key, not of a table that nobody wrote
        raise error.errors()[0].get("ctx", {}).get("error", ValueError(str(error))) from None


_ADDRESS: TypeAdapter[str] = TypeAdapter(grammar.IndexAddress)
IndexOrAddress = Annotated[
    Index, BeforeValidator(_index_or_address, json_schema_input_type=grammar.IndexAddress | Index)
]
COMPONENT_KINDS: tuple[Literal["wheel", "source", "apt", "base"], ...] = ("wheel", "source", "apt", "base")


class Source(Table):
    """A pinned tree that components are built from."""

    model_config = ConfigDict(
        json_schema_extra={
            **exactly_one("path", "git", "sdist", "archive"),
            "dependencies": {
                "commit": ["git"], "tag": ["git"], "branch": ["git"], "submodules": ["git"],
                "sdist": ["version"], "version": ["sdist"], "index": ["sdist"], "archive": ["sha256"],
                "sha256": ["archive"],
            },
        }
    )  # fmt: skip

    path: Annotated[grammar.InsidePath | None, Field(description="A folder beside the recipe.")] = None
    git: Annotated[grammar.GitAddress | None, Field(description="Address of a git repository.")] = None
    commit: Annotated[grammar.Commit | None, Field(description="The whole commit, with 'git'.")] = None
    tag: Annotated[grammar.Ref | None, Field(description="The tag that points at the commit, with 'git'.")] = None
    branch: Annotated[
        grammar.Ref | None, Field(description="The branch that contains the commit, with 'git'.")
    ] = None
    submodules: Annotated[
        bool, Field(description="Whether the submodules of a git source belong to it; default: they do.")
    ] = True
    sdist: Annotated[Name | None, Field(description="A project on a Python index, taken from its sdist.")] = None
    version: Annotated[grammar.Version | None, Field(description="The exact version, with 'sdist'.")] = None
    index: Annotated[
        IndexOrAddress | None, Field(description="Python index of the sdist; default: the client's.")
    ] = None
    archive: Annotated[grammar.ArchiveAddress | None, Field(description="Address of a tar or zip archive.")] = None
    sha256: Annotated[Sha256 | None, Field(description="The hash of the archive, with 'archive'.")] = None
    ignore: Annotated[
        grammar.TreePatterns,
        Field(description="Files and folders of the tree that nothing is built of, left out once it is patched."),
    ] = ()


class Component(Table):
    """A thing that ends up in the image, one layer each unless the distribution or the base brings it."""

    model_config = ConfigDict(
        json_schema_extra={
            **exactly_one(*COMPONENT_KINDS),
            "dependencies": {
                "wheel": ["version"], "source": ["version"], "apt": ["version"],
                "index": ["wheel"], "requires": ["reason"], "build": ["source"], "build-env": ["source"],
                "needs": ["source"], "requires-files": ["source"],
                "subdirectory": ["source"], "build-requires": ["source"],
            },
        }
    )  # fmt: skip

    name: Annotated[Name, Field(description="Its name in messages, records and layers.")]
    wheel: Annotated[
        Name | None, Field(description="Distribution on a Python index, installed from its wheel.")
    ] = None
    source: Annotated[
        Name | None, Field(description="Name of a [source]: 'build' makes files of it, or else a wheel is built.")
    ] = None
    apt: Annotated[
        grammar.AptPackage | None, Field(description="Package of base.runtime.apt that provides it.")
    ] = None
    base: Annotated[Name | None, Field(description="Distribution that the runtime base has already.")] = None
    version: Annotated[grammar.Version, Field(description="The exact version; asserted in the finished image.")]
    index: Annotated[
        IndexOrAddress | None, Field(description="Python index of the wheel; default: the client's.")
    ] = None
    extras: Annotated[grammar.Names, Field(description="Extras whose requirements are installed as well.")] = ()
    requires: Annotated[
        grammar.Lines | None,
        Field(description="What it needs at run time, instead of what its metadata asks for; needs 'reason'."),
    ] = None
    build: Annotated[
        grammar.Lines,
        Field(description="Commands run in the source; {destdir} and {offload-arch} are filled in."),
    ] = ()
    requires_files: Annotated[
        grammar.TreePaths,
        Field(description="Requirements files in the tree that say what a Python build needs at run time."),
    ] = ()
    subdirectory: Annotated[
        grammar.TreePath | None, Field(description="Folder of the tree that a Python build starts in.")
    ] = None
    build_requires: Annotated[
        grammar.Lines, Field(description="Requirements of a Python build, locked, in its stage alone.")
    ] = ()
    build_env: Annotated[
        dict[grammar.EnvName, grammar.BuildValue],
        Field(description="Environment of the build; {gfx} is filled in."),
    ] = {}  # noqa: RUF012 -- pydantic copies it
    needs: Annotated[
        grammar.Names, Field(description="Components that must be importable while this one is built.")
    ] = ()
    gfx: Annotated[
        grammar.Targets, Field(description="GPU targets of this component; default: the recipe's.")
    ] = ()
    protected: Annotated[bool, Field(description="No other distribution may bring or replace it.")] = False
    reason: Annotated[
        grammar.Sentence | None, Field(description="Why it deviates from what its author declares.")
    ] = None

    @property
    def kind(self) -> Literal["wheel", "source", "apt", "base"]:
        """Where it comes from."""
        return next(kind for kind in COMPONENT_KINDS if getattr(self, kind) is not None)

    @property
    def is_layer(self) -> bool:
        """Whether it is a layer of the image."""
        return self.kind in ("wheel", "source")

    @property
    def is_python_build(self) -> bool:
        """Whether its source is built to a wheel."""
        return self.source is not None and not self.build

    @property
    def distribution(self) -> str | None:
        """Name of its Python distribution; None where its build commands decide that."""
        return self.wheel or self.base or (None if self.build else self.name)


class Override(Table):
    """An exception from a compatibility rule."""

    rule: Annotated[Name, Field(description="Id of the rule, as docs/rules.md has it.")]
    reason: Annotated[grammar.Sentence, Field(description="Why the exception is right here.")]
    until: Annotated[
        grammar.Sentence, Field(description="Requirement the exception ends with, such as 'vllm==0.28.0'.")
    ]


class Image(Table):
    """What the finished image promises to whoever runs it."""

    user: Annotated[grammar.User, Field(description="The unprivileged user; made in the image.")] = "engine"
    uid: Annotated[
        int, grammar.Between(1, 65533), Field(description="Numeric id of the user and of its group.")
    ] = 1000
    workdir: Annotated[grammar.AbsolutePath, Field(description="Directory it starts in.")] = "/srv"
    env: Annotated[
        dict[grammar.EnvName, grammar.EnvValue],
        Field(description="Environment it is served with; {fingerprint} and {gfx} are filled in."),
    ] = {}  # noqa: RUF012 -- pydantic copies it
    entrypoint: Annotated[grammar.Lines, Field(description="As in a Dockerfile; best none.")] = ()
    cmd: Annotated[grammar.Lines, Field(description="As in a Dockerfile.")] = ()
    expose: Annotated[grammar.Ports, Field(description="TCP ports it listens on.")] = ()
    writable: Annotated[
        grammar.WritablePaths, Field(description="The only directories it writes to, owned by its user.")
    ] = ("/tmp",)  # noqa: S108 -- the path inside the image
    devices: Annotated[grammar.Devices, Field(description="Devices it needs, as a label.")] = ()
    groups: Annotated[grammar.Names, Field(description="Groups of the host its user needs, as a label.")] = ()
    shm: Annotated[
        grammar.Size | None, Field(description="Size of /dev/shm the engine needs, for example '8g'.")
    ] = None


class Recipe(Table):
    """One image: its bases, sources, components, contract and smoke tests."""

    schema_: Annotated[
        Literal[1],
        grammar.only(SCHEMA, "the only format this version reads"),
        Field(description="Version of this format."),
    ]
    name: Annotated[Name, Field(description="The name of the recipe's folder.")]
    description: Annotated[grammar.Sentence, Field(description="What the image is for; not in the image.")]
    engine: Annotated[
        Name | None, Field(description="The component that is the engine; its version names the tag.")
    ] = None
    variant_of: Annotated[
        Name | None, Field(description="Another recipe, whose pins this one has; see docs/recipe.md.")
    ] = None
    gfx: Annotated[grammar.SomeTargets, Field(description="GPU targets every compiled part must contain.")]
    python: Annotated[grammar.PythonVersion, Field(description="The image's Python; wheels are chosen for it.")]
    rocm: Annotated[
        grammar.Version | None, Field(description="ROCm version of the image, for the compatibility rules.")
    ] = None
    base: Annotated[Bases, Field(description="The two stages.")]
    source: Annotated[dict[Name, Source], Field(description="Pinned trees by name.")] = {}  # noqa: RUF012
    component: Annotated[
        tuple[Component, ...], type_tuple, Field(description="What the image is made of, one layer each.")
    ] = ()
    patch: Annotated[
        tuple[Patch, ...], type_tuple, Field(description="What is changed in components, in this order.")
    ] = ()
    forbid: Annotated[
        grammar.DistributionPatterns,
        Field(description="Distributions the resolved set must not contain; '*' for any text."),
    ] = ()
    override: Annotated[
        tuple[Override, ...], type_tuple, Field(description="Exceptions from compatibility rules.")
    ] = ()
    open: Annotated[
        tuple[OpenPin, ...], type_tuple, Field(description="Pins that are not known yet; see docs/recipe.md.")
    ] = ()
    build: Annotated[Build, Field(description="What a machine needs to build it; not in the image.")] = Build()
    publish: Annotated[Publish, Field(description="What names it where it is published; not in the image.")] = (
        Publish()
    )
    kv_cache: Annotated[
        dict[KvSetting, KvValue],
        Field(description="Options of the engine that stored KV pages depend on, as '--page-size' without '--'."),
    ] = {}  # noqa: RUF012 -- pydantic copies it
    image: Annotated[Image, Field(description="What the image promises to whoever runs it.")] = Image()
    smoke: Annotated[Smoke, Field(description="What its smoke tests try.")] = Smoke()

    @property
    def folder(self) -> str:
        """The image whose folder has the files beside the recipe, and its tests: of a variant the origin's."""
        return self.variant_of or self.name

    @property
    def bases(self) -> dict[str, str]:
        """The images of this project that the stages start from, each with the first stage that does."""
        stages = (("runtime", self.base.runtime), ("build", self.base.build))
        named = {base.recipe: stage for stage, base in reversed(stages) if base.recipe is not None}
        return {name: named[name] for name in sorted(named)}

    @property
    def built_sources(self) -> tuple[str, ...]:
        """The sources that components are built from; of others, patches alone are taken."""
        used = {component.source for component in self.component}
        return tuple(name for name in self.source if name in used)

    @property
    def contracts(self) -> tuple[tuple[str, str], ...]:
        """The pairs of components of which the first imports from the second; by default engine and AITER."""
        if self.smoke.contracts is not None:
            pairs = (text.split(" -> ") for text in self.smoke.contracts)
            return tuple((importer, provider) for importer, provider in pairs)
        kernels = next((c.name for c in self.component if c.name in ("aiter", "amd-aiter")), None)
        return ((self.engine, kernels),) if self.engine and kernels not in (None, self.engine) else ()

    @property
    def version(self) -> str:
        """The engine's version, or '0' for an image without an engine."""
        return next((c.version for c in self.component if c.name == self.engine), "0")

    @property
    def wheels(self) -> tuple[Component, ...]:
        """The components that come from a Python index."""
        return tuple(component for component in self.component if component.wheel is not None)


def parse_recipe(text: str, *, file: str, name: str | None = None) -> Recipe:
    """Return the recipe in `text`. `file` is how messages call it; `name` is the folder's, which must agree.

    Raises one `RecipeError` with all problems of the file, `PatchError` for a patch that leaves its tree.
    """
    try:
        table = foreign.toml(text, parse_float=grammar.Number)
    except ValueError as error:
        raise _no_toml(str(error), text, file) from error
    recipe, found, whole = None, [], with_stand_ins(table)
    try:
        recipe = Recipe.model_validate(whole)
    except ValidationError as error:
        found = problems(error, whole, Recipe)
    drafted = list(open_points(table))
    places = {problem.where for problem in drafted}
    found = [*drafted, *(problem for problem in found if not _is_told(problem.where, places))]
    broken = {problem.where for problem in found}
    told = (*open_disagreements(table), *disagreements(whole, name))
    found += [problem for problem in told if problem.where not in broken]
    if found or recipe is None:
        raise _refused(found, file)
    if outside := leaving(recipe.patch):
        raise PatchError(
            "\n".join(f"{file}: {text}" for text in outside),
            hint="paths are relative to the root of the tree that is patched, and stay in it",
        )
    return recipe


def _is_told(where: str, places: set[str]) -> bool:
    """Whether a problem is at an open point of a draft, or of the list that holds it."""
    return where in places or any(place.startswith(f"{where}[") for place in places)


def _refused(found: list[Problem], file: str) -> RecipeError:
    hints = sorted({problem.hint for problem in found if problem.hint is not None})
    return RecipeError(
        "\n".join(f"{file}: {text}" for text in sorted({str(problem) for problem in found})),
        hint="; ".join([*hints, _DESCRIBED]),
    )


def _no_toml(said: str, text: str, file: str) -> RecipeError:
    """Say where a file stops being TOML, and show the line."""
    twice = {"Cannot overwrite a value": "this key is given twice", "Cannot declare": "this table is given twice"}
    words = next((new for old, new in twice.items() if said.startswith(old)), said.partition(" (at ")[0])
    place = re.search(r"\(at line ([0-9]+), column [0-9]+\)", said)
    lines = text.splitlines()
    shown: tuple[str, ...] = ()
    where = "at its end"
    if place is not None:
        number = int(place[1])
        where = f"line {number}"
        shown = tuple(f"{number}: {grammar.visible(line)}" for line in lines[number - 1 : number])
    return RecipeError(
        f"{file}: not a TOML file: {where}: {words[0].lower()}{words[1:]}",
        details=shown,
        hint="the format is described in docs/recipe.md",
    )
