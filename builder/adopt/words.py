"""Fills variables into words, and takes secrets out of them.

A variable whose value is not known stays as it is written and is told of; a secret is replaced by an ellipsis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from builder.adopt.shell import Word

_VARIABLE = re.compile(
    r"\$(?:(?P<plain>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?P<rest>[^{}]*)\})"
)
_COMMAND = re.compile(r"\$\(|`")
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|PASSWORD|PASSWD|PASS|PASSPHRASE|SECRET|SECRETS|CREDENTIALS?|PAT|PW|APIKEY|AUTH)(?:_|$)"
    r"|(?:API|ACCESS|PRIVATE|SECRET|ENCRYPTION)_?KEY",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
_KNOWN_SHAPES = re.compile(
    r"\b(?:gh[pousr]_|github_pat_|hf_|glpat-|sk-|xox[abp]-|AKIA|pypi-)[A-Za-z0-9_-]{10,}"
    r"|(?<=Authorization: )[^'\"]+|(?<=Bearer )[^\s'\"]+|(?<=--password[ =])[^\s'\"]+"
    r"|(?<= -u )[^\s'\":]+:[^\s'\"]+",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"\b(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|]+)")
HIDDEN = "…"
NO_SECRETS = ("0", "1", "true", "false", "yes", "no", "on", "off")  # switches, whatever they are called
_SHORTEST = 4  # a shorter value would be found in innocent words


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with its variables filled in, and the names of those that nothing is known of."""

    text: str
    unknown: tuple[str, ...] = ()


def is_secret_name(name: str) -> bool:
    """Tell whether a variable of this name holds what nobody else may see."""
    return _SECRET_NAME.search(name) is not None


def has_secret(text: str) -> bool:
    """Tell whether a text has a password in an address, or the form of a token."""
    return any(found != "git" for found in _USERINFO.findall(text)) or _KNOWN_SHAPES.search(text) is not None


def without_secrets(text: str, values: frozenset[str]) -> str:
    """Return a text with all secrets replaced: those in `values`, in addresses, and what looks like a token."""
    text = without_values(text, values)
    text = _ASSIGNED.sub(_hide_assigned, text)
    text = _USERINFO.sub(lambda found: found[0] if found[0] == "git" else HIDDEN, text)
    return _KNOWN_SHAPES.sub(HIDDEN, text)


def without_values(text: str, values: frozenset[str]) -> str:
    """Return a text with certain values replaced."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
    return text


def _hide_assigned(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"].strip("\"'")
    known = is_secret_name(name) and not value.startswith("$") and value.lower() not in NO_SECRETS
    return f"{name}={HIDDEN}" if known else found[0]


def fill(word: Word, scope: Mapping[str, str], used: Callable[[str], None]) -> Filled:
    """Return the text of a word. `used` is told the name of each variable that is read."""
    text, unknown = "", list[str]()
    for piece, expands in word.pieces:
        if not expands:
            text += piece
            continue
        filled = fill_text(piece, scope, used)
        text += filled.text
        unknown += filled.unknown
    return Filled(text, tuple(unknown))


def fill_text(text: str, scope: Mapping[str, str], used: Callable[[str], None]) -> Filled:
    """Return a text with the variables of `scope` filled in, as in `fill`."""
    unknown: list[str] = []
    if _COMMAND.search(text):
        for found in _VARIABLE.finditer(text):
            used(found["plain"] or found["braced"])
        return Filled(text, ("the output of a command",))

    def value(found: re.Match[str]) -> str:
        name, rest = found["plain"] or found["braced"], found["rest"] or ""
        used(name)
        known = scope.get(name)
        result = _with_operator(known, rest)
        if result is None:
            unknown.append(name)
            return found[0]
        return result

    return Filled(_VARIABLE.sub(value, text), tuple(unknown))


def _with_operator(known: str | None, rest: str) -> str | None:
    """Return a variable's value after an operator such as `:-DEFAULT`, None where it cannot be told."""
    if not rest:
        return known
    operator = re.match(r":?[-+]|##?|%%?", rest)
    argument = rest[operator.end() :] if operator is not None else ""
    if operator is None or re.search(r"[*?\[$]", argument):
        return None
    match operator[0]:
        case ":-":
            return known or argument
        case "-":
            return argument if known is None else known
        case "+" | ":+":
            return argument if known else ""
        case "#" | "##":
            return None if known is None else known.removeprefix(argument)
        case _:
            return None if known is None else known.removesuffix(argument)
