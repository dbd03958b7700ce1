"""Texts of strangers that reach the terminal, the log of a CI or an error message."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import partial
from unittest import mock

from builder.cli.console import Console
from builder.errors import EngineError

from .rooms import Case, Room

AREA = "what is shown"


class Terminal(io.StringIO):
    """What is written to it is seen by somebody."""

    def isatty(self) -> bool:
        return True


def _told(tell: Callable[[Console], None], in_actions: bool, _room: Room) -> str:
    """Have the console write, and look at every byte of it."""
    out, err = Terminal(), Terminal()
    settings = {"NO_COLOR": "1"} | ({"GITHUB_ACTIONS": "true"} if in_actions else {})
    with (
        mock.patch.dict("os.environ", settings, clear=True),
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
    ):  # fmt: skip
        tell(Console())
    text = out.getvalue() + err.getvalue()
    assert all(char.isprintable() or char in "\n\t" for char in text), text
    text.encode()
    if in_actions:
        for line in text.splitlines():
            assert not line.lstrip().startswith("::") or line.startswith(
                ("::warning::", "::group::", "::endgroup::")
            )
            assert "##[" not in line
    return f"shown as `{text.strip()}`"


def case(given: str, text: str, *, in_actions: bool = False, how: str = "note") -> Case:
    def tell(console: Console) -> None:
        match how:
            case "failure":
                console.failure(EngineError("it failed", details=(text,)))
            case _:
                getattr(console, how)(text)

    return Case(area=AREA, given=given, run=partial(_told, tell, in_actions), refused=False)


CASES = (
    case("a password in an address", "cannot open 'https://user:geheim@index.example/simple'", how="failure"),
    case("a password in an address, in a note", "from https://user:geheim@index.example/simple"),
    case("a control sequence that clears the screen", "a\x1b[2J\x1b[Hb"),
    case("a sequence that sets the window's title", "\x1b]0;title\x07"),
    case("a hyperlink of a terminal", "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", how="failure"),
    case("a carriage return that hides the line", "failed\rpassed ", how="failure"),
    case("backspaces that hide a word", "failed\b\b\b\b\b\bpassed", how="warn"),
    case("control characters of eight bits", "\x9b2J", how="failure"),
    case("a direction mark that turns words around", "\u202edessap\u202c", how="result"),
    case("half of a character", "a\udc80b", how="result"),
    case("a command of GitHub's runner", "::add-mask::a", in_actions=True),
    case("a command behind a line break", "a\n::stop-commands::x", in_actions=True, how="warn"),
    case("a command behind blanks", "  ::error::x", in_actions=True, how="failure"),
    case("a command of the older form", "a ##[add-path]/evil", in_actions=True),
    case("an escaped line end in a warning", "a%0A::error::x", in_actions=True, how="warn"),
)
