"""Where this user's machine gets things from: `mirrors.toml`, and what pip, uv and apt are configured with.

Mirrors belong to the user, never to a recipe: they change where an object is fetched, not what it must be. This
module only translates addresses. It fetches nothing and checks no hash.
"""

from __future__ import annotations

import ast
import difflib
import ipaddress
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from builder import foreign
from builder.errors import EngineError, RecipeError
from builder.process import run

FILE_NAME = "mirrors.toml"
VARIABLE = "ROCM_IMAGES_MIRRORS"
DEFAULT = "default"  # stands for the client's own default Python index

_REGISTRY = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_HOST = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*(:[0-9]+)?")
_OFF = ("false", "no", "0", "off", "without", "disable")
_ROLLING = ("stable", "oldstable", "testing", "unstable", "sid", "experimental")


def _registry(text: str) -> str:
    if not _REGISTRY.fullmatch(text):
        raise ValueError(f"expected HOST[:PORT][/PATH] in lower case, without a scheme, got {text!r}")
    return text


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError(f"expected HOST[:PORT] in lower case, without a scheme and a path, got {text!r}")
    return text


def _address(*schemes: str) -> AfterValidator:
    def check(text: str) -> str:
        parts = urlsplit(text)
        if parts.scheme not in schemes or not (parts.netloc or (parts.scheme == "file" and parts.path)):
            raise ValueError(f"expected an address that starts with {'://, '.join(schemes)}://, got {text!r}")
        return text.rstrip("/")

    return AfterValidator(check)


def _default_or(text: str) -> str:
    if text == DEFAULT:
        return text
    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).netloc:
        raise ValueError(f"expected 'default' or an address that starts with http:// or https://, got {text!r}")
    return text.rstrip("/")


Registry = Annotated[str, AfterValidator(_registry)]
Host = Annotated[str, AfterValidator(_host)]
GitFrom = Annotated[str, _address("https", "http", "ssh", "git")]
GitTo = Annotated[str, _address("https", "http", "ssh", "git", "file")]
Web = Annotated[str, _address("https", "http")]
WebOrFile = Annotated[str, _address("https", "http", "file")]
IndexFrom = Annotated[str, AfterValidator(_default_or)]


class _Table(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )  # fmt: skip


class DebianTable(_Table):
    """The archive Debian packages and bases come from."""

    mirror: Annotated[WebOrFile | None, Field(description="Address of the archive, above dists/ and pool/.")] = (
        None
    )
    allow_expired: Annotated[
        bool, Field(description="Accept a Release file past its Valid-Until, as a frozen copy has.")
    ] = False


class MirrorFile(_Table):
    """The content of `mirrors.toml`."""

    registries: Annotated[dict[Registry, Registry], Field(description="Image name prefix -> prefix.")] = {}
    git: Annotated[dict[GitFrom, GitTo], Field(description="Repository address prefix -> prefix.")] = {}
    indexes: Annotated[
        dict[IndexFrom, WebOrFile], Field(description="Python index prefix, or 'default', -> address.")
    ] = {}
    archives: Annotated[dict[Web, WebOrFile], Field(description="Download address prefix -> prefix.")] = {}
    debian: DebianTable = DebianTable()
    wheelhouses: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
        Field(description="Folders of wheels, relative to this file."),
    ] = ()
    plain_http: Annotated[
        tuple[Host, ...],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
        Field(description="Registries that are spoken to without TLS, as an engine's 'insecure-registries'."),
    ] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DebianMirror:
    """A Debian archive. `origin` tells, for people, who said so."""

    url: str
    allow_expired: bool
    origin: str


class Machine:
    """What the programs of this machine are configured with, asked once and only when needed."""

    @property
    def pip(self) -> Mapping[str, tuple[str, ...]]:
        """Settings of pip: option name -> words. The environment wins over pip's files, as it does for pip."""
        names = sorted(name for name in os.environ if name.startswith(("PIP_", "XDG_")) or name == "HOME")
        return _ask_pip(tuple((name, os.environ[name]) for name in names))

    def index(self) -> str | None:
        """Return the default Python index this machine is configured with, None for the client's own."""
        for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
            if value := os.environ.get(name, ""):
                return re.sub(r"^[\w.-]+=(?=[a-z]+:)", "", value)  # uv lets an index have a name
        words = self.pip.get("index-url", ())
        return words[0] if words else None

    def extra_indexes(self) -> tuple[str, ...]:
        """Return the further indexes pip looks at."""
        return self.pip.get("extra-index-url", ())

    def wheelhouses(self) -> tuple[Path, ...]:
        """Return the local folders pip and uv take wheels from."""
        uv = os.environ.get("UV_FIND_LINKS", "").replace(",", " ").split()
        places = (_local(word) for word in (*self.pip.get("find-links", ()), *uv))
        return tuple(place for place in places if place is not None and place.is_dir())

    def ca_bundle(self) -> Path | None:
        """Return the certificates this machine trusts instead of a client's own; None when it names none."""
        settings = [
            (name, os.environ.get(name, "")) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
        ]
        for name, value in settings:
            if value:
                return _bundle(name, value)
        words = self.pip.get("cert", ())
        return _bundle("pip's setting 'cert'", words[0]) if words else None

    def apt_archive(self, suite: str | None) -> str | None:
        """Return the Debian archive of this machine's apt, best the one that serves `suite`."""
        try:
            listed = _apt_targets("$(ORIGIN)|$(CODENAME)|$(SUITE)|$(REPO_URI)")
            found = [target for target in listed if target[0] == "Debian"]
            if not found:
                found = _unfetched_targets()
        except EngineError:
            return None
        usable = [
            (names, url.rstrip("/"))
            for _, *names, url in found
            if not any("-" in name for name in names) and url.startswith(("http://", "https://", "file:"))
        ]
        fitting = [url for names, url in usable if suite in names]
        return next(iter(fitting or [url for _, url in usable]), None)

    def apt_allows_expired(self) -> bool:
        """Whether the owner of this machine told apt to accept expired Release files."""
        try:
            dumped = _apt("apt-config", "dump", "Acquire::Check-Valid-Until")
        except EngineError:
            return False
        found = re.search(r'^Acquire::Check-Valid-Until "(.*)";$', dumped, re.MULTILINE | re.IGNORECASE)
        return found is not None and found[1].lower() in _OFF


@dataclass(frozen=True, kw_only=True, slots=True)
class Mirrors:
    """Translates the addresses of recipes and locks into those this machine fetches from."""

    table: MirrorFile = field(default_factory=MirrorFile)
    file: Path | None = None
    machine: Machine = field(default_factory=Machine)

    def registry(self, reference: str) -> str:
        """Return an image reference with its registry, and path where so asked, replaced."""
        return _mapped(
            reference, self.table.registries, lambda key, rest: rest[0] in ("/:@" if "/" in key else "/")
        )

    def is_plain(self, host: str) -> bool:
        """Whether a registry is spoken to in plain http: one on this machine, as engines do, or one named so."""
        name = host.rpartition(":")[0] if re.search(r":[0-9]+$", host) else host
        try:
            here = name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
        except ValueError:
            here = False
        return here or host in self.table.plain_http

    def git(self, url: str) -> str:
        """Return the address to fetch a git repository from."""
        return _mapped(url, self.table.git, lambda _, rest: rest.startswith("/") or rest == ".git")

    def index(self, url: str | None) -> str | None:
        """Return the address of a Python index; None stands for the client's default, in and out."""
        if url is None:
            return self.table.indexes.get(DEFAULT) or self.machine.index()
        return _mapped(url, self.table.indexes, lambda _, rest: rest.startswith("/"))

    def extra_indexes(self) -> tuple[str, ...]:
        """Return further places for files of the default index; none when `mirrors.toml` names that one."""
        return () if DEFAULT in self.table.indexes else self.machine.extra_indexes()

    def archive(self, url: str) -> str:
        """Return the address to download a file from."""
        tables = {key: to for key, to in self.table.indexes.items() if key != DEFAULT} | dict(self.table.archives)
        return _mapped(url, tables, lambda _, rest: rest.startswith("/"))

    @property
    def wheelhouses(self) -> tuple[Path, ...]:
        """Folders of wheels, those of `mirrors.toml` first."""
        named = tuple(_beside(self.file, text) for text in self.table.wheelhouses)
        return tuple(dict.fromkeys((*named, *self.machine.wheelhouses())))

    def ca_bundle(self) -> Path | None:
        """Return the certificates to trust on the way to indexes and mirrors; None for the client's own."""
        return self.machine.ca_bundle()

    def debian_mirror(self, suite: str | None = None) -> DebianMirror:
        """Return the Debian archive to use, best one that serves `suite`. Raises `EngineError` without one."""
        asked = self.table.debian
        if asked.mirror is not None:
            return DebianMirror(url=asked.mirror, allow_expired=asked.allow_expired, origin=f"set in {self.file}")
        url = self.machine.apt_archive(suite)
        if url is None:
            raise EngineError(
                "no Debian mirror is known: the apt of this machine names none",
                hint=f'set debian.mirror = "http://…" in {self.file or FILE_NAME}',
            )
        allowed = asked.allow_expired or self.machine.apt_allows_expired()
        policy = ", expired Release files accepted" if allowed else ""
        return DebianMirror(url=url, allow_expired=allowed, origin=f"as apt on this machine is configured{policy}")


def load_mirrors(workspace_root: Path, explicit: Path | None = None) -> Mirrors:
    """Return the mirrors: from `explicit`, $ROCM_IMAGES_MIRRORS, the workspace, or the user's configuration.

    The first of these that exists is the one that counts. A file named by the option or the variable has to
    exist. Raises one `RecipeError` with all problems of the file.
    """
    named = explicit or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None and not named.is_file():
        by = "--mirrors" if explicit else f"${VARIABLE}"
        raise RecipeError(f"{named}: no such file, named by {by}")
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    candidates = [named] if named else [workspace_root / FILE_NAME, home / "rocm-images" / FILE_NAME]
    for path in candidates:
        if path.is_file():
            return Mirrors(table=parse_mirrors(path.read_bytes(), file=path), file=path)
    return Mirrors()


def parse_mirrors(data: bytes, *, file: Path) -> MirrorFile:
    """Return the content of a mirrors file. Raises one `RecipeError` with all of its problems."""
    hint = "every key is described in docs/mirrors.md"
    try:
        content = foreign.toml(data.decode())
    except ValueError as error:
        raise RecipeError(f"{file}: not a TOML file: {error}", hint=hint) from error
    problems: list[str] = []
    try:
        table = MirrorFile.model_validate(content)
    except ValidationError as error:
        problems = [_problem(dict(item)) for item in error.errors(include_url=False)]
        table = MirrorFile()
    given = content.get("wheelhouses")
    for number, text in enumerate(given if isinstance(given, list) else ()):
        if isinstance(text, str) and not _beside(file, text).is_dir():
            problems.append(f"wheelhouses[{number}]: expected a folder, got {text!r}")
    if problems:
        raise RecipeError("\n".join(f"{file}: {line}" for line in sorted(set(problems))), hint=hint)
    return table


def _problem(item: Mapping[str, Any]) -> str:
    location = [part for part in item["loc"] if part != "[key]"]
    words = [f"[{part}]" if isinstance(part, int) else f".{_quoted(part)}" for part in location]
    path = "".join(words).removeprefix(".")
    match item["type"]:
        case "extra_forbidden":
            model = DebianTable if len(location) > 1 else MirrorFile
            known = [entry.alias or name for name, entry in model.model_fields.items()]
            near = difflib.get_close_matches(str(location[-1]), known, n=1)
            what = f"unknown key; did you mean {near[0]!r}?" if near else f"unknown key; known: {', '.join(known)}"
        case "value_error":
            what = str(item["ctx"]["error"])
        case _:
            what = f"{item['msg'][0].lower()}{item['msg'][1:]}, got {item.get('input')!r}"
    return f"{path}: {what}"


def _quoted(key: object) -> str:
    return str(key) if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else f'"{key}"'


def _mapped(text: str, table: Mapping[str, str], boundary: Callable[[str, str], bool]) -> str:
    """Replace the longest prefix of `text` that ends where a name ends: at the end, or at a boundary."""
    for key in sorted(table, key=len, reverse=True):
        rest = text.removeprefix(key)
        if text.startswith(key) and (not rest or boundary(key, rest)):
            return table[key] + rest
    return text


def _beside(file: Path | None, text: str) -> Path:
    path = Path(text).expanduser()
    return path if path.is_absolute() or file is None else file.absolute().parent / path


def _local(word: str) -> Path | None:
    if word.startswith("file:"):
        return Path(unquote(urlsplit(word).path))
    return None if "://" in word else Path(word).expanduser()


def _bundle(name: str, value: str) -> Path:
    path = Path(value).expanduser()
    if not path.is_file():
        raise EngineError(f"{name} names {value}, which is not a file of certificates", hint=f"correct {name}")
    return path


@cache
def _ask_pip(environment: tuple[tuple[str, str], ...]) -> Mapping[str, tuple[str, ...]]:
    for python in (sys.executable, "python3"):
        try:
            listed = run([python, "-m", "pip", "config", "list"], env=dict(environment))
        except EngineError:
            continue
        if listed.status == 0:
            return _pip_settings(listed.stdout)
    # Without pip on this machine its variables still say what the user wants.
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): tuple(value.split())
        for name, value in environment
        if name.startswith("PIP_")
    }


def _pip_settings(listing: str) -> dict[str, tuple[str, ...]]:
    """Read `pip config list`: lines such as `global.find-links='/srv/wheels'`, sections in rising priority."""
    order = ("global", "wheel", "download", "install", ":env:")
    ranked: dict[str, tuple[int, tuple[str, ...]]] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section not in order:
            continue
        rank = order.index(section)
        if rank >= ranked.get(option, (-1,))[0]:
            ranked[option] = (rank, tuple(str(ast.literal_eval(value)).split()))
    return {option: words for option, (_, words) in ranked.items()}


def _unfetched_targets() -> list[list[str]]:
    """Return what apt would fetch when it has fetched nothing yet, so that nobody vouches for an origin."""
    try:
        release = dict(
            line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line
        )
    except FileNotFoundError:
        return []
    if release.get("ID", "").strip('"') != "debian":
        return []
    suites = (release.get("VERSION_CODENAME", "").strip('"'), *_ROLLING)
    targets = _apt_targets("|$(RELEASE)|$(COMPONENT)|$(REPO_URI)", "--no-release-info")
    return [
        [origin, suite, suite, url] for origin, suite, area, url in targets if suite in suites and area == "main"
    ]


def _apt_targets(fields: str, *options: str) -> list[list[str]]:
    """Return the package lists apt knows, each as the values of `fields`, which are separated by bars."""
    listed = _apt("apt-get", "indextargets", *options, "--format", fields, "Created-By: Packages")
    return [line.split("|") for line in listed.splitlines()]


def _apt(*words: str) -> str:
    config = {name: os.environ[name] for name in ("APT_CONFIG",) if name in os.environ}
    return run(words, env=config).stdout
