"""What Python code on a command line becomes: imports that are tried are smoke tests, the rest is marked."""

from __future__ import annotations

import ast
import re

from builder.adopt.draft import add
from builder.adopt.state import State

_ASKS_CARD = re.compile(r"is_available|device_count|get_device|current_device|cuda\.init")


def read_code(state: State, code: str) -> None:
    """Take an import that is tried as a smoke test."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        state.undecided("Python code that is put together by the shell")
        return
    modules: list[str] = []
    others = []
    for node in body:
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            modules.append(node.module)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _prints(node.value)):
            others.append(node)
    own = [name for name in modules if name.partition(".")[0] not in ("os", "sys", "site", "json", "pathlib")]
    if _ASKS_CARD.search(code):
        state.undecided("asks for a card, which no build has; smoke tests of the gpu tier do")
    elif others:
        state.undecided("runs Python code; a patch, a probe or smoke.imports would do what it does")
    elif "runtime" in state.roles and own:
        add(state.draft.smoke, "imports", own)
        state.into("smoke.imports")
    else:
        state.leave("prints")


def _prints(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "print"
