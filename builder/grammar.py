"""What a single value of a recipe may be: text, names, versions, paths, each with its form and its words.

Knows no table, no file and no other value. A check raises `ValueError` that says what was expected; the same form
reaches editors as a pattern of the JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from builder.reference import parse_reference
from builder.target import TARGET, GfxTarget

PLACEHOLDERS = ("fingerprint", "gfx")
FINGERPRINT_VARIABLE = "ROCM_IMAGES_FINGERPRINT"  # in the environment of every image
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_-]*)\}")  # braces of JSON or of ${NAME} are none
# What patterns mean that models use by themselves, where a check written in Python would take too long.
HEX64, HEX40, HEX40_OR_64 = r"^[0-9a-f]{64}$", r"^[0-9a-f]{40}$", r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$"
WORDS_OF_PATTERN = {HEX64: "64 hex digits", HEX40: "40 hex digits", HEX40_OR_64: "40 or 64 hex digits"}
_LONGEST_SHOWN = 160
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}
_WORD = "[a-z0-9]+(?:[._-][a-z0-9]+)*"
_NORMAL = "[a-z0-9]+(?:-[a-z0-9]+)*"
_MODULE = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"

# Control characters, line separators, and characters that are not seen or turn the direction of what is.
_UNSEEN = "\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff"

# The users that every Debian and Ubuntu base has already (base-passwd).
_TAKEN_USERS = (
    "_apt", "backup", "bin", "daemon", "games", "irc", "list", "lp", "mail", "man", "news", "nobody", "proxy",
    "root", "sync", "sys", "uucp", "www-data",
)  # fmt: skip
_SYSTEM_FOLDERS = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/sbin", "/sys", "/usr", "/var"
)  # fmt: skip
_MOVING_SUITES = ("experimental", "oldoldstable", "oldstable", "stable", "testing", "unstable")


class Number(float):
    """A number of a TOML file that remembers how it was written: 3.10 is not 3.1 where a version was meant."""

    def __init__(self, text: str) -> None:
        self.text = text


def shown(value: object) -> str:
    """Return a value as messages quote it: on one line, with what is not seen escaped, and not too long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 4]}…{text[-1]}"


def visible(line: str) -> str:
    """Return a line of a file with what is not seen escaped, and not too long."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line[:_LONGEST_SHOWN])


def described(value: object) -> str:
    """Return a value of a TOML file by type, and by value where that is short."""
    match value:
        case bool():
            return f"the boolean {str(value).lower()}"
        case int():
            return f"the integer {value}"
        case Number():
            return f"the number {value.text}"
        case str():
            return f"the string {shown(value)}"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "a table"
        case _:
            return "a date or time"


@dataclass(frozen=True, slots=True)
class Form:
    """A string that matches `pattern` as a whole. `expected` says so in words; `longest` is in characters.

    Patterns keep to what Python, ECMA 262 and Rust read alike.
    """

    pattern: str
    expected: str
    longest: int | None = None

    def check(self, text: str) -> str:
        """Return `text` when it has this form."""
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"expected {self.expected}, got {shown(text)}")
        if self.longest is not None and len(text) > self.longest:
            raise ValueError(f"expected at most {self.longest} characters, got {len(text)}")
        return text

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        limit = {} if self.longest is None else {"maxLength": self.longest}
        return {**handler(core), "pattern": f"^(?:{self.pattern})$", **limit}


@dataclass(frozen=True, slots=True)
class Drawn:
    """Tells editors the form of a string that another check decides about, in words of its own."""

    pattern: str

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "pattern": f"^(?:{self.pattern})$"}


@dataclass(frozen=True, slots=True)
class NoneOf:
    """A string that is none of `words`. `expected` says in words what it has to be."""

    words: tuple[str, ...]
    expected: str

    def check(self, text: str) -> str:
        """Return `text` when it is none of the words."""
        if text in self.words:
            raise ValueError(f"expected {self.expected}, got {shown(text)}")
        return text

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "not": {"enum": list(self.words)}}


@dataclass(frozen=True, slots=True)
class Between:
    """An integer from `low` to `high`."""

    low: int
    high: int

    def check(self, number: int) -> int:
        """Return `number` when it lies between the two."""
        if not self.low <= number <= self.high:
            raise ValueError(f"expected an integer from {self.low} to {self.high}, got {number}")
        return number

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Distinct:
    """A list without repetitions, and with at least `least` items."""

    least: int = 0

    def check(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return `items` when none is there twice."""
        if len(items) < self.least:
            raise ValueError("expected at least one item, got an empty list")
        doubled = [item for place, item in enumerate(items) if item in items[:place]]
        if doubled:
            raise ValueError(f"expected every item once, got {shown(doubled[0])} twice")
        return items

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "uniqueItems": True} | ({"minItems": self.least} if self.least else {})


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def only(number: int, what: str) -> BeforeValidator:
    """Accept one integer and nothing that merely equals it, such as `true`."""

    def check(value: object) -> object:
        if isinstance(value, bool) or value != number:
            raise ValueError(f"expected {number}, {what}, got {described(value)}")
        return value

    return BeforeValidator(check)


def _checked(parse: Callable[[str], object]) -> AfterValidator:
    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def _pinned(text: str) -> None:
    if parse_reference(text).digest is None:
        raise ValueError(f"a tag floats: expected '@sha256:…' after it, got {shown(text)}")


def _without_secret(text: str) -> None:
    if "@" in text:
        raise ValueError("expected an address without user and password, got one that is not repeated here")


def without_password(text: str) -> None:
    """Check that an address has no user but one of ssh: `git@` names an account that everybody has."""
    scheme, _, rest = text.partition("://")
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if at and (scheme != "ssh" or ":" in user):
        raise ValueError("expected an address without user and password, got one that is not repeated here")


def password_in(text: str) -> bool:
    """Tell whether a text has an address with a password in it, at any place."""
    return re.search(r"://[^\s/@:]*:[^\s/@]+@", text) is not None


def _placeholders(text: str) -> None:
    for word in _PLACEHOLDER.findall(text):
        if word not in PLACEHOLDERS:
            names = " or ".join(f"'{{{name}}}'" for name in PLACEHOLDERS)
            raise ValueError(f"expected {names}, got '{{{word}}}'")


def _targets_only(text: str) -> None:
    for word in _PLACEHOLDER.findall(text):
        if word != "gfx":
            raise ValueError(f"expected '{{gfx}}', got '{{{word}}}'")


def placeholder(text: str) -> str | None:
    """Return the first placeholder of the recipe language in `text`, braces included, or None."""
    return next((f"{{{word}}}" for word in _PLACEHOLDER.findall(text) if word in PLACEHOLDERS), None)


def _writable(text: str) -> None:
    if text == "/":
        raise ValueError("expected directories below '/', which itself stays read-only")
    if text in _SYSTEM_FOLDERS or text.startswith(("/proc/", "/sys/", "/dev/")):
        raise ValueError(f"expected a directory of the engine's own, got {shown(text)} of the system")


def in_bytes(size: str) -> int:
    """Return a size such as '512m' in bytes."""
    return int(size[:-1]) * _UNITS[size[-1]]


def check_writable(text: str) -> None:
    """Check the path of a directory that the image's user owns, and may write to where it is declared."""
    _path.check(text)
    _writable(text)


type_tuple = BeforeValidator(_tuple)

_line = Form(f"[^{_UNSEEN}]*", "text on one line without control, invisible or direction characters")
_short_line = replace(_line, longest=400)
_below = r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._+@-]+)+"
_path = Form(
    f"/|{_below}",
    "an absolute, normal path of letters, digits and '._+@-', such as '/var/cache/triton'",
)
Line = Annotated[str, _line]
OpenAddress = Annotated[str, _line, _checked(without_password)]
BuildValue = Annotated[str, _line, _checked(_targets_only)]
Sentence = Annotated[str, _line, Form(f"[^{_UNSEEN}]*[^{_UNSEEN}\\s][^{_UNSEEN}]*", "a sentence")]
Name = Annotated[
    str,
    Form(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", "lower-case letters and digits, joined by single '.', '_' or '-'", 64),
]
Suite = Annotated[
    str,
    Form(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", "the code name of a Debian suite, such as 'trixie'", 64),
    NoneOf(
        _MOVING_SUITES, "the code name of a suite, such as 'trixie', not one that moves from release to release"
    ),
]
AddedSuite = Annotated[
    str,
    Form(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", "the name of a Debian suite, such as 'trixie-backports'", 64),
    NoneOf(
        tuple(suite for suite in _MOVING_SUITES if suite != "experimental"),
        "the name of a suite, such as 'experimental', not one that moves from release to release",
    ),
]
SuitePackage = Annotated[
    str,
    Form(
        r"(?:src:)?[a-z0-9][a-z0-9+.-]*[a-z0-9+.]",
        "the name of a Debian package, or 'src:' and the name of a source package",
    ),
]
AptPackage = Annotated[
    str, Form(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]", "the name of a Debian package, without version or sign")
]
EnvName = Annotated[str, Form(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")]
EnvValue = Annotated[str, _line, _checked(_placeholders)]
Version = Annotated[
    str, Form(r"[A-Za-z0-9][A-Za-z0-9.+!~:_-]*", "one exact version, such as '2.11.0+rocm7.2'", 96)
]
PythonVersion = Annotated[str, Form(r"3\.(?:[0-9]|[1-9][0-9])", "a Python version such as '3.12'")]
Distribution = Annotated[
    str, Form(_NORMAL, "the normal name of a distribution: lower case, with '-' between words")
]
DistributionPattern = Annotated[
    str,
    Form(
        r"[a-z0-9*]+(?:-[a-z0-9*]+)*",
        "the normal name of a distribution: lower case, with '-' between words, '*' for any text",
    ),
]
Module = Annotated[str, Form(_MODULE, "the name of a Python module, such as 'a.b'")]
AbsolutePath = Annotated[str, _path]
Device = Annotated[str, Form(f"/dev{_below}", "the path of a device below '/dev', such as '/dev/kfd'")]
WritablePath = Annotated[str, _path, _checked(_writable)]
InsidePath = Annotated[
    str,
    _line,
    Form(
        f"(?!/)(?:(?:^|/)(?!\\.{{1,2}}(?:/|$))[^/{_UNSEEN}]+)+",
        "the normal, relative path of a folder beside the recipe, such as 'src/probe'",
    ),
]
Target = Annotated[str, _short_line, _checked(GfxTarget), Drawn(TARGET.pattern)]
PinnedImage = Annotated[str, _short_line, _checked(_pinned), Drawn(r"[^@\s/]+/[^@\s]+@sha256:[0-9a-f]{64}")]
IndexAddress = Annotated[
    str,
    _line,
    _checked(_without_secret),
    Form(r"https?://[^\s@?#]+", "an address that begins with 'https://' or 'http://', without '?' and '#'"),
]
ArchiveAddress = Annotated[
    str,
    _line,
    _checked(_without_secret),
    Form(r"https://[^\s@?#]+", "an address that begins with 'https://', without '?' and '#'"),
]
GitAddress = Annotated[
    str,
    _line,
    _checked(without_password),
    Form(
        r"(?:https?|ssh|git)://[^\s?#]+", "an address that begins with 'https://', 'http://', 'ssh://' or 'git://'"
    ),
]
Ref = Annotated[
    str,
    Form(
        r"(?!-)(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]*[^\x00-\x20\x7f~^:?*\[\\./]",
        "the name of a tag or branch, without 'refs/…'",
    ),
]
Commit = Annotated[str, Form(r"[0-9a-f]{40}", "40 hex digits, the whole commit")]
TreePath = Annotated[
    str,
    _line,
    Form(
        f"(?!/)(?:(?:^|/)(?!\\.{{1,2}}(?:/|$))[^/{_UNSEEN}]+)+",
        "a normal, relative path inside the source, such as 'python'",
    ),
]
Sha256 = Annotated[str, Form(r"[0-9a-f]{64}", "64 hex digits")]
User = Annotated[
    str,
    Form(r"[a-z_][a-z0-9_-]*", "the name of a user: lower-case letters, digits, '_', '-'", 32),
    NoneOf(_TAKEN_USERS, "a name that no base has already"),
]
TreePaths = Annotated[tuple[TreePath, ...], BeforeValidator(_tuple), Distinct()]
TreePattern = Annotated[
    str,
    _line,
    Form(
        f"(?!/)(?:(?:^|/)(?!\\.{{1,2}}(?:/|$))[^/{_UNSEEN}]+)+",
        "a normal, relative path inside the source, '*' for any text of a name, such as 'docs' or '*.md'",
    ),
]
TreePatterns = Annotated[tuple[TreePattern, ...], BeforeValidator(_tuple), Distinct()]
Contract = Annotated[
    str, Form(f"{_WORD} -> {_WORD}", "two components, 'IMPORTER -> PROVIDER', such as 'vllm -> aiter'", 160)
]
Loader = Annotated[
    str,
    _short_line,
    Form(
        rf"{_MODULE}:[^{_UNSEEN}\\s][^{_UNSEEN}]*",
        "a module and an expression in it, such as 'aiter.ops.norm:module.load()'",
    ),
]
Library = Annotated[
    str,
    Form(r"(?:/[A-Za-z0-9._+/-]+/)?[A-Za-z0-9._+-]+\.so(?:\.[0-9]+)*", "a library such as 'libnuma.so.1'", 255),
]
Ending = Annotated[
    str,
    Form(
        r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])? *(?:==|<=|<|~=) *[A-Za-z0-9.+*]+",
        "a requirement that an update ends, such as 'torch==2.11.0'",
    ),
]
Size = Annotated[str, Form(r"[1-9][0-9]*[kmg]", "a size such as '512m' or '8g'")]

Lines = Annotated[tuple[Line, ...], type_tuple]
Names = Annotated[tuple[Name, ...], type_tuple, Distinct()]
EnvNames = Annotated[tuple[EnvName, ...], type_tuple, Distinct()]
Libraries = Annotated[tuple[Library, ...], type_tuple, Distinct()]
Loaders = Annotated[tuple[Loader, ...], type_tuple, Distinct()]
AbsolutePaths = Annotated[tuple[AbsolutePath, ...], type_tuple, Distinct()]
AptPackages = Annotated[tuple[AptPackage, ...], type_tuple, Distinct()]
SuitePackages = Annotated[tuple[SuitePackage, ...], type_tuple, Distinct(least=1)]
Targets = Annotated[tuple[Target, ...], type_tuple, Distinct()]
SomeTargets = Annotated[tuple[Target, ...], type_tuple, Distinct(least=1)]
Devices = Annotated[tuple[Device, ...], type_tuple, Distinct()]
WritablePaths = Annotated[tuple[WritablePath, ...], type_tuple, Distinct()]
Ports = Annotated[tuple[Annotated[int, Between(1, 65535)], ...], type_tuple, Distinct()]
Modules = Annotated[tuple[Module, ...], type_tuple, Distinct()]
Distributions = Annotated[tuple[Distribution, ...], type_tuple, Distinct()]
DistributionPatterns = Annotated[tuple[DistributionPattern, ...], type_tuple, Distinct()]
