"""The recipe as written: its model, and how a file becomes one.

A recipe is read in one pass; every problem of a file is reported at once, each with file, key path, what was
expected and near misses. Nothing here touches a disk: the text comes in, values or a `RecipeError` go out.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import tomli
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from builder import grammar
from builder.agreement import disagreements
from builder.errors import RecipeError
from builder.grammar import PLACEHOLDERS, Name, Sha256, type_tuple
from builder.problems import Problem, problems

__all__ = ["PLACEHOLDERS", "Base", "Component", "Image", "Recipe", "Sha256", "Smoke", "parse_recipe", "type_tuple"]

SCHEMA = 1
_DESCRIBED = "every key is described in docs/recipe.md"


def _kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _exactly_one(*keys: str) -> dict[str, JsonValue]:
    """Return, for the JSON Schema, that exactly one of some keys is there; `agreement` checks it with words."""
    return {"oneOf": [{"required": [key]} for key in keys]}


class Table(BaseModel):
    """A table of the recipe: immutable, keys in kebab case, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_kebab,
        populate_by_name=False,
        strict=True,
        use_enum_values=True,
    )


class DebianBase(Table):
    """A base bootstrapped from Debian packages, without any registry."""

    suite: Annotated[grammar.Suite, Field(description="Code name of the Debian suite, for example 'trixie'.")]
    components: Annotated[grammar.Names, Field(description="Archive areas to take packages from.")] = ("main",)


class Base(Table):
    """What a stage starts from, and what is added to it from the distribution."""

    model_config = ConfigDict(json_schema_extra=_exactly_one("image", "debian"))

    image: Annotated[
        grammar.PinnedImage | None,
        Field(description="A published image, by tag and digest: host/path:tag@sha256:…"),
    ] = None
    debian: Annotated[DebianBase | None, Field(description="A base bootstrapped by mmdebstrap.")] = None
    apt: Annotated[grammar.AptPackages, Field(description="Packages installed in this stage.")] = ()
    env: Annotated[
        dict[grammar.EnvName, grammar.Line],
        Field(description="Environment of the build stage's steps, only in base.build; never served."),
    ] = {}


class Bases(Table):
    """The two stages: one that compiles, one that ships."""

    build: Annotated[Base, Field(description="The stage that compiles; nothing of it is shipped.")]
    runtime: Annotated[Base, Field(description="The stage that ships, with what the first request compiles with.")]


class Source(Table):
    """A pinned tree that components are built from."""

    path: Annotated[grammar.InsidePath, Field(description="A folder beside the recipe.")]


class Component(Table):
    """A thing that ends up in the image, one layer each unless it comes with the distribution."""

    model_config = ConfigDict(
        json_schema_extra={
            **_exactly_one("wheel", "source", "apt"),
            "dependencies": {
                "index": ["wheel"], "requires": ["wheel", "reason"], "build": ["source"], "source": ["build"]
            },
        }
    )  # fmt: skip

    name: Annotated[Name, Field(description="Its name in messages, records and layers.")]
    wheel: Annotated[
        Name | None, Field(description="Distribution on a Python index, installed from its wheel.")
    ] = None
    source: Annotated[Name | None, Field(description="Name of a [source] that 'build' turns into files.")] = None
    apt: Annotated[
        grammar.AptPackage | None, Field(description="Package of base.runtime.apt that provides it.")
    ] = None
    version: Annotated[grammar.Version, Field(description="The exact version; asserted in the finished image.")]
    index: Annotated[
        grammar.IndexAddress | None, Field(description="Python index of the wheel; default: the client's.")
    ] = None
    requires: Annotated[
        grammar.Lines | None,
        Field(description="What it needs at run time, instead of what its metadata asks for; needs 'reason'."),
    ] = None
    build: Annotated[
        grammar.Lines,
        Field(description="Commands run in the source; {destdir} and {offload-arch} are filled in."),
    ] = ()
    protected: Annotated[bool, Field(description="No other distribution may bring or replace it.")] = False
    reason: Annotated[
        grammar.Sentence | None, Field(description="Why it deviates from what its author declares.")
    ] = None


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
    ] = {}
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


class Smoke(Table):
    """What the smoke tests of the cpu tier try in the finished image."""

    imports: Annotated[grammar.Modules, Field(description="Python modules that must import.")] = ()
    absent: Annotated[grammar.Distributions, Field(description="Distributions that must not be there.")] = ()
    jit: Annotated[
        tuple[Literal["sglang-hash", "triton", "hipcc"], ...],
        type_tuple,
        grammar.Distinct(),
        Field(description="What compiles at run time and must do so from a cold cache."),
    ] = ()
    triton_gfx: Annotated[
        grammar.Targets, Field(description="Targets of the Triton probe; default: the recipe's gfx.")
    ] = ()
    hip_gfx: Annotated[
        grammar.Targets, Field(description="Targets of the hipcc probe; default: the recipe's gfx.")
    ] = ()


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
    gfx: Annotated[grammar.SomeTargets, Field(description="GPU targets every compiled part must contain.")]
    python: Annotated[grammar.PythonVersion, Field(description="The image's Python; wheels are chosen for it.")]
    base: Annotated[Bases, Field(description="The two stages.")]
    source: Annotated[dict[Name, Source], Field(description="Pinned trees by name.")] = {}
    component: Annotated[
        tuple[Component, ...], type_tuple, Field(description="What the image is made of, one layer each.")
    ] = ()
    forbid: Annotated[
        grammar.DistributionPatterns,
        Field(description="Distributions the resolved set must not contain; '*' for any text."),
    ] = ()
    image: Annotated[Image, Field(description="What the image promises to whoever runs it.")] = Image()
    smoke: Annotated[Smoke, Field(description="What its smoke tests try.")] = Smoke()

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

    Raises one `RecipeError` with all problems of the file.
    """
    try:
        table = tomli.loads(text, parse_float=grammar.Number)
    except tomli.TOMLDecodeError as error:
        raise _no_toml(str(error), text, file) from error
    recipe, found = None, []
    try:
        recipe = Recipe.model_validate(table)
    except ValidationError as error:
        found = problems(error, table, Recipe)
    broken = {problem.where for problem in found}
    found += [problem for problem in disagreements(table, name) if problem.where not in broken]
    if found or recipe is None:
        raise _refused(found, file)
    return recipe


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
