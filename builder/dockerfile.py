"""How instructions of a Dockerfile are written: RUN with mounts and without a network, ENV, LABEL, quoting.

Text only; what is run, and why, is not known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

Mount = tuple[str, str] | tuple[str, str, str]


def run(mounts: Iterable[Mount], *argv: str, secret: str | None = None) -> str:
    """Return a step. A mount is (folder of the context, target), or (stage, its folder or '' for all, target).

    `secret` is the id of a build secret that the step may read; what it says is no reason to run the step again.
    """
    lines = ["RUN --network=none \\"]
    for *stage, folder, target in mounts:
        origin = f"from={stage[0]}," if stage else ""
        source = f"source={folder}," if folder else ""
        lines.append(f"  --mount=type=bind,{origin}{source}target={target} \\")
    if secret is not None:
        lines.append(f"  --mount=type=secret,id={secret} \\")
    return "\n".join([*lines, f"  {exec_form(*argv)}"])


def exec_form(*argv: str) -> str:
    """Return a command as a list, which no shell reads."""
    return json.dumps(list(argv), ensure_ascii=False)


def environment(values: Mapping[str, str]) -> str:
    """Return an ENV instruction, and why hadolint need not look at it.

    DL3044 does not see that dollar signs are escaped, DL3064 guesses at secrets, with which recipes are refused.
    """
    return "# hadolint ignore=DL3044,DL3064\n" + pairs("ENV", values)


def pairs(instruction: str, values: Mapping[str, str]) -> str:
    """Return an instruction with names and values, sorted."""
    words = [f"{name}={_quoted(value)}" for name, value in sorted(values.items())]
    return f"{instruction} " + " \\\n  ".join(words)


def _quoted(value: str) -> str:
    """Quote a value for ENV and LABEL, where a dollar sign would be expanded and a backslash would escape.

    Backslashes before a quote stand outside of the quotes: BuildKit reads them alike, hadolint only there.
    """
    parts = re.split(r'(\\+)(?="|\Z)', value)
    return f'"{"".join(_escaped(part) if place % 2 == 0 else _outside(part) for place, part in enumerate(parts))}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")


def _outside(backslashes: str) -> str:
    return f'"{backslashes * 2}"'
