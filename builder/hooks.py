"""From the hooks of a recipe to the data that the package `rocm_images_hooks` of an image reads.

Values only. How a hook is applied is written in `builder/inside/hooks`, which has no other part of this program.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from builder.errors import RecipeError

REFUSED = 97  # exit status of an interpreter with a hook that does not fit
STEP_FILES = (
    "hooks/install_hooks.py", "hooks/rocm_images_hooks/__init__.py", "hooks/rocm_images_hooks/__main__.py",
    "hooks/rocm_images_hooks/checker.py", "hooks/rocm_images_hooks/events.py",
    "hooks/rocm_images_hooks/finder.py", "hooks/rocm_images_hooks/override.py",
    "hooks/rocm_images_hooks/registry.py", "bytecode.py",
)  # fmt: skip
_SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Hook:
    """An attribute that is overridden: the value `expect` by `value`, or a callable by a function of the project.

    `name` and `target` are the patch's. `call` is 'FILE.py:FUNCTION', the file relative to the recipe, and
    `expect_source` the sha256 of the old callable's source text.
    """

    name: str
    target: str
    module: str
    attribute: str
    expect: Any = None
    value: Any = None
    expect_source: str | None = None
    call: str | None = None
    optional: bool = False


def registry(hooks: Sequence[Hook]) -> bytes:
    """Return `registry.json`, the same for the same hooks. Raises `RecipeError` where two exclude each other."""
    _require_apart(hooks)
    table = {"schema": _SCHEMA, "hooks": [_entry(hook) for hook in hooks]}
    return (json.dumps(table, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def shipped(hooks: Iterable[Hook]) -> dict[str, str]:
    """Return which files of the project the hooks need: by their place in the build context, beside the recipe."""
    files = (hook.call.rpartition(":")[0] for hook in hooks if hook.call is not None)
    return {f"calls/{_module(file)}.py": file for file in sorted(set(files))}


def source_sha256(text: str, attribute: str) -> str | None:
    """Return the sha256 of the source text of a function or method, as `inspect.getsource` gives it.

    `text` is the source of its module. None where no definition of that name is the only one to be executed.
    """
    body: Sequence[ast.stmt] = ast.parse(text).body
    *classes, name = attribute.split(".")
    for each in classes:
        found = [node for node, _ in _statements(body) if isinstance(node, ast.ClassDef) and node.name == each]
        if len(found) != 1:
            return None
        body = found[0].body
    functions = [
        (node, sure)
        for node, sure in _statements(body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == name
        and not _is_accessor(node)
    ]
    if not functions or (len(functions) > 1 and not all(sure for _, sure in functions)):
        return None
    node = functions[-1][0]
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = re.sub("\r\n?", "\n", text).removesuffix("\n").split("\n")[first - 1 :]
    return hashlib.sha256("".join(inspect.getblock([f"{line}\n" for line in lines])).encode()).hexdigest()


def _statements(body: Iterable[ast.stmt], *, sure: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield what a body executes in its own scope, and whether it is sure to."""
    for node in body:
        yield node, sure
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, ()), sure=False)
            for handler in getattr(node, "handlers", ()):
                yield from _statements(handler.body, sure=False)


def _is_accessor(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(of, ast.Attribute) and of.attr in ("setter", "deleter") for of in node.decorator_list)


def _module(file: str) -> str:
    """Return the name of the module in `rocm_images_hooks.calls` that a file of the project becomes."""
    return re.sub("[^A-Za-z0-9]+", "_", file.removesuffix(".py"))


def _entry(hook: Hook) -> dict[str, object]:
    entry: dict[str, object] = {
        "name": hook.name, "target": hook.target, "module": hook.module, "attribute": hook.attribute,
        "optional": hook.optional,
    }  # fmt: skip
    if hook.call is None:
        return entry | {"expect": hook.expect, "value": hook.value}
    file, _, function = hook.call.rpartition(":")
    return entry | {
        "expect-source": hook.expect_source, "call": {"file": _module(file), "function": function},
    }  # fmt: skip


def _require_apart(hooks: Sequence[Hook]) -> None:
    attributes: dict[tuple[str, str], str] = {}
    calls: dict[str, str] = {}
    for hook in hooks:
        other = attributes.setdefault((hook.module, hook.attribute), hook.name)
        if other != hook.name:
            path = f"{hook.module}.{hook.attribute}"
            raise RecipeError(f"patch.{hook.name}.hook.attribute: patch {other} overrides {path} as well")
        if hook.call is not None:
            other = calls.setdefault(hook.call, hook.name)
            if other != hook.name:
                raise RecipeError(
                    f"patch.{hook.name}.hook.call: {hook.call} is what patch {other} calls",
                    hint="give each its own function: it knows the one it replaces",
                )
    files: dict[str, str] = {}
    for hook in hooks:
        file = (hook.call or "").rpartition(":")[0]
        other = files.setdefault(_module(file), file)
        if other != file:
            raise RecipeError(f"patch: {other} and {file} would both be called {_module(file)}; rename one")
