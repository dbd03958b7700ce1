"""Puts a new value or callable where an old one is, in the namespace of a module, if all is as declared.

What a module is called and when it is imported is not known here. Anything that is not as declared raises `Unfit`;
no default ever stands in for what is missing.
"""

from __future__ import annotations

import functools
import importlib
import types

from .events import shown

TYPE_CHECKING = False  # as type checkers know it; see __init__
if TYPE_CHECKING:
    from typing import Any

    from .registry import Hook

_MISSING: Any = object()


class Unfit(Exception):
    """The target is not there, or the old value is not the declared one."""


def override(hook: Hook, namespace: dict[str, Any], *, again: bool = False) -> None:
    """Replace what `hook` names in a namespace. With `again`, what an earlier run of this put there may still be.

    Sets `hook.old` and `hook.new`. Raises `Unfit`, or what a file of the project raises.
    """
    owner, name, old = place(namespace, hook.attribute)
    if again and old is hook.new:
        return
    new = _callable(hook, owner, name, old) if hook.function is not None else _value(hook, old)
    own = owner.get(name, _MISSING) if isinstance(owner, dict) else vars(owner).get(name, _MISSING)
    _set(owner, name, new)
    if place(namespace, hook.attribute)[2] is not new:
        _set(owner, name, own)
        raise Unfit("its class does not keep what is set")
    hook.old, hook.new = old, new


def place(namespace: dict[str, Any], attribute: str) -> tuple[Any, str, Any]:
    """Return where an attribute is (a namespace or a class), its name there, and what is there, unbound."""
    first, *rest = attribute.split(".")
    if first not in namespace:
        raise Unfit(f"the module has no {first!r} of its own")
    owner: Any = namespace
    name, found, path = first, namespace[first], first
    for part in rest:
        if not isinstance(found, type):
            raise Unfit(f"{path} is of type {type(found).__name__}, not a class")
        owner, name = found, part
        found = next((vars(base)[part] for base in owner.__mro__ if part in vars(base)), _MISSING)
        if found is _MISSING:
            raise Unfit(f"the class {path} has no {part!r}")
        path = f"{path}.{part}"
    return owner, name, found


def same(expected: object, found: object) -> bool:
    """Whether a value is the declared one, by type as well. An array stands for a list or a tuple."""
    if isinstance(expected, list):
        return (
            (type(found) is list or type(found) is tuple)
            and len(expected) == len(found)
            and all(map(same, expected, found))
        )
    if type(expected) is not type(found):
        return False
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same(expected[key], found[key]) for key in expected)
    return bool(expected == found)


def shaped(value: Any, like: object) -> Any:
    """Return a copy of a declared value in which arrays are tuples where those of `like` are."""
    if isinstance(value, list):
        one = like if isinstance(like, (list, tuple)) and like else None
        items = [shaped(item, one[min(at, len(one) - 1)] if one else None) for at, item in enumerate(value)]
        return tuple(items) if isinstance(like, tuple) else items
    if isinstance(value, dict):
        table = like if isinstance(like, dict) else {}
        return {key: shaped(item, table.get(key)) for key, item in value.items()}
    return value


def underlying(found: Any) -> Any:
    """Return the function behind a method, property or the like, or the object itself."""
    if isinstance(found, (classmethod, staticmethod, types.MethodType)):
        return found.__func__
    if isinstance(found, property):
        return found.fget
    return found.func if isinstance(found, functools.cached_property) else found


def _value(hook: Hook, old: Any) -> Any:
    if not same(hook.expect, old):
        found = f"{shown(old)} of type {type(old).__name__}"
        raise Unfit(f"expected {shown(hook.expect)} of type {type(hook.expect).__name__}, found {found}")
    return shaped(hook.value, old)


def _callable(hook: Hook, owner: Any, name: str, old: Any) -> Any:
    function = underlying(old)
    if type(old) not in _KINDS or not callable(function) or isinstance(function, type):
        raise Unfit(f"it is of type {type(old).__name__}, which is no function, method or property")
    import hashlib
    import inspect

    try:
        source = inspect.getsource(function)
    except (OSError, TypeError) as error:
        raise Unfit(f"the source of what is there cannot be read: {error}") from error
    found = hashlib.sha256(source.encode()).hexdigest()
    if found != hook.expect_source:
        raise Unfit(f"expected a callable whose source has sha256 {hook.expect_source}, found {found}")
    new = getattr(importlib.import_module(f"{__package__}.calls.{hook.file}"), hook.function or "", None)
    if type(new) is not types.FunctionType:
        raise TypeError(f"{hook.file}.py: expected a function {hook.function!r}, found {type(new).__name__}")
    new.original = function  # type: ignore[attr-defined]
    match old:
        case property():
            return property(new, old.fset, old.fdel, old.__doc__)
        case functools.cached_property():
            cached: functools.cached_property[Any] = functools.cached_property(new)
            cached.__set_name__(owner, name)
            return cached
        case classmethod() | staticmethod():
            return type(old)(new)
    return new


def _set(owner: Any, name: str, value: Any) -> None:
    if not isinstance(owner, dict):
        delattr(owner, name) if value is _MISSING else setattr(owner, name, value)
    elif value is _MISSING:
        del owner[name]
    else:
        owner[name] = value


_KINDS = (
    types.FunctionType, classmethod, staticmethod, property, functools.cached_property,
    type(functools.lru_cache(same)),
)  # fmt: skip
