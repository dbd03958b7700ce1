"""The recipe as written: its model, and the errors of a file that does not fit it.

A recipe is read in one pass; every problem of a file is reported at once, each with file, key path, what was
expected and near misses. Nothing here touches a disk: the text comes in, values or a `RecipeError` go out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import tomli
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from builder.errors import RecipeError
from builder.reference import parse_reference
from builder.target import GfxTarget

SCHEMA = 1

_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_APT = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
PLACEHOLDERS = ("fingerprint", "gfx")


def _kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _matching(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"expected {expected}, got {text!r}")
        return text

    return AfterValidator(check)


def _printable(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError(f"expected text on one line without control characters, got {text!r}")
    return text


def _absolute(text: str) -> str:
    parts = text.split("/")
    if not text.startswith("/") or text != "/" + "/".join(part for part in parts if part) or ".." in parts:
        raise ValueError(f"expected an absolute, normal path such as '/var/cache/triton', got {text!r}")
    return text


def _inside(text: str) -> str:
    if text.startswith("/") or ".." in text.split("/") or not text:
        raise ValueError(f"expected a relative path inside the image's folder, got {text!r}")
    return text


def _target(text: str) -> str:
    return str(GfxTarget(text))


def _pinned_image(text: str) -> str:
    if parse_reference(text).digest is None:
        raise ValueError(f"a tag floats: expected '@sha256:…' after it, got {text!r}")
    return text


def _known_placeholders(text: str) -> str:
    for word in _PLACEHOLDER.findall(text):
        if word not in PLACEHOLDERS:
            raise ValueError(f"expected {' or '.join(f'{{{name}}}' for name in PLACEHOLDERS)}, got '{{{word}}}'")
    return text


Line = Annotated[str, AfterValidator(_printable)]
Name = Annotated[str, _matching(_NAME, "lower-case letters and digits, joined by '.', '_' or '-'")]
AptPackage = Annotated[str, _matching(_APT, "the name of a Debian package")]
EnvName = Annotated[str, _matching(_ENV, "the name of an environment variable")]
EnvValue = Annotated[str, AfterValidator(_printable), AfterValidator(_known_placeholders)]
Version = Annotated[str, _matching(re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!~:-]*"), "one exact version")]
AbsolutePath = Annotated[str, AfterValidator(_printable), AfterValidator(_absolute)]
InsidePath = Annotated[str, AfterValidator(_printable), AfterValidator(_inside)]
Target = Annotated[str, AfterValidator(_target)]
PinnedImage = Annotated[str, AfterValidator(_printable), AfterValidator(_pinned_image)]
Sha256 = Annotated[str, _matching(re.compile(r"[0-9a-f]{64}"), "64 hex digits")]
User = Annotated[str, _matching(re.compile(r"[a-z_][a-z0-9_-]{0,31}"), "the name of a user")]


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


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


type_tuple = BeforeValidator(_tuple)
Lines = Annotated[tuple[Line, ...], type_tuple]
Names = Annotated[tuple[Name, ...], type_tuple]
AptPackages = Annotated[tuple[AptPackage, ...], type_tuple]
Targets = Annotated[tuple[Target, ...], type_tuple]
AbsolutePaths = Annotated[tuple[AbsolutePath, ...], type_tuple]


class DebianBase(Table):
    """A base bootstrapped from Debian packages, without any registry."""

    suite: Annotated[Name, Field(description="Debian suite, for example 'trixie'.")]
    components: Annotated[Names, Field(description="Archive areas to take packages from.")] = ("main",)


class Base(Table):
    """What a stage starts from, and what is added to it from the distribution."""

    image: Annotated[PinnedImage | None, Field(description="A published image, by tag and digest.")] = None
    debian: Annotated[DebianBase | None, Field(description="A base bootstrapped by mmdebstrap.")] = None
    apt: Annotated[AptPackages, Field(description="Packages installed in this stage.")] = ()
    env: Annotated[
        dict[EnvName, EnvValue], Field(description="Environment of the build stage's steps; never served.")
    ] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> Base:
        if (self.image is None) == (self.debian is None):
            raise ValueError("expected exactly one of 'image' and 'debian'")
        return self


class Bases(Table):
    """The two stages: one that compiles, one that ships."""

    build: Base
    runtime: Base


class Source(Table):
    """A pinned tree that components are built from."""

    path: Annotated[InsidePath, Field(description="A folder beside the recipe.")]


class Component(Table):
    """A thing that ends up in the image, one layer each unless it comes with the distribution."""

    name: Name
    wheel: Annotated[
        Name | None, Field(description="Distribution on a Python index, installed from its wheel.")
    ] = None
    source: Annotated[Name | None, Field(description="Name of a [source] that 'build' turns into files.")] = None
    apt: Annotated[AptPackage | None, Field(description="Package of the runtime stage that provides it.")] = None
    version: Annotated[Version, Field(description="The exact version; asserted in the finished image.")]
    index: Annotated[Line | None, Field(description="Python index of the wheel; default: the client's.")] = None
    requires: Annotated[
        Lines | None,
        Field(description="What it needs at run time, instead of what its metadata asks for; needs 'reason'."),
    ] = None
    build: Annotated[
        Lines, Field(description="Commands run in the source; {prefix}, {offload-arch} and {jobs} are filled in.")
    ] = ()
    protected: Annotated[bool, Field(description="No other distribution may bring or replace it.")] = False
    reason: Annotated[Line | None, Field(description="Why it deviates from what its author declares.")] = None

    @model_validator(mode="after")
    def _one_kind(self) -> Component:
        kinds = [kind for kind in ("wheel", "source", "apt") if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise ValueError("expected exactly one of 'wheel', 'source' and 'apt'")
        if self.requires is not None and (self.wheel is None or self.reason is None):
            raise ValueError(
                "'requires' replaces a wheel's own requirements: expected 'wheel' and 'reason' with it"
            )
        if bool(self.build) != (self.source is not None):
            raise ValueError("expected 'build' commands exactly where there is a 'source'")
        if self.index is not None and self.wheel is None:
            raise ValueError("expected 'index' only beside 'wheel'")
        return self


class Image(Table):
    """What the finished image promises to whoever runs it."""

    user: User = "engine"
    uid: Annotated[int, Field(ge=1, le=65533, description="Numeric id of the user and of its group.")] = 1000
    workdir: AbsolutePath = "/srv"
    env: dict[EnvName, EnvValue] = {}
    entrypoint: Lines = ()
    cmd: Lines = ()
    expose: Annotated[tuple[Annotated[int, Field(ge=1, le=65535)], ...], type_tuple] = ()
    writable: Annotated[
        AbsolutePaths, Field(description="The only directories the image writes to, owned by its user.")
    ] = ("/tmp",)  # noqa: S108 -- the path inside the image
    devices: AbsolutePaths = ()
    groups: Names = ()
    shm: Annotated[Line | None, Field(description="Size of /dev/shm the engine needs, for example '8g'.")] = None


class Smoke(Table):
    """What the smoke tests of the cpu tier try in the finished image."""

    imports: Annotated[Lines, Field(description="Python modules that must import.")] = ()
    absent: Annotated[Lines, Field(description="Distributions that must not be there.")] = ()
    jit: Annotated[
        tuple[Literal["sglang-hash", "triton", "hipcc"], ...],
        type_tuple,
        Field(description="What compiles at run time and must do so from a cold cache."),
    ] = ()
    triton_gfx: Annotated[
        Targets, Field(description="Targets of the Triton probe; default: the recipe's gfx.")
    ] = ()
    hip_gfx: Annotated[Targets, Field(description="Targets of the hipcc probe; default: the recipe's gfx.")] = ()


class Recipe(Table):
    """One image: its bases, sources, components, contract and smoke tests."""

    schema_: Annotated[Literal[1], Field(description="Version of this format.")]
    name: Name
    description: Line
    engine: Annotated[
        Name | None, Field(description="The component that is the engine; its version names the tag.")
    ]
    gfx: Annotated[Targets, Field(min_length=1, description="GPU targets every compiled part must contain.")]
    python: Annotated[str, _matching(re.compile(r"3\.[0-9]{1,2}"), "a Python version such as '3.12'")]
    base: Bases
    source: dict[Name, Source] = {}
    component: Annotated[tuple[Component, ...], type_tuple] = ()
    forbid: Annotated[
        Lines, Field(description="Distributions the resolved set must not contain; '*' allowed.")
    ] = ()
    image: Image = Image()
    smoke: Smoke = Smoke()

    @model_validator(mode="after")
    def _names_resolve(self) -> Recipe:
        build, runtime = self.base.build.debian, self.base.runtime.debian
        if build is not None and runtime is not None and build != runtime:
            raise ValueError("base.build.debian: expected the same table as base.runtime.debian")
        names = [component.name for component in self.component]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"component: two components are called {doubled[0]!r}")
        if self.engine is not None and self.engine not in names:
            raise ValueError(f"engine: no component is called {self.engine!r}{_nearest(self.engine, names)}")
        for component in self.component:
            if component.source is not None and component.source not in self.source:
                raise ValueError(
                    f"component.{component.name}.source: no [source.{component.source}]"
                    f"{_nearest(component.source, list(self.source))}"
                )
            if component.name == "dependencies":
                raise ValueError("component: 'dependencies' is the name of the layer of everything else")
            if component.apt is not None and component.apt not in self.base.runtime.apt:
                raise ValueError(
                    f"component.{component.name}.apt: {component.apt!r} is not in base.runtime.apt, "
                    "so it would not be in the image"
                )
        return self

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
        table = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise RecipeError(
            f"{file}: not a TOML file: {error}", hint="the format is described in docs/recipe.md"
        ) from error
    try:
        recipe = Recipe.model_validate(table)
    except ValidationError as error:
        problems = sorted({_problem(dict(item), table) for item in error.errors(include_url=False)})
        raise RecipeError(
            "\n".join(f"{file}: {problem}" for problem in problems),
            hint="every key is described in docs/recipe.md",
        ) from error
    if name is not None and recipe.name != name:
        raise RecipeError(f"{file}: name: expected {name!r}, the name of its folder, got {recipe.name!r}")
    return recipe


def _problem(item: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    location = [part for part in item["loc"] if part != "[key]"]
    path = _key_path(location, table)
    kind = item["type"]
    given = item.get("input")
    match kind:
        case "missing":
            what = "expected this key, it is missing"
        case "extra_forbidden":
            what = f"unknown key{_nearest(str(location[-1]), _known_keys(location[:-1]))}"
        case "value_error":
            what = str(item["ctx"]["error"])
        case "literal_error":
            what = f"expected {item['ctx']['expected']}, got {given!r}"
        case _:
            what = f"{item['msg'][0].lower()}{item['msg'][1:]}, got {given!r}"
    return f"{path}: {what}" if path else what


def _key_path(location: list[str | int], table: Mapping[str, Any]) -> str:
    """Write a location as people do: items of a list by their name where they have one."""
    here: Any = table
    words: list[str] = []
    for part in location:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            here = None
        if isinstance(part, int):
            named = isinstance(here, dict) and isinstance(here.get("name"), str)
            words.append(f".{here['name']}" if named else f"[{part}]")
        else:
            words.append(f".{part}" if words else part)
    return "".join(words)


def _known_keys(location: list[str | int]) -> list[str]:
    """Return the keys of the table at `location`, by walking the models' annotations."""
    model: type[BaseModel] | None = Recipe
    for part in location:
        if isinstance(part, int) or model is None:
            continue
        field = next((f for f in model.model_fields.values() if f.alias == part), None)
        model = _model_in(field.annotation) if field is not None else model
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found is not None:
            return found
    return None


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else (f"; known: {', '.join(sorted(known))}" if known else "")
