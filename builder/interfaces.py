"""The contract between components: every module and name that one imports from another exists there.

Both sides are read from syntax trees, so that it can be checked before anything is installed, and without the
GPU that importing the real thing would ask for. What a module computes while it runs is reported as unknown,
never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from builder.namespaces import Existence, Namespaces
from builder.pynames import PythonFile, Scope, absolute, imported_module, scope_of
from builder.sourcetree import PYTHON, SourceTree

_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class Verdict(Enum):
    """What is wrong with an import."""

    MISSING_MODULE = "missing module"
    MISSING_NAME = "missing name"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """One place that needs `module`, or `name` of it.

    `optional`: a failed import is caught there, or never happens at run time. `conditional`: it stands below a
    condition that is not known here. `lazy`: inside a function, so it fails when that is called.
    """

    file: str
    line: int
    module: str
    name: str | None
    optional: bool
    conditional: bool
    lazy: bool

    @property
    def how(self) -> str:
        """In which case the importer fails."""
        if self.optional:
            return "optional"
        return (
            "needed when called"
            if self.lazy
            else "needed on a condition"
            if self.conditional
            else "needed at import"
        )

    @property
    def place(self) -> str:
        """File and line, as editors take it."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Breach:
    """A module or name that is not there, with every place that needs it, the one that fails first ahead."""

    verdict: Verdict
    module: str
    name: str | None
    optional: bool
    why: str
    uses: tuple[Use, ...]

    @property
    def wanted(self) -> str:
        """The dotted thing that is wanted."""
        return self.module if self.name is None else f"{self.module}.{self.name}"

    def __str__(self) -> str:
        first, more = self.uses[0], len(self.uses) - 1
        where = f"{first.place} and {more} more" if more else first.place
        return f"{self.wanted}: {self.why}; {first.how}, {where}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Contract:
    """The outcome: how many imports were looked at, and those that are not kept.

    `unparsed` are files of either side that could not be read, with the reason.
    """

    checked: int
    breaches: tuple[Breach, ...]
    unparsed: Mapping[str, str]

    @property
    def missing(self) -> tuple[Breach, ...]:
        """What is surely not there and needed."""
        return tuple(b for b in self.breaches if b.verdict is not Verdict.UNKNOWN and not b.optional)

    @property
    def optional(self) -> tuple[Breach, ...]:
        """What is not there, where the importer says it can do without: a feature is silently off."""
        return tuple(b for b in self.breaches if b.verdict is not Verdict.UNKNOWN and b.optional)

    @property
    def unknown(self) -> tuple[Breach, ...]:
        """What cannot be decided without running the provider."""
        return tuple(b for b in self.breaches if b.verdict is Verdict.UNKNOWN)


def check_contract(importer: SourceTree, provider: SourceTree, *, roots: Iterable[str] = ()) -> Contract:
    """Check every import that `importer` makes from `provider`.

    `roots` are the provider's top-level modules to look at; the default is all of them that the importer does
    not bring itself. Tests, benchmarks and examples of the importer are left out.
    """
    names = Namespaces(provider)
    own = Namespaces(importer)
    wanted = tuple(roots) or tuple(root for root in names.roots if root not in own.roots)
    broken: dict[Use, tuple[Verdict, str]] = {}
    checked = 0
    for path, data in importer.files(PYTHON):
        if not any(root.encode() in data for root in wanted):
            continue
        parsed = own.parse_path(path)
        if parsed is None:
            continue
        reader = _Reader(path=path, parsed=parsed, names=names, roots=frozenset(wanted))
        reader.run()
        checked += reader.checked
        broken |= reader.broken
    return Contract(
        checked=checked,
        breaches=_grouped(broken),
        unparsed=dict(sorted({**own.unparsed, **names.unparsed}.items())),
    )


def _grouped(broken: Mapping[Use, tuple[Verdict, str]]) -> tuple[Breach, ...]:
    groups: dict[tuple[str, str], list[Use]] = {}
    for use in broken:
        groups.setdefault((use.module, use.name or ""), []).append(use)
    breaches = []
    for _, uses in sorted(groups.items()):
        ordered = sorted(uses, key=lambda use: (use.optional, use.lazy, use.conditional, use.file, use.line))
        verdict, why = broken[ordered[0]]
        breaches.append(
            Breach(
                verdict=verdict,
                module=ordered[0].module,
                name=ordered[0].name,
                optional=ordered[0].optional,
                why=why,
                uses=tuple(ordered),
            )
        )
    return tuple(breaches)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Guard:
    """What is known of a place in the importing file, see `Use`."""

    optional: bool = False
    conditional: bool = False
    lazy: bool = False
    scopes: tuple[Scope, ...] = ()

    def made(
        self, *, optional: bool = False, conditional: bool = False, lazy: bool = False, scope: Scope | None = None
    ) -> _Guard:
        return _Guard(
            optional=self.optional or optional,
            conditional=self.conditional or conditional,
            lazy=self.lazy or lazy,
            scopes=self.scopes if scope is None else (*self.scopes, scope),
        )


@dataclass(kw_only=True, slots=True)
class _Reader:
    """Reads one importing file and collects the uses that fail."""

    path: str
    parsed: PythonFile
    names: Namespaces
    roots: frozenset[str]
    checked: int = 0
    broken: dict[Use, tuple[Verdict, str]] = field(default_factory=dict)

    def run(self) -> None:
        """Read the file."""
        self._block(self.parsed.syntax.body, _Guard(scopes=(self.parsed.top,)))

    def _block(self, body: Iterable[ast.stmt], guard: _Guard) -> None:
        for statement in body:
            self._statement(statement, guard)

    def _statement(self, node: ast.stmt, guard: _Guard) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node, guard)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._expressions([*node.decorator_list, node.args, *filter(None, [node.returns])], guard)
                self._block(node.body, guard.made(lazy=True, scope=scope_of(node, self.parsed.package)))
            case ast.ClassDef():
                self._expressions([*node.decorator_list, *node.bases, *node.keywords], guard)
                self._block(node.body, guard)
            case ast.Try() | ast.TryStar():
                self._try(node, guard)
            case ast.If():
                self._expressions([node.test], guard)
                then, otherwise = self._branches(node.test)
                open_question = then and otherwise
                self._block(node.body, guard.made(optional=not then, conditional=open_question))
                self._block(node.orelse, guard.made(optional=not otherwise, conditional=open_question))
            case _:
                self._compound(node, guard)

    def _compound(self, node: ast.stmt, guard: _Guard) -> None:
        """Read any other statement: its own expressions, and the blocks below it."""
        for _, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                match child:
                    case ast.stmt():
                        self._statement(child, guard)
                    case ast.match_case():
                        self._expressions([child.pattern, *filter(None, [child.guard])], guard)
                        self._block(child.body, guard)
                    case ast.AST():
                        self._expressions([child], guard)
                    case _:
                        pass

    def _try(self, node: ast.Try | ast.TryStar, guard: _Guard) -> None:
        """Read a `try`: its imports are optional when failure is caught, the handler only runs if one failed."""
        caught = any(_catches_import_error(handler) for handler in node.handlers)
        before = len(self.broken)
        self._block(node.body, guard.made(optional=caught))
        failed = len(self.broken) > before or not _imports_from(node.body, self.roots)
        for handler in node.handlers:
            never = caught and _catches_import_error(handler) and not failed
            self._block(handler.body, guard.made(optional=never))
        self._block(node.orelse, guard.made(optional=caught and failed))
        self._block(node.finalbody, guard)

    def _branches(self, test: ast.expr) -> tuple[bool, bool]:
        """Return whether the branches of an `if` can run, as far as this provider decides it."""
        match test:
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                return False, True
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                then, otherwise = self._branches(inner)
                return otherwise, then
            case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return self._branches(left)
            case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                then, otherwise = self._branches(left)
                return otherwise, then
            case ast.BoolOp(op=ast.And(), values=values):
                parts = [self._branches(value) for value in values]
                return all(then for then, _ in parts), any(otherwise for _, otherwise in parts)
            case ast.BoolOp(op=ast.Or(), values=values):
                parts = [self._branches(value) for value in values]
                return any(then for then, _ in parts), all(otherwise for _, otherwise in parts)
            case ast.Call(
                func=ast.Name(id="find_spec") | ast.Attribute(attr="find_spec"),
                args=[ast.Constant(value=str(module)), *_],
            ) if module.partition(".")[0] in self.roots:
                there = self.names.has_module(module)
                return there, not there
            case _:
                return True, True

    def _import(self, node: ast.Import | ast.ImportFrom, guard: _Guard) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._need(alias.name, None, node, guard)
            return
        module = absolute(node.module, node.level, self.parsed.package)
        if module is None:
            return
        for alias in node.names:
            self._need(module, None if alias.name == "*" else alias.name, node, guard)

    def _expressions(self, parts: Iterable[ast.AST], guard: _Guard) -> None:
        """Look for `import_module` with a literal name, and for attributes of imported modules."""
        for part in parts:
            for node in ast.walk(part):
                match node:
                    case ast.Call() if (module := imported_module(node)) is not None:
                        self._need(module, None, node, guard)
                    case ast.Attribute(ctx=ast.Load()):
                        self._attribute(node, guard)
                    case _:
                        pass

    def _attribute(self, node: ast.Attribute, guard: _Guard) -> None:
        """Take `aiter.ops.x` where `aiter.ops` was imported as a module; attributes of other things are theirs."""
        for holder in self.parsed.meanings(node.value, guard.scopes):
            if holder.partition(".")[0] in self.roots and self.names.has_module(holder):
                self._need(holder, node.attr, node, guard)

    def _need(self, module: str, name: str | None, node: ast.stmt | ast.expr, guard: _Guard) -> None:
        if module.partition(".")[0] not in self.roots:
            return
        self.checked += 1
        outcome = self._outcome(module, name)
        if outcome is not None:
            verdict, missing, missing_name, why = outcome
            use = Use(
                file=self.path, line=node.lineno, module=missing, name=missing_name,
                optional=guard.optional, conditional=guard.conditional, lazy=guard.lazy,
            )  # fmt: skip
            self.broken.setdefault(use, (verdict, why))

    def _outcome(self, module: str, name: str | None) -> tuple[Verdict, str, str | None, str] | None:
        parts = module.split(".")
        for depth in range(1, len(parts) + 1):
            if not self.names.has_module(".".join(parts[:depth])):
                return Verdict.MISSING_MODULE, module, None, f"no module {'.'.join(parts[:depth])}"
        if name is None:
            return None
        match self.names.has_name(module, name):
            case Existence.YES:
                return None
            case Existence.UNKNOWN:
                return Verdict.UNKNOWN, module, name, self.names.why_open(module)
            case Existence.NO:
                file = self.names.path(module) or module
                return Verdict.MISSING_NAME, module, name, f"no such name in {file}"


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    match handler.type:
        case None:
            return True
        case ast.Tuple(elts=elements):
            return any(_is_import_error(element) for element in elements)
        case single:
            return _is_import_error(single)


def _is_import_error(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in _IMPORT_ERRORS


def _imports_from(body: Iterable[ast.stmt], roots: frozenset[str]) -> bool:
    """Return whether a block imports something of the provider, so that its outcome is known."""
    found: Iterator[str] = (
        alias.name if isinstance(node, ast.Import) else node.module or ""
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )
    return any(name.partition(".")[0] in roots for name in found)
