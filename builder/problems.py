"""From what pydantic found in a table to what a person reads: key path, what was expected, what is there.

Works for any model of a TOML file. Speaks of strings, integers, lists and tables, as TOML does, and never in the
words of pydantic or of Python.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from builder.grammar import WORDS_OF_PATTERN, Number, described, shown

_BARE = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a file: the key path, what is wrong with it, and a remedy if one is known."""

    where: str
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


def problems(error: ValidationError, table: Mapping[str, Any], model: type[BaseModel]) -> list[Problem]:
    """Return what is wrong with `table`, in the words of TOML; `model` is what it was read as."""
    found = []
    for item in error.errors(include_url=False):
        location = [part for part in item["loc"] if part != "[key]"]
        what = _what(item["type"], item.get("ctx", {}), item["input"], location, model)
        found.append(Problem(key_path(location, table), what))
    return found


def _what(
    kind: str, context: Mapping[str, Any], given: object, location: list[str | int], model: type[BaseModel]
) -> str:
    expected = _phrase(_annotation_at(location, model))
    match kind:
        case "value_error":
            return str(context["error"])
        case "missing":
            return f"missing; expected {expected}{_meaning(location, model)}"
        case "string_pattern_mismatch":
            return f"expected {WORDS_OF_PATTERN.get(context['pattern'], 'another form')}, got {shown(given)}"
        case "extra_forbidden":
            return f"unknown key{_placed(str(location[-1]), location[:-1], model)}"
        case "literal_error" if isinstance(given, str):
            near = _did_you_mean(given, map(str, get_args(_plain(_annotation_at(location, model)))))
            return f"expected {expected}, got {shown(given)}{near}"
        case _:
            return f"expected {expected}, got {described(given)}{_remedy(expected, given)}"


def _remedy(expected: str, given: object) -> str:
    """Return how to write what was probably meant."""
    if expected == "a string" and isinstance(given, int | Number):
        written = given.text if isinstance(given, Number) else str(given).lower()
        return f'; write it in quotes: "{written}"'
    if expected == "an integer" and isinstance(given, str) and given.isdecimal():
        return "; write it without quotes"
    if expected == "a list of strings" and isinstance(given, str):
        return f"; write it as a list: {json.dumps(_words(given), ensure_ascii=False)}"
    if expected == "a list of tables" and isinstance(given, Mapping):
        return "; write its header in double brackets: [[…]]"
    if expected == "true or false" and given in ("true", "false"):
        return "; write it without quotes"
    return ""


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _meaning(location: list[str | int], model: type[BaseModel]) -> str:
    """Return what a missing key is for, as the model describes it."""
    table = _model_in(_annotation_at(location[:-1], model))
    fields = table.model_fields.values() if table is not None else ()
    description = next((field.description for field in fields if field.alias == location[-1]), None)
    if not description:
        return ""
    capital = description[1].isupper()
    return f": {description[0] if capital else description[0].lower()}{description[1:].rstrip('.')}"


def key_path(location: Sequence[str | int], table: Mapping[str, Any]) -> str:
    """Write a location as people do: items of a list by their name where they have one, odd keys in quotes."""
    here: Any = table
    words: list[str] = []
    for part in location:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            here = None
        if isinstance(part, int):
            name = here.get("name") if isinstance(here, dict) else None
            words.append(f".{name}" if isinstance(name, str) and _BARE.fullmatch(name) else f"[{part}]")
        else:
            words.append(f".{quoted_key(part)}" if words else quoted_key(part))
    return "".join(words)


def quoted_key(key: str) -> str:
    """Return a key as it stands in a key path: in quotes unless it is of letters, digits, '_' and '-' alone."""
    return key if _BARE.fullmatch(key) else shown(key)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return how a message about an unknown name goes on: the near miss, or all that would do."""
    names = sorted(known)
    near = _did_you_mean(word, names)
    return near or (f"; known: {', '.join(map(quoted_key, names))}" if names else "")


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {shown(near[0])}?" if near else ""


def _placed(key: str, location: list[str | int], model: type[BaseModel]) -> str:
    """Return the near miss of an unknown key in its own table, else the tables it would belong to."""
    here = _model_in(_annotation_at(location, model)) or model
    homes = sorted(path for path, table in _tables(model) if table is not here and key in _keys(table))
    near = _did_you_mean(key, _keys(here))
    if homes and not near:
        return f"; it belongs to {' or '.join(homes)}"
    return near or nearest(key, _keys(here))


def _keys(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _tables(model: type[BaseModel], path: str = "") -> Iterable[tuple[str, type[BaseModel]]]:
    """Return every table of a file by the header people write for it."""
    yield (f"[{path}]" if path else "the top level, before the first table"), model
    for key, annotation in _keys(model).items():
        inner = _model_in(annotation)
        if inner is not None:
            yield from _tables(inner, f"{path}.{key}" if path else key)


def _annotation_at(location: Sequence[str | int], model: type[BaseModel]) -> object:
    """Return what a place of a file is annotated with; None where the model has no such place."""
    here: object = model
    for part in location:
        inner, plain = _model_in(here), _plain(here)
        if isinstance(part, int) or get_origin(plain) is dict:
            here = get_args(plain)[-1 if get_origin(plain) is dict else 0]
        elif inner is not None:
            here = _keys(inner).get(part)
        else:
            return None
    return here


def _plain(annotation: object) -> object:
    """Return an annotation without its metadata and without `None`."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (types.UnionType, typing.Union):
        return _plain(next(arm for arm in get_args(annotation) if arm is not type(None)))
    return annotation


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the table that a key, or the items of its list or table, are read as."""
    plain = _plain(annotation)
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return plain
    if get_origin(plain) in (tuple, dict):
        return _model_in(get_args(plain)[-1 if get_origin(plain) is dict else 0])
    return None


def _phrase(annotation: object) -> str:
    """Return what an annotation asks for, in the words of TOML."""
    plain = _plain(annotation)
    origin = get_origin(plain)
    if origin is Literal:
        words = [repr(value) for value in get_args(plain)]
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    if origin is tuple:
        return f"a list of {_plural(get_args(plain)[0])}"
    if origin is dict:
        return f"a table of {_plural(get_args(plain)[1])}"
    if plain is Any:
        return "a value"
    return {str: "a string", int: "an integer", bool: "true or false"}.get(plain, "a table")  # type: ignore[call-overload,no-any-return]


def _plural(annotation: object) -> str:
    plain = _plain(annotation)
    if get_origin(plain) is Literal:
        return "strings"
    if plain is Any:
        return "values"
    return {str: "strings", int: "integers"}.get(plain, "tables")  # type: ignore[call-overload,no-any-return]
