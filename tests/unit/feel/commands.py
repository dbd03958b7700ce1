"""Reads commands as people type them with the program's own command line parser: every option must exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from builder.cli.app import app

PROGRAM = "rocm-images"
COMMAND: Any = get_command(app)
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=")
_PLACES = re.compile(r"\s*(?:2>&1|[012&]?>{1,2}\s*\S+|<\s*\S+)")


def leaves(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command that does something, with the words that name it."""
    command = COMMAND if command is None else command
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, below in inner.items():
        yield from leaves(below, (*path, name))


def words_of(line: str) -> list[list[str]]:
    """Return the calls of the program in a line of a shell, each without the program's name."""
    calls = []
    for part in re.split(r"\s+(?:&&|\|\||\|)\s+|;\s+", line.strip().removeprefix("$ ").removeprefix("# ")):
        if PROGRAM not in part:
            continue
        words = shlex.split(_PLACES.sub("", part), comments=True)
        while words and (_ASSIGNMENT.match(words[0]) or words[0] in ("sudo", "exec")):
            words.pop(0)
        if words and words[0].rpartition("/")[2] == PROGRAM:
            calls.append(words[1:])
    return calls


def parse(words: list[str]) -> str:
    """Read a call as the program would, and do nothing; return the name of the command, "" for the program alone.

    Raises typer's own usage error where a command, an option or an argument does not exist or is missing.
    """
    command = COMMAND
    if {"--help", "--version", "--show-completion", "--install-completion"} & set(words):
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words[0]]
            words = words[1:]
        assert words in (["--help"], ["--version"], ["--show-completion"], ["--install-completion"]), words
        return "help"
    context = command.make_context(PROGRAM, list(words))
    path = []
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            assert command.invoke_without_command, f"{' '.join(words)}: says no command"
            return ""
        name, command, rest = command.resolve_command(context, rest)
        path.append(name)
        context = command.make_context(name, rest, parent=context)
    return " ".join(path)


def exists(words: list[str]) -> str:
    """Read a mere mention of a command, without what it has to be given: command and options must exist."""
    command = COMMAND
    path = []
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest[0]]
        path.append(rest.pop(0))
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    assert path, f"{words}: there is no such command"
    assert set(rest) <= known, f"{' '.join(words)}: there is no {set(rest) - known}"
    return " ".join(path)
