"""What an expression would give in a module, read from syntax trees: constants, class attributes, simple methods.

For versions that cannot be imported here. A value is known only where nothing but the text of the tree decides it;
everything else is unknown, with the reason.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from builder.patches.modules import Absent, Found, Function, Module, Modules, Open, bindings, sure
from builder.patches.tree import Tree

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {
    "int": int, "float": float, "bool": bool, "str": str, "min": min, "max": max, "round": round, "abs": abs,
    "len": len, "tuple": tuple, "list": list,
}  # fmt: skip
_LARGEST = 1 << 64  # of what is multiplied, shifted or raised: a version that is judged must not take for ever
_ON_CLASS = frozenset({"classmethod", "staticmethod"})
_QUIET_DECORATORS = frozenset({"dataclass", "dataclasses.dataclass", "final", "typing.final", "runtime_checkable"})
# Bases whose classes make something else of what is written in their bodies.
_MAKERS = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "NamedTuple", "TypedDict", "BaseModel", "Structure")


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A value, and the file and line that say so."""

    value: object
    where: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """The text does not tell."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """The module, class or attribute is not there."""

    reason: str


def evaluate(
    tree: Tree, module: str, expression: str, *, roots: Sequence[str] = ("",)
) -> Known | Unknown | Missing:
    """Return what an expression gives in a module's namespace, for example `Backend.supports()`.

    `roots` are the folders of the tree that imports start from.
    """
    try:
        wanted = ast.parse(expression, mode="eval").body
        where = _module(modules := Modules(tree=tree, roots=roots), module)
        reader = _Evaluation(modules=modules)
        value = reader.value(wanted, where)
    except Absent as error:
        return Missing(reason=str(error))
    except (Open, SyntaxError, ArithmeticError, ValueError, TypeError, RecursionError) as error:
        return Unknown(reason=str(error))
    return Known(value=value, where=reader.places[0] if reader.places else where.path)


def source_hash(
    tree: Tree, module: str, attribute: str, *, roots: Sequence[str] = ("",)
) -> Known | Unknown | Missing:
    """Return the sha256 of what `inspect.getsource` would return for a function or method, and where it is."""
    try:
        modules = Modules(tree=tree, roots=roots)
        found = _Evaluation(modules=modules).function(
            ast.parse(attribute, mode="eval").body, _module(modules, module)
        )
    except Absent as error:
        return Missing(reason=str(error))
    except (Open, SyntaxError, RecursionError) as error:
        return Unknown(reason=str(error))
    node = found.node
    if not isinstance(node, Function):
        return Unknown(reason=f"{attribute!r} is no function that is written there")
    if any(ast.unparse(each) not in _ON_CLASS for each in node.decorator_list):
        return Unknown(reason=f"{attribute!r} is decorated, in {found.where()}")
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    lines = [f"{line}\n" for line in found.module.text.replace("\r\n", "\n").split("\n")]
    text = "".join(inspect.getblock(lines[first - 1 :]))
    return Known(value=hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(), where=found.where())


def _module(modules: Modules, name: str) -> Module:
    found = modules.get(name)
    if found is None:
        raise Absent(f"there is no module {name!r}")
    return found


@dataclass(kw_only=True, slots=True)
class _Evaluation:
    """One question. `places` are where its answer was found, the deciding one first."""

    modules: Modules
    places: list[str] = field(default_factory=list)
    depth: int = 0

    def value(self, node: ast.expr, module: Module, cls: Found | None = None) -> Any:  # noqa: ANN401
        """Return the value of an expression. `cls` is what the name `cls` stands for inside a method."""
        self.depth += 1
        if self.depth > 200:
            raise Open("it depends on too much")
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=elements):
                return tuple(self.value(element, module, cls) for element in elements)
            case ast.List(elts=elements):
                return [self.value(element, module, cls) for element in elements]
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = zip(keys, values, strict=True)
                return {self.value(k, module, cls): self.value(v, module, cls) for k, v in pairs if k is not None}
            case ast.UnaryOp(op=op, operand=operand):
                return _UNARY[type(op)](self.value(operand, module, cls))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _bounded(op, self.value(left, module, cls), self.value(right, module, cls))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if self._is_builtin(name, module):
                return _CALLS[name](*(self.value(argument, module, cls) for argument in args))
            case ast.Call(func=func, args=[], keywords=[]):
                return self._called(func, module, cls)
            case ast.Name() | ast.Attribute():
                return self._named(node, module, cls)
            case _:
                raise Open(f"{ast.unparse(node)!r} is computed when it is asked for")

    def function(self, node: ast.expr, module: Module, cls: Found | None = None) -> Found:
        """Return the statement that an expression such as `Class.name` stands for, over base classes."""
        if isinstance(node, ast.Attribute):
            owner = self._owner(node.value, module, cls)
            if owner is not None:
                return self._attribute(owner, node.attr)
        found = self.modules.dotted(module, node)
        self.places.append(found.where())
        return found

    def _is_builtin(self, name: str, module: Module) -> bool:
        return name in _CALLS and name not in module.names

    def _owner(self, node: ast.expr, module: Module, cls: Found | None) -> Found | None:
        """Return the class that an expression stands for, None where it is something else."""
        if isinstance(node, ast.Name) and node.id == "cls" and cls is not None:
            return cls
        found = self.modules.dotted(module, node)
        if found.node is not None and not isinstance(found.node, ast.ClassDef):
            raise Open(f"{ast.unparse(node)!r} is no class")
        return found if found.node is not None else None

    def _attribute(self, of: Found, name: str) -> Found:
        """Return the statement that binds an attribute of a class or of what it inherits from."""
        for entry in self.modules.lineage(of):
            if isinstance(entry, str):
                raise Open(f"{name!r} is not found before it is open: {entry}")
            node = entry.node
            if not isinstance(node, ast.ClassDef):
                raise Open(f"{entry.where()} is no class")
            _require_plain(entry, node, name)
            bound = bindings(node.body).get(name)
            if bound is not None:
                binding = sure(bound, f"{node.name}.{name}", entry.module.path)
                found = Found(module=entry.module, node=binding.node)
                self.places.append(found.where())
                return found
        raise Absent(f"class {getattr(of.node, 'name', '?')} of {of.module.path} has no attribute {name!r}")

    def _named(self, node: ast.Name | ast.Attribute, module: Module, cls: Found | None) -> Any:  # noqa: ANN401
        found = self.function(node, module, cls)
        name = node.id if isinstance(node, ast.Name) else node.attr
        match found.node:
            case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value):
                result = self.value(value, found.module)
                if isinstance(result, list | dict):
                    _require_unchanged(found.module, name)
                return result
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | None:
                raise Open(f"{ast.unparse(node)!r} is no plain value")
            case other:
                raise Open(f"{ast.unparse(node)!r} is not simply assigned, in {found.where(other)}")

    def _called(self, func: ast.expr, module: Module, cls: Found | None) -> Any:  # noqa: ANN401
        """Return what a function without arguments returns, where that is written as one expression."""
        owner = self._owner(func.value, module, cls) if isinstance(func, ast.Attribute) else None
        found = self.function(func, module, cls)
        node = found.node
        shown = f"{ast.unparse(func)}()"
        if not isinstance(node, ast.FunctionDef):
            raise Open(f"{shown!r} calls no plain function, in {found.where()}")
        kinds = [ast.unparse(each) for each in node.decorator_list]
        if any(kind not in _ON_CLASS for kind in kinds) or (kinds and owner is None) or len(kinds) > 1:
            raise Open(f"{shown!r} is decorated with {', '.join(kinds)}, in {found.where()}")
        arguments = node.args
        needed = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
        first = (*arguments.posonlyargs, *arguments.args)[:1]
        bound = kinds == ["classmethod"]
        if needed > (1 if bound else 0) or any(default is None for default in arguments.kw_defaults):
            raise Open(f"{shown!r} needs arguments or an instance, in {found.where()}")
        returned = _returned(node, found)
        named_cls = bound and bool(first) and first[0].arg == "cls"
        return None if returned is None else self.value(returned, found.module, owner if named_cls else None)


def _bounded(op: ast.operator, left: Any, right: Any) -> Any:  # noqa: ANN401
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if not numbers and not (isinstance(op, ast.Add) and type(left) is type(right)):
        raise Open("it is computed from what are no numbers")
    if numbers and (abs(left) > _LARGEST or abs(right) > _LARGEST):
        raise Open("it is computed from very large numbers")
    if isinstance(op, ast.Pow | ast.LShift) and right > 64:
        raise Open("it is computed from very large numbers")
    return _OPERATORS[type(op)](left, right)


def _returned(node: ast.FunctionDef, found: Found) -> ast.expr | None:
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    match body:
        case [] | [ast.Pass()] | [ast.Return(value=None)]:
            return None
        case [ast.Return(value=ast.expr() as value)]:
            return value
        case _:
            raise Open(f"{node.name}() does more than return a value, in {found.where()}")


def _require_plain(entry: Found, node: ast.ClassDef, name: str) -> None:
    """Refuse classes whose attributes are not simply what is written in their bodies."""
    decorators = [ast.unparse(each).partition("(")[0] for each in node.decorator_list]
    if any(each not in _QUIET_DECORATORS for each in decorators):
        raise Open(f"class {node.name} is decorated, in {entry.where()}")
    if any(
        keyword.arg == "metaclass" and not ast.unparse(keyword.value).endswith("ABCMeta")
        for keyword in node.keywords
    ):
        raise Open(f"class {node.name} has a metaclass, in {entry.where()}")
    if any(ast.unparse(base).rpartition(".")[2] in _MAKERS for base in node.bases):
        raise Open(f"class {node.name} makes its attributes itself, in {entry.where()}")
    for statement in ast.walk(entry.module.syntax):
        match statement:
            case ast.Attribute(value=ast.Name(id=owner), attr=attr, ctx=ast.Store() | ast.Del()) if (
                owner == node.name and attr == name
            ):
                raise Open(f"{node.name}.{name} is set outside the class, in {entry.where(statement)}")
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=owner), *_]) if owner == node.name:
                raise Open(f"attributes of {node.name} are set outside the class, in {entry.where(statement)}")
            case _:
                pass


def _require_unchanged(module: Module, name: str) -> None:
    """Refuse a list or table that something in its file may change after it was made."""
    for node in ast.walk(module.syntax):
        match node:
            case (
                ast.Attribute(value=ast.Name(id=owner))
                | ast.AugAssign(target=ast.Name(id=owner))
                | ast.Subscript(value=ast.Name(id=owner), ctx=ast.Store() | ast.Del())
            ) if owner == name:
                raise Open(f"{name!r} may be changed, in {module.path}:{node.lineno}")
            case _:
                pass
