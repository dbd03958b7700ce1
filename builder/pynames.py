"""What the names of a Python file stand for, read from its syntax tree alone.

A name is followed through imports, `as`, relative imports, plain assignments and the scopes of functions to
the dotted thing it was imported as. Nothing is executed: what a name becomes through calls, attributes of
objects or subscripts is not known here, and is not guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
Function = ast.FunctionDef | ast.AsyncFunctionDef
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# The kinds of node that can have others below them; names and constants are expressions without.
_BRANCHES: tuple[type[ast.AST], ...] = (
    ast.stmt, ast.keyword, ast.arguments, ast.comprehension, ast.excepthandler, ast.match_case, ast.withitem,
    *(kind for kind in ast.expr.__subclasses__() if kind not in {ast.Name, ast.Constant}),
)  # fmt: skip


@dataclass(kw_only=True, slots=True)
class Scope:
    """The names one module or function binds. Filled while it is read, never changed afterwards."""

    imports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    stars: list[tuple[str, ast.ImportFrom]] = field(default_factory=list)

    def add_import(self, name: str, target: str) -> None:
        """Bind a name to what it was imported as; branches may bind it to several things."""
        known = self.imports.get(name, ())
        if target not in known:
            self.imports[name] = (*known, target)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where in a file a node stands: the scopes it sees, innermost last, and what encloses it."""

    scopes: tuple[Scope, ...]
    functions: tuple[Function, ...] = ()
    path: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The qualified name of the enclosing function or class, empty at module level."""
        return ".".join(self.path)


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonFile:
    """One parsed file. `module` is its dotted name; `package` is what its relative imports start from."""

    module: str
    package: str
    syntax: ast.Module
    top: Scope

    def walk(self) -> Iterator[tuple[ast.AST, Place]]:
        """Yield every node but names, constants and operators with its place, in no particular order."""
        pending: list[tuple[ast.AST, Place]] = [(self.syntax, Place(scopes=(self.top,)))]
        while pending:
            node, place = pending.pop()
            yield node, place
            inner = self._inside(node, place) if isinstance(node, _NAMED) else place
            for name in node._fields:
                value: Any = getattr(node, name)
                if isinstance(value, list):
                    where = inner if name == "body" else place
                    pending += [(child, where) for child in value if isinstance(child, _BRANCHES)]
                elif isinstance(value, _BRANCHES):
                    pending.append((value, place))

    def _inside(self, node: Function | ast.ClassDef, place: Place) -> Place:
        path = (*place.path, node.name)
        if isinstance(node, ast.ClassDef):
            return Place(scopes=place.scopes, functions=place.functions, path=path)
        scopes = (*place.scopes, scope_of(node, self.package))
        return Place(scopes=scopes, functions=(*place.functions, node), path=path)

    def meanings(self, node: ast.expr, scopes: tuple[Scope, ...]) -> tuple[str, ...]:
        """Return the dotted things an expression may stand for; empty when that is not known.

        A name that is bound nowhere may come from any module whose names are all imported.
        """
        return _meanings(node, scopes, self.module, depth=8)


def read_file(syntax: ast.Module, *, module: str, is_package: bool) -> PythonFile:
    """Read the names of a parsed file that is imported as `module`."""
    package = module if is_package else module.rpartition(".")[0]
    return PythonFile(module=module, package=package, syntax=syntax, top=scope_of(syntax, package))


def scope_of(owner: ast.Module | Function, package: str) -> Scope:
    """Collect what a module or function binds itself, without the functions and classes inside it."""
    scope = Scope()
    if isinstance(owner, Function):
        arguments = owner.args
        named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        scope.bound.update(argument.arg for argument in named if argument is not None)
    for statement in statements(owner):
        _bind(statement, scope, package)
    return scope


def statements(owner: ast.AST) -> Iterator[ast.stmt | ast.excepthandler | ast.match_case]:
    """Yield the statements of a body and of the blocks in it, but not of functions and classes in it."""
    for block in _BLOCKS:
        for statement in getattr(owner, block, ()):
            yield statement
            if not isinstance(statement, Function | ast.ClassDef):
                yield from statements(statement)


def expressions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions, targets and patterns of one statement, not the blocks below it."""
    for name, value in ast.iter_fields(node):
        if name not in _BLOCKS:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child


def absolute(module: str | None, level: int, package: str) -> str | None:
    """Return the module a `from` import names; None when it points above the top-level package."""
    if level == 0:
        return module
    parts = package.split(".") if package else []
    if level - 1 >= len(parts):
        return None
    base = parts[: len(parts) - (level - 1)]
    return ".".join([*base, module] if module else base)


def targets_of(node: ast.AST) -> Iterator[str]:
    """Yield the plain names an assignment target, loop target, pattern or walrus binds."""
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
            case _:
                pass


def imported_module(node: ast.expr) -> str | None:
    """Return the module in `importlib.import_module("x")` or `__import__("x")` with a literal name."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return name or None
        case _:
            return None


def _bind(node: ast.AST, scope: Scope, package: str) -> None:
    match node:
        case ast.Import():
            for alias in node.names:
                first = alias.name.partition(".")[0]
                scope.add_import(alias.asname or first, alias.name if alias.asname else first)
        case ast.ImportFrom():
            module = absolute(node.module, node.level, package)
            for alias in node.names if module is not None else ():
                if alias.name == "*":
                    scope.stars.append((str(module), node))
                else:
                    scope.add_import(alias.asname or alias.name, f"{module}.{alias.name}")
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            scope.bound.add(node.name)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            scope.aliases[name] = value
            scope.bound.update({name, *_walrus(value)})
        case ast.ExceptHandler(name=str(name)):
            scope.bound.add(name)
        case _:
            scope.bound.update(_bound_by(node))


def _bound_by(node: ast.AST) -> Iterator[str]:
    return (name for part in expressions(node) for name in targets_of(part))


def _walrus(value: ast.expr) -> Iterator[str]:
    return (
        inner.target.id
        for inner in ast.walk(value)
        if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name)
    )


def _meanings(node: ast.expr, scopes: tuple[Scope, ...], module: str, *, depth: int) -> tuple[str, ...]:
    if depth == 0:
        return ()
    match node:
        case ast.Attribute(value=value, attr=attribute):
            found = _meanings(value, scopes, module, depth=depth - 1)
            return tuple(f"{dotted}.{attribute}" for dotted in found)
        case ast.Name(id=name):
            return _name_meanings(name, scopes, module, depth=depth)
        case _ if (imported := imported_module(node)) is not None:
            return (imported,)
        case _:
            return ()


def _name_meanings(name: str, scopes: tuple[Scope, ...], module: str, *, depth: int) -> tuple[str, ...]:
    for level in range(len(scopes) - 1, -1, -1):
        scope = scopes[level]
        if name in scope.imports:
            return scope.imports[name]
        if (value := scope.aliases.get(name)) is not None:
            visible = scopes[: level + 1]
            if found := _meanings(value, visible, module, depth=depth - 1):
                return found
        if name in scope.bound:
            return (f"{module}.{name}",) if level == 0 else ()
    return tuple(f"{star}.{name}" for scope in scopes for star, _ in scope.stars)
