"""The modules of a tree as syntax: what their names are bound to, over imports, and what classes inherit.

Nothing is imported or executed. What cannot be told from the text is open, with the reason, and never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from builder.patches.tree import Tree

Function = ast.FunctionDef | ast.AsyncFunctionDef
# Classes outside the tree that bring no attribute anybody would ask for.
_HARMLESS = frozenset(
    {"object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol", "builtins.object"}
)
_MOST_IMPORTS = 20


class Open(Exception):
    """What was asked cannot be told from the text."""


class Absent(Exception):
    """What was asked is not there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """One statement that gives a name its meaning. `sure`: it is always executed."""

    node: ast.stmt
    sure: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """A parsed module. `path` is its file in the tree, `package` what its relative imports start from."""

    name: str
    package: str
    path: str
    syntax: ast.Module
    text: str
    names: dict[str, list[Binding]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a name of a module stands for: a statement of a module, or a whole module."""

    module: Module
    node: ast.stmt | None

    def where(self, node: ast.AST | None = None) -> str:
        """Return file and line."""
        at = node if node is not None else self.node
        return f"{self.module.path}:{getattr(at, 'lineno', 1)}"


@dataclass(kw_only=True, slots=True)
class Modules:
    """Reads modules of a tree, each once. `roots` are the folders that imports start from, '' the tree's own."""

    tree: Tree
    roots: Sequence[str] = ("",)
    _read: dict[str, Module | None] = field(default_factory=dict)

    def get(self, name: str) -> Module | None:
        """Return a module, None where the tree has none. Raises `Open` for a file that is no Python."""
        if name not in self._read:
            self._read[name] = self._parse(name)
        return self._read[name]

    def lookup(self, module: Module, name: str, patience: int = _MOST_IMPORTS) -> Found:
        """Return what a name of a module stands for, followed through imports of the tree.

        Raises `Absent` for a name that the module does not have, `Open` where the text does not tell.
        """
        if patience == 0:
            raise Open(f"{name!r} is imported in a circle")
        bound = module.names.get(name)
        if bound is None:
            return self._elsewhere(module, name, patience)
        binding = sure(bound, f"{module.name}.{name}", module.path)
        _require_not_rebound(module, name)
        match binding.node:
            case ast.ImportFrom() as node:
                source = _absolute(node, module.package)
                original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
                return self._imported(source, original, patience)
            case ast.Import() as node:
                alias = next(a for a in node.names if (a.asname or a.name.partition(".")[0]) == name)
                target = alias.name if alias.asname else alias.name.partition(".")[0]
                return Found(module=self._inside(target), node=None)
            case node:
                return Found(module=module, node=node)

    def dotted(self, module: Module, node: ast.expr) -> Found:
        """Return what `a.b.C` stands for: a class, a function or an assignment. Raises as `lookup`."""
        match node:
            case ast.Name(id=name):
                return self.lookup(module, name)
            case ast.Attribute(value=value, attr=attr):
                owner = self.dotted(module, value)
                if owner.node is None:
                    return self._imported(owner.module.name, attr, _MOST_IMPORTS)
                raise Open(f"{ast.unparse(node)!r} is no name of a module")
            case _:
                raise Open(f"{ast.unparse(node)!r} is no name")

    def lineage(self, of: Found) -> list[Found | str]:
        """Return a class and all it inherits from, in Python's order.

        It ends with a text, the reason, where what comes next cannot be told.
        """
        return self._lineage(of, ())

    def _lineage(self, of: Found, below: tuple[ast.stmt, ...]) -> list[Found | str]:
        node = of.node
        if not isinstance(node, ast.ClassDef) or node in below:
            return ["its classes inherit in a circle"]
        bases: list[list[Found | str]] = []
        for base in node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            if _outside_name(of.module, plain) in _HARMLESS:
                continue
            try:
                found = self.dotted(of.module, plain)
            except (Open, Absent) as error:
                return [of, f"{node.name} inherits from {ast.unparse(base)!r}, which is not in the tree: {error}"]
            bases.append(self._lineage(found, (*below, node)))
        if len(bases) < 2:
            return [of, *(bases[0] if bases else [])]
        if any(isinstance(entry, str) for line in bases for entry in line):
            return [of, f"{node.name} has several bases, one of which is not in the tree"]
        return [of, *_merged([list(line) for line in bases])]

    def _inside(self, name: str) -> Module:
        found = self.get(name)
        if found is None:
            raise Open(f"module {name!r} is not in the tree")
        return found

    def _imported(self, source: str, name: str, patience: int) -> Found:
        return self.lookup(self._inside(source), name, patience - 1)

    def _elsewhere(self, module: Module, name: str, patience: int) -> Found:
        """Look for a name that a module does not bind itself in those that it imports whole."""
        for source in _stars(module):
            if self.get(source) is None:
                raise Open(f"{module.name} imports all names of {source!r}, which is not in the tree")
            try:
                return self._imported(source, name, patience)
            except Absent:
                continue
        if module.package == module.name and (inner := self.get(f"{module.name}.{name}")) is not None:
            return Found(module=inner, node=None)
        if "__getattr__" in module.names:
            raise Open(f"{module.name} makes names when they are asked for")
        raise Absent(f"{module.path} has no name {name!r}")

    def _parse(self, name: str) -> Module | None:
        inner = name.replace(".", "/")
        for root in self.roots:
            prefix = f"{root.strip('/')}/" if root.strip("/.") else ""
            for path, package in (
                (f"{prefix}{inner}/__init__.py", name),
                (f"{prefix}{inner}.py", name.rpartition(".")[0]),
            ):
                entry = self.tree.read(path)
                if entry is None or entry.is_link:
                    continue
                text = entry.data.decode("utf-8", "surrogateescape")
                try:
                    syntax = ast.parse(entry.data)
                except (SyntaxError, ValueError, RecursionError) as error:
                    raise Open(f"{path} is no Python that this program can read: {error}") from error
                names = bindings(syntax.body)
                return Module(name=name, package=package, path=path, syntax=syntax, text=text, names=names)
        return None


def bindings(body: Sequence[ast.stmt]) -> dict[str, list[Binding]]:
    """Return what the statements of a module or class bind, by name, in order."""
    found: dict[str, list[Binding]] = {}
    for statement, is_sure in _statements(body, is_sure=True):
        for name in _binds(statement):
            found.setdefault(name, []).append(Binding(node=statement, sure=is_sure))
    return found


def sure(bound: Sequence[Binding], what: str, path: str) -> Binding:
    """Return the binding that holds at the end. Raises `Open` where a condition decides."""
    last = bound[-1]
    if not last.sure:
        raise Open(f"{what} is set under a condition, in {path}:{last.node.lineno}")
    return last


def _statements(body: Sequence[ast.stmt], *, is_sure: bool) -> Iterator[tuple[ast.stmt, bool]]:
    for statement in body:
        yield statement, is_sure
        match statement:
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), orelse=other):
                yield from _statements(other, is_sure=is_sure)
            case ast.With(body=inner):
                yield from _statements(inner, is_sure=is_sure)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:
                for block in ("body", "orelse", "finalbody"):
                    yield from _statements(getattr(statement, block, ()), is_sure=False)
                for case in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    yield from _statements(case.body, is_sure=False)


def _binds(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Import(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names if alias.name != "*")
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.AnnAssign(value=None):
            return
        case ast.Delete(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case _:
            blocks = ("body", "orelse", "finalbody", "handlers", "cases")
            for name, value in ast.iter_fields(statement):
                for child in () if name in blocks else value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from (
                            node.id
                            for node in ast.walk(child)
                            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del)
                        )


def _require_not_rebound(module: Module, name: str) -> None:
    for node in ast.walk(module.syntax):
        if isinstance(node, ast.Global) and name in node.names:
            raise Open(f"{module.name}.{name} is set by a function, in {module.path}:{node.lineno}")


def _stars(module: Module) -> Iterator[str]:
    for statement, _ in _statements(module.syntax.body, is_sure=True):
        if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
            yield _absolute(statement, module.package)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parts = package.split(".") if package else []
    if node.level - 1 >= len(parts):
        raise Open(f"a relative import leaves the package, in line {node.lineno}")
    return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])


def _outside_name(module: Module, node: ast.expr) -> str | None:
    """Return the dotted name a base class is imported as, without a look at the tree."""
    match node:
        case ast.Name(id=name):
            statement = module.names[name][-1].node if name in module.names else None
            if isinstance(statement, ast.ImportFrom) and statement.level == 0:
                original = next(a.name for a in statement.names if (a.asname or a.name) == name)
                return f"{statement.module}.{original}"
            return name if statement is None else None
        case ast.Attribute(value=ast.Name(id=owner), attr=attr):
            statement = module.names[owner][-1].node if owner in module.names else None
            return f"{owner}.{attr}" if isinstance(statement, ast.Import) else None
        case _:
            return None


def _merged(lines: list[list[Found | str]]) -> list[Found | str]:
    """Merge the lineages of several bases as Python does (C3)."""
    merged: list[Found | str] = []
    while lines := [line for line in lines if line]:
        for line in lines:
            head = line[0]
            if not any(_same(head, entry) for other in lines for entry in other[1:]):
                break
        else:
            return [*merged, "its bases have no order that Python would take"]
        merged.append(head)
        lines = [[entry for entry in line if not _same(entry, head)] for line in lines]
    return merged


def _same(one: Found | str, other: Found | str) -> bool:
    return not isinstance(one, str) and not isinstance(other, str) and one.node is other.node
