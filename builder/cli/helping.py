"""How help looks: the commands in groups, each with its whole first sentence; examples as they are typed.

Knows docstrings and typer, and no command in particular but for the group it stands in.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import typer
from typer.core import TyperGroup

GROUPS = (
    ("Recipes", ("init", "new", "adopt", "list", "check", "lock", "pins", "schema")),
    ("Images", ("plan", "render", "build", "test", "pin", "verify")),
    ("What changed, what is in it", ("inspect", "diff", "isolate", "patches", "bump-check")),
    ("This machine", ("doctor", "install", "engine", "registry")),
    ("Workflows", ("ci",)),
)
_EXAMPLES = re.compile(r"^Examples?:\s+(?=rocm-images|[A-Z_]+=)", re.MULTILINE)


class Grouped(TyperGroup):
    """The commands of the program by what one wants to do."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # typer's own classes, by version
        """Write the commands under the names of their groups; one without a group comes last."""
        grouped = {name for _, names in GROUPS for name in names}
        rest = tuple(name for name in self.commands if name not in grouped)
        for title, names in (*GROUPS, *([("More", rest)] if rest else [])):
            rows = [(name, first_sentence(self.commands[name])) for name in names if name in self.commands]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def first_sentence(command: Any) -> str:  # noqa: ANN401
    """Return what a command does in a sentence, or less where that has several parts."""
    text = " ".join(str(command.help or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\w)[.;:](?=\s|$)", text, maxsplit=1)[0]


def keep_examples(app: typer.Typer) -> None:
    """Have the examples of every command stand in its help line by line, as they are typed."""
    for command in app.registered_commands:
        if command.callback is not None and command.help is None:
            command.help = _laid_out(inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            keep_examples(group.typer_instance)


def _laid_out(text: str) -> str:
    """Return help in which a paragraph of examples is left as it is, by click's mark for that."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if _EXAMPLES.match(paragraph) is None:
            paragraphs.append(paragraph)
            continue
        lines = [line.strip() for line in _EXAMPLES.sub("", paragraph).splitlines()]
        title = "Example" if len(lines) == 1 else "Examples"
        paragraphs.append("\n".join(("\b", f"{title}:", *(f"  {line}" for line in lines))))
    return "\n\n".join(paragraphs)
