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


def _contract(text: str) -> str:
    importer, arrow, provider = text.partition(" -> ")
    if not arrow or not _NAME.fullmatch(importer) or not _NAME.fullmatch(provider) or importer == provider:
        raise ValueError(f"expected two components, such as 'vllm -> aiter', got {text!r}")
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
IndexAddress = Annotated[
    str, AfterValidator(_printable), _matching(re.compile(r"https?://[^\s@?#]+"), "an http or https address")
]
ArchiveAddress = Annotated[
    str, AfterValidator(_printable), _matching(re.compile(r"https://[^\s@]+"), "an https address")
]
GitAddress = Annotated[
    str,
    AfterValidator(_printable),
    _matching(
        re.compile(r"(?:https?|ssh|git)://[^\s?#]+"), "an address that starts with https://, ssh:// or git://"
    ),
]
Commit = Annotated[str, _matching(re.compile(r"[0-9a-f]{40}"), "40 hex digits")]
TreePath = Annotated[str, AfterValidator(_printable), AfterValidator(_inside)]
Sha256 = Annotated[str, _matching(re.compile(r"[0-9a-f]{64}"), "64 hex digits")]
Contract = Annotated[str, AfterValidator(_contract)]
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
    recipe: Annotated[Name | None, Field(description="Another image of this project, as it is served.")] = None
    apt: Annotated[AptPackages, Field(description="Packages installed in this stage.")] = ()
    env: Annotated[
        dict[EnvName, EnvValue], Field(description="Environment of the build stage's steps; never served.")
    ] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> Base:
        if [self.image, self.debian, self.recipe].count(None) != 2:
            raise ValueError("expected exactly one of 'image', 'debian' and 'recipe'")
        return self


class Bases(Table):
    """The two stages: one that compiles, one that ships."""

    build: Base
    runtime: Base


class Index(Table):
    """Where files of Python projects are listed."""

    url: Annotated[IndexAddress, Field(description="Its address.")]
    kind: Annotated[
        Literal["simple", "flat"],
        Field(description="'simple': a page for each project; 'flat': one page with the files of all."),
    ] = "simple"


def _index(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


IndexOrAddress = Annotated[Index, BeforeValidator(_index, json_schema_input_type=IndexAddress | Index)]


class Source(Table):
    """A pinned tree that components are built from."""

    path: Annotated[InsidePath | None, Field(description="A folder beside the recipe.")] = None
    git: Annotated[GitAddress | None, Field(description="Address of a git repository; needs 'commit'.")] = None
    commit: Annotated[Commit | None, Field(description="The commit of a git source, 40 hex digits.")] = None
    tag: Annotated[Line | None, Field(description="The tag that points at 'commit', with 'git'.")] = None
    branch: Annotated[Line | None, Field(description="The branch that contains 'commit', with 'git'.")] = None
    submodules: Annotated[bool, Field(description="Whether the submodules of a git source belong to it.")] = True
    sdist: Annotated[Name | None, Field(description="A project on a Python index; needs 'version'.")] = None
    version: Annotated[Version | None, Field(description="The exact version of an sdist.")] = None
    index: Annotated[
        IndexOrAddress | None, Field(description="Python index of an sdist; default: the client's.")
    ] = None
    archive: Annotated[
        ArchiveAddress | None, Field(description="Address of a tar or zip archive; needs 'sha256'.")
    ] = None
    sha256: Annotated[Sha256 | None, Field(description="The hash of an archive, 64 hex digits.")] = None

    @model_validator(mode="after")
    def _one_kind(self) -> Source:
        kinds = [kind for kind in SOURCE_KEYS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise ValueError("expected exactly one of 'path', 'git', 'sdist' and 'archive'")
        foreign = [key for kind, keys in SOURCE_KEYS.items() if kind != kinds[0] for key in keys]
        for key in foreign:
            if key in self.model_fields_set:
                raise ValueError(f"expected {key!r} only beside {_source_kind_of(key)!r}")
        if self.git is not None and self.commit is None:
            raise ValueError("a tag or branch floats: expected 'commit' beside 'git'")
        if self.git is not None and (self.tag is None) == (self.branch is None):
            raise ValueError("expected exactly one of 'tag' and 'branch' beside 'git'")
        if self.sdist is not None and self.version is None:
            raise ValueError("expected 'version' beside 'sdist'")
        if self.archive is not None and self.sha256 is None:
            raise ValueError("expected 'sha256' beside 'archive'")
        return self


SOURCE_KEYS = {
    "path": (),
    "git": ("commit", "tag", "branch", "submodules"),
    "sdist": ("version", "index"),
    "archive": ("sha256",),
}


def _source_kind_of(key: str) -> str:
    return next(kind for kind, keys in SOURCE_KEYS.items() if key in keys)


class Component(Table):
    """A thing that ends up in the image, one layer each unless it comes with the distribution or the base."""

    name: Annotated[Name, Field(description="What it is called; a Python build's distribution has this name.")]
    wheel: Annotated[
        Name | None, Field(description="Distribution on a Python index, installed from its wheel.")
    ] = None
    source: Annotated[
        Name | None, Field(description="Name of a [source]: 'build' or, without it, a Python build uses it.")
    ] = None
    apt: Annotated[AptPackage | None, Field(description="Package of the runtime stage that provides it.")] = None
    base: Annotated[Name | None, Field(description="Distribution that the runtime base has already.")] = None
    version: Annotated[Version, Field(description="The exact version; asserted in the finished image.")]
    index: Annotated[
        IndexOrAddress | None, Field(description="Python index of the wheel; default: the client's.")
    ] = None
    extras: Annotated[Lines, Field(description="Extras whose requirements are installed as well.")] = ()
    requires: Annotated[
        Lines | None,
        Field(description="What it needs at run time, instead of what its metadata asks for; needs 'reason'."),
    ] = None
    requires_files: Annotated[
        Lines, Field(description="Requirements files in the tree of a Python build that say what it needs.")
    ] = ()
    subdirectory: Annotated[
        TreePath | None, Field(description="Folder of the tree that a Python build starts in.")
    ] = None
    build: Annotated[
        Lines, Field(description="Commands run in the source; {destdir} and {offload-arch} are filled in.")
    ] = ()
    build_requires: Annotated[
        Lines, Field(description="Requirements of a Python build, locked, in its build stage alone.")
    ] = ()
    build_env: Annotated[
        dict[EnvName, EnvValue], Field(description="Environment of the build; {gfx} is filled in.")
    ] = {}
    needs: Annotated[
        Names, Field(description="Components that are laid into the build stage of this one, to be importable.")
    ] = ()
    gfx: Annotated[Targets, Field(description="GPU targets of this component; default: the recipe's.")] = ()
    protected: Annotated[bool, Field(description="No other distribution may bring or replace it.")] = False
    reason: Annotated[Line | None, Field(description="Why it deviates from what its author declares.")] = None

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

    @model_validator(mode="after")
    def _consistent(self) -> Component:
        if sum(getattr(self, kind) is not None for kind in COMPONENT_KINDS) != 1:
            raise ValueError("expected exactly one of 'wheel', 'source', 'apt' and 'base'")
        if self.name.endswith(BUILD_SUFFIX):
            raise ValueError(f"'…{BUILD_SUFFIX}' are the names of what components are built with")
        if self.requires is not None and (not self.is_layer or self.reason is None):
            raise ValueError(
                "'requires' replaces a component's own requirements: expected 'wheel' or 'source', and 'reason', "
                "with it"
            )
        if self.requires is not None and (self.extras or self.requires_files):
            raise ValueError(
                "'requires' is the whole list: expected neither 'extras' nor 'requires-files' with it"
            )
        if self.index is not None and self.wheel is None:
            raise ValueError("expected 'index' only beside 'wheel'")
        if self.extras and self.wheel is None and not self.is_python_build:
            raise ValueError("expected 'extras' only beside 'wheel' or a 'source' without 'build'")
        for key in ("build", "build_env", "needs", "gfx"):
            if getattr(self, key) and self.source is None:
                raise ValueError(f"expected {_kebab(key)!r} only beside 'source'")
        for key in ("requires_files", "subdirectory", "build_requires"):
            if getattr(self, key) and not self.is_python_build:
                raise ValueError(f"expected {_kebab(key)!r} only beside a 'source' without 'build'")
        if any("{fingerprint}" in value for value in self.build_env.values()):
            raise ValueError("build-env: expected {gfx}, got {fingerprint}, which is not known before the build")
        return self


COMPONENT_KINDS: tuple[Literal["wheel", "source", "apt", "base"], ...] = ("wheel", "source", "apt", "base")
BUILD_SUFFIX = ".build"  # of the layer of a component's build requirements, which is in no image


class Override(Table):
    """An exception from a compatibility rule."""

    rule: Annotated[Name, Field(description="Id of the rule: docs/rules.md.")]
    reason: Annotated[Line, Field(description="Why the exception is right here.")]
    until: Annotated[Line, Field(description="Requirement with an end, such as 'vllm==0.28.0'.")]


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
    contracts: Annotated[
        tuple[Contract, ...] | None,
        type_tuple,
        Field(description="Which component imports from which; default: the engine from an AITER beside it."),
    ] = None


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
    rocm: Annotated[
        Version | None, Field(description="ROCm version of the image, for the compatibility rules.")
    ] = None
    base: Bases
    source: dict[Name, Source] = {}
    component: Annotated[tuple[Component, ...], type_tuple] = ()
    forbid: Annotated[
        Lines, Field(description="Distributions the resolved set must not contain; '*' allowed.")
    ] = ()
    override: Annotated[
        tuple[Override, ...], type_tuple, Field(description="Exceptions from compatibility rules.")
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
            self._check_component(component)
            self._check_needs(component, names)
        for importer, provider in self.contracts:
            for name in (importer, provider):
                if name not in names:
                    raise ValueError(f"smoke.contracts: no component is called {name!r}{_nearest(name, names)}")
        if self.name in self.bases:
            raise ValueError(f"base.{self.bases[self.name]}.recipe: an image cannot be its own base")
        circle = _circle({component.name: component.needs for component in self.component})
        if circle:
            raise ValueError(f"component.{circle[0]}.needs: a circle: {' -> '.join(circle)}")
        return self

    def _check_component(self, component: Component) -> None:
        if component.source is not None and component.source not in self.source:
            raise ValueError(
                f"component.{component.name}.source: no [source.{component.source}]"
                f"{_nearest(component.source, list(self.source))}"
            )
        if component.name == "dependencies":
            raise ValueError("component: 'dependencies' is the name of the layer of everything else")
        runtime = self.base.runtime
        if component.apt is not None and component.apt not in runtime.apt and runtime.recipe is None:
            raise ValueError(
                f"component.{component.name}.apt: {component.apt!r} is not in base.runtime.apt, "
                "so it would not be in the image"
            )

    def _check_needs(self, component: Component, names: list[str]) -> None:
        where = f"component.{component.name}.needs"
        for need in component.needs:
            other = next((other for other in self.component if other.name == need), None)
            if other is None:
                raise ValueError(f"{where}: no component is called {need!r}{_nearest(need, names)}")
            if other.apt is not None and other.apt not in self.base.build.apt:
                raise ValueError(
                    f"{where}: {need!r} is not in the build stage; add {other.apt!r} to base.build.apt"
                )

    @property
    def bases(self) -> dict[str, str]:
        """The images of this project that the stages start from, each with the first stage that does."""
        stages = (("runtime", self.base.runtime), ("build", self.base.build))
        named = {base.recipe: stage for stage, base in reversed(stages) if base.recipe is not None}
        return {name: named[name] for name in sorted(named)}

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


def _circle(needs: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return one circle in a graph, its first name again at its end; empty when there is none."""

    def walk(path: tuple[str, ...]) -> tuple[str, ...]:
        for name in needs.get(path[-1], ()):
            if name in path:
                return (*path[path.index(name) :], name)
            found = walk((*path, name))
            if found:
                return found
        return ()

    return next((found for name in sorted(needs) if (found := walk((name,)))), ())


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else (f"; known: {', '.join(sorted(known))}" if known else "")
