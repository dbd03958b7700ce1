"""The modules of one source tree and the names each of them defines, read without importing anything.

It answers "does `a.b` exist, and does it have a `c`" for a tree it was given. A module that fills its namespace
while it runs (`__getattr__`, `globals()[…]`, compiled modules) is said to be open, never guessed at.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from builder.pynames import Function, PythonFile, expressions, read_file, statements
from builder.sourcetree import PYTHON, SourceTree, module_of

_COMPILED = (".so", ".pyd")


class Existence(Enum):
    """Whether a module has a name."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Star:
    """A `from module import *`; guarded when it stands below an `if` or `try`."""

    module: str
    guarded: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Namespace:
    """What one module binds at its top level.

    `targets` are the names that come from elsewhere, with what they were imported as. `public` is a literal
    `__all__`. `open_because` says why there may be more names than these.
    """

    module: str
    is_package: bool
    names: frozenset[str]
    targets: Mapping[str, tuple[str, ...]]
    stars: tuple[Star, ...] = ()
    public: tuple[str, ...] | None = None
    open_because: str | None = None


class Namespaces:
    """The modules of a tree. Files are parsed when they are asked for; `unparsed` collects those that fail."""

    def __init__(self, tree: SourceTree) -> None:
        self._texts = tree.texts
        self._paths = {module: path for path in sorted(tree.texts) if (module := module_of(path)) is not None}
        self._compiled = {_compiled_module(path) for path in tree.names if path.endswith(_COMPILED)}
        self._folders = {
            ".".join(parts[:depth])
            for path in tree.names
            if path.endswith((*PYTHON, *_COMPILED))
            for parts in [path.split("/")[:-1]]
            for depth in range(1, len(parts) + 1)
        }
        self._known: dict[str, Namespace | None] = {}
        self.unparsed: dict[str, str] = {}

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The top-level names the tree can be imported by, sorted."""
        modules = {*self._paths, *self._compiled}
        return tuple(sorted({module.partition(".")[0] for module in modules}))

    def path(self, module: str) -> str | None:
        """Return the Python file of a module, None when it has none."""
        return self._paths.get(module)

    def has_module(self, module: str) -> bool:
        """Return whether something in the tree is imported by this dotted name."""
        return module in self._paths or module in self._compiled or module in self._folders

    def file(self, module: str) -> PythonFile | None:
        """Parse a module's file; None when there is none or it does not parse (see `unparsed`)."""
        path = self._paths.get(module)
        return self.parse_path(path) if path is not None else None

    def parse_path(self, path: str) -> PythonFile | None:
        """Parse a file of the tree; None when it does not parse or cannot be imported by its name."""
        module = module_of(path)
        syntax = self.syntax(path)
        if module is None or syntax is None:
            return None
        return read_file(syntax, module=module, is_package=path.endswith("/__init__.py"))

    def syntax(self, path: str) -> ast.Module | None:
        """Parse a file of the tree, None when it is no Python: `unparsed` then has line and reason."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its own compiler, about escapes in other people's strings
                return ast.parse(self._texts[path])
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            self.unparsed[path] = f"line {line}: {getattr(error, 'msg', error)}" if line else str(error)
            return None

    def namespace(self, module: str) -> Namespace | None:
        """Return a module's own namespace, None when it has no file that parses."""
        if module not in self._known:
            parsed = self.file(module)
            self._known[module] = namespace_of(parsed) if parsed is not None else None
        return self._known[module]

    def has_name(self, module: str, name: str) -> Existence:
        """Return whether `from module import name` finds something in an existing module."""
        return self._has_name(module, name, frozenset())

    def why_open(self, module: str) -> str:
        """Return why it is not known which names a module has."""
        found = self.namespace(module)
        if found is None:
            path = self._paths.get(module)
            return f"{path} does not parse" if path else f"{module} is a compiled module"
        if found.open_because:
            return found.open_because
        outside = [star.module for star in found.stars if not self.has_module(star.module)]
        if outside:
            return f"{module} takes all names of {outside[0]}, which is not here"
        return next((self.why_open(star.module) for star in found.stars), f"{module} is not known completely")

    def finals(self, dotted: str) -> tuple[str, ...]:
        """Follow a dotted name through the tree's re-exports to what it finally is, in or outside the tree."""
        return self._finals(dotted, frozenset())

    def _has_name(self, module: str, name: str, seen: frozenset[str]) -> Existence:
        if module in seen:
            return Existence.NO
        if self.has_module(f"{module}.{name}") or name in {
            "__name__",
            "__file__",
            "__doc__",
            "__path__",
            "__spec__",
        }:
            return Existence.YES
        found = self.namespace(module)
        if found is None:
            opaque = module in self._paths or module in self._compiled
            return Existence.UNKNOWN if opaque else Existence.NO
        if name in found.names:
            return Existence.YES
        answers = [self._through_star(star, name, seen | {module}) for star in found.stars]
        if Existence.YES in answers:
            return Existence.YES
        return Existence.UNKNOWN if found.open_because or Existence.UNKNOWN in answers else Existence.NO

    def _through_star(self, star: Star, name: str, seen: frozenset[str]) -> Existence:
        """Ask a starred module. A guarded one that is not in the tree is taken to bring nothing."""
        module = star.module
        if not self.has_module(module):
            inside = module.partition(".")[0] in self.roots
            return Existence.NO if inside or star.guarded else Existence.UNKNOWN
        found = self.namespace(module)
        if found is not None and found.public is not None:
            return Existence.YES if name in found.public else Existence.NO
        return Existence.NO if name.startswith("_") else self._has_name(module, name, seen)

    def _gives(self, star: Star, name: str) -> bool:
        there = self.has_module(star.module)
        return there and self._through_star(star, name, frozenset()) is Existence.YES

    def _finals(self, dotted: str, seen: frozenset[str]) -> tuple[str, ...]:
        if dotted in seen:
            return ()
        parts = dotted.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:cut])
            if module not in self._paths:
                continue
            found = self.namespace(module)
            head, rest = parts[cut], parts[cut + 1 :]
            targets = found.targets.get(head, ()) if found is not None else ()
            if not targets and found is not None and head not in found.names:
                targets = tuple(f"{star.module}.{head}" for star in found.stars if self._gives(star, head))
            followed = [self._finals(".".join([target, *rest]), seen | {dotted}) for target in targets]
            return tuple(dict.fromkeys(final for finals in followed for final in finals)) or (dotted,)
        return (dotted,)


def namespace_of(parsed: PythonFile) -> Namespace:
    """Read the namespace of one parsed module."""
    names = {*parsed.top.bound, *parsed.top.imports, *_through_global(parsed.syntax)}
    public, open_public = _declared_all(parsed.syntax)
    reason = _fills_itself(parsed.syntax, parsed.module)
    if reason is None and open_public:
        reason = f"{parsed.module} computes its __all__"
    unguarded = {id(statement) for statement in parsed.syntax.body}
    targets = dict(parsed.top.imports)
    for name in parsed.top.aliases:
        expression = ast.Name(id=name, ctx=ast.Load())
        own = f"{parsed.module}.{name}"
        found = tuple(dotted for dotted in parsed.meanings(expression, (parsed.top,)) if dotted != own)
        if found:
            targets[name] = found
    return Namespace(
        module=parsed.module,
        is_package=parsed.package == parsed.module,
        names=frozenset(names),
        targets=targets,
        stars=tuple(Star(module=star, guarded=id(node) not in unguarded) for star, node in parsed.top.stars),
        public=public,
        open_because=reason,
    )


def _through_global(syntax: ast.Module) -> set[str]:
    """Return the names that functions of a module create in it with `global`."""
    return {name for node in ast.walk(syntax) if isinstance(node, ast.Global) for name in node.names}


def _declared_all(syntax: ast.Module) -> tuple[tuple[str, ...] | None, bool]:
    """Return a literal `__all__`, and whether something else than literals went into it."""
    found: list[str] | None = None
    computed = False
    for statement in statements(syntax):
        value = _all_value(statement)
        if value is None:
            continue
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            found = []
        literal = _strings(value)
        if literal is None:
            computed = True
        else:
            found = [*(found or []), *literal]
    if computed:
        return None, True
    return (tuple(found) if found is not None else None), False


def _all_value(statement: ast.AST) -> ast.expr | None:
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id="__all__")], value=value)
            | ast.AugAssign(target=ast.Name(id="__all__"), value=value)
            | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
        ):
            return value
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id="__all__"), attr="extend" | "append"),
                args=[ast.expr() as value],
            )
        ):
            return value
        case _:
            return None


def _strings(value: ast.expr) -> tuple[str, ...] | None:
    match value:
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            texts = [element.value for element in elements if isinstance(element, ast.Constant)]
            return tuple(map(str, texts)) if len(texts) == len(elements) else None
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = _strings(left), _strings(right)
            return (*one, *other) if one is not None and other is not None else None
        case _:
            return None


def _fills_itself(syntax: ast.Module, module: str) -> str | None:
    """Return how a module makes names that cannot be read from it, None when it does not."""
    for statement in statements(syntax):
        if isinstance(statement, Function) and statement.name == "__getattr__":
            return f"{module} has a module-level __getattr__"
        if any(_runs_text(node) for part in expressions(statement) for node in ast.walk(part)):
            return f"{module} executes generated code"
    return next((f"{module} {how}" for node in ast.walk(syntax) if (how := _writes_namespace(node))), None)


def _runs_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "exec"


def _writes_namespace(node: ast.AST) -> str | None:
    match node:
        case ast.Subscript(value=ast.Call(func=ast.Name(id="globals")), ctx=ast.Store()):
            return "writes into globals()"
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="globals")), attr="update" | "setdefault")
        ):
            return "writes into globals()"
        case ast.Subscript(value=ast.Attribute(attr="modules"), slice=ast.Name(id="__name__"), ctx=ast.Store()):
            return "replaces itself in sys.modules"
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Subscript(value=ast.Attribute(attr="modules")), *_]):
            return "sets attributes on itself"
        case _:
            return None


def _compiled_module(path: str) -> str:
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    return ".".join([*folder.split("/"), stem] if folder else [stem])
