"""The one finder: it lets the others find a hooked module, and applies the hooks when that has been executed.

It takes no lock of its own: the import system holds the module's while hooks are applied, so that no other thread
sees the module without them, and a forked child has nothing to wait for.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from .events import reason, stop, tell
from .override import Unfit, override
from .registry import Hook, read

TYPE_CHECKING = False  # as type checkers know it; see __init__
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

_active: Finder | None = None


def active() -> Finder | None:
    """Return the finder of this interpreter, or None where nothing activated it."""
    return _active if _active in sys.meta_path else None


def activate() -> None:
    """Put the finder in front of all others, and hook what is imported already."""
    global _active  # noqa: PLW0603
    if _active is not None:
        return
    _active = Finder(read())
    sys.meta_path.insert(0, _active)
    for hook in _active.hooks:
        tell("installed", hook)
    for name in _active.by_module:
        _active.catch_up(name)


class Finder:
    """All hooks of this interpreter. `collecting` is for the checker: it is told of misfits, nothing stops."""

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self.hooks = tuple(hooks)
        self.collecting = False
        self.by_module: dict[str, list[Hook]] = {}
        for hook in self.hooks:
            self.by_module.setdefault(hook.module, []).append(hook)
        # Who is looking for what. The process belongs to it: a thread id comes again in a forked child.
        self._looking: set[tuple[int, int, str]] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders find, with a loader that applies the hooks. None for all other modules."""
        if fullname not in self.by_module:
            return None
        here = (os.getpid(), get_ident(), fullname)
        if here in self._looking:  # another finder asks all finders, as this one does
            return None
        known = fullname in sys.modules
        self._looking.add(here)
        try:
            spec = self._ask_others(fullname, path, target)
        finally:
            self._looking.discard(here)
        if not known and fullname in sys.modules:  # a finder that imports what it is to find
            self.catch_up(fullname)
        if spec is not None and not isinstance(spec.loader, HookLoader):
            spec.loader = HookLoader(self, spec)  # type: ignore[assignment]
        return spec

    def _ask_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in tuple(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec: ModuleSpec | None = find(fullname, path, target)
                if spec is not None:
                    return spec
        return None

    def invalidate_caches(self) -> None:
        """Do nothing; the import system calls it."""

    def catch_up(self, name: str) -> None:
        """Apply the hooks of a module that was imported before this could see it."""
        module = sys.modules.get(name)
        if module is None:
            return
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            for hook in self.by_module[name]:
                self.misfit(hook, "its module is being imported while the hooks are activated")
            return
        self.apply(name, module)

    def apply(self, name: str, module: object) -> None:
        """Apply the hooks of a module to a module, in the order of the registry."""
        try:
            namespace: dict[str, Any] = vars(module)
        except TypeError:
            for hook in self.by_module[name]:
                self.misfit(hook, f"what {name} is in sys.modules has no attributes of its own")
            return
        for hook in self.by_module[name]:
            self.apply_one(hook, namespace)

    def apply_one(self, hook: Hook, namespace: dict[str, Any]) -> None:
        """Apply one hook to a namespace. Whatever goes wrong ends the interpreter."""
        again = any(namespace is done for done in hook.done)
        try:
            hook.state = "fired"
            tell("fired", hook)
            override(hook, namespace, again=again)
        except Unfit as error:
            self.misfit(hook, str(error))
        except BaseException as error:  # also SystemExit, whose status may be 0
            self.misfit(hook, f"the hook raises {reason(error)}", forgivable=False)
        else:
            hook.state, hook.detail = "effective", None
            if not again:
                hook.done.append(namespace)
            tell("effective", hook)

    def misfit(self, hook: Hook, why: str, *, forgivable: bool = True) -> None:
        """Note that a hook is not effective, and end the interpreter unless the hook is optional."""
        skip = hook.optional and forgivable
        hook.state, hook.detail = "skipped" if skip else "refused", why
        tell(hook.state, hook, why)
        if not (skip or self.collecting):
            stop(f"hook {hook.name}: {hook.path}: {why}")


class HookLoader:
    """The loader of a hooked module: the one that was found, and after it the hooks.

    Before the module is executed the found one takes its place again, for whoever asks a module for its loader.
    """

    def __init__(self, finder: Finder, spec: ModuleSpec) -> None:
        self._finder, self._name = finder, spec.name
        self._found: Any = spec.loader
        if self._found is None:  # a namespace package; the import system makes its loader only now
            self._found = _namespace_loader(spec)

    def __getattr__(self, name: str) -> Any:
        if name == "_found":  # who copies a loader asks it before it has any attribute
            raise AttributeError(name)
        return getattr(self._found, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let the found loader make the module."""
        create = getattr(self._found, "create_module", None)
        made: ModuleType | None = create(spec) if create is not None else None
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Let the found loader execute the module, then apply the hooks to what callers will get."""
        if not self._is_to_run():
            self._step_aside(module)
        imported = sys.modules.get(self._name) is module
        self._found.exec_module(module)
        self._finder.apply(self._name, sys.modules.get(self._name, module) if imported else module)

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module with its hooks, which `python -m` executes under another name."""
        code: CodeType | None = self._found.get_code(fullname)
        source = self._found.get_source(fullname) if hasattr(self._found, "get_source") else None
        if fullname in sys.modules:
            self._step_aside(sys.modules[fullname])
        if code is None:
            return None
        if source is None:
            for hook in self._finder.by_module[self._name]:
                self._finder.misfit(hook, "its module is executed by name and has no source to put the hook into")
            return code
        return with_hooks(source, code.co_filename, self._name)

    def _is_to_run(self) -> bool:
        """Tell whether `python -m` will ask for the code of this module, in its spec if it is imported before."""
        argv, words = getattr(sys, "argv", ()), getattr(sys, "orig_argv", ())
        return list(argv[:1]) == ["-m"] and any(word.endswith(self._name) for word in words)

    def _step_aside(self, module: ModuleType) -> None:
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.loader is self:
            spec.loader = self._found
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._found


def with_hooks(source: str, file: str, name: str) -> CodeType:
    """Compile a module that applies the hooks of `name` to itself: where it asks for `__main__`, or at its end."""
    import ast

    tree = ast.parse(source, file)
    at = next((at for at, node in enumerate(tree.body) if _asks_for_main(node)), len(tree.body))
    call = ast.parse(f"__import__({__name__!r}, fromlist=['x']).run({name!r}, globals())").body[0]
    line = tree.body[at].lineno if at < len(tree.body) else source.count("\n") + 1
    for node in ast.walk(call):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
    tree.body.insert(at, call)
    code: CodeType = compile(tree, file, "exec", dont_inherit=True)
    return code


def run(name: str, namespace: dict[str, Any]) -> None:
    """Apply the hooks of a module to the namespace in which its code is executed."""
    if _active is not None:
        for hook in _active.by_module[name]:
            _active.apply_one(hook, namespace)


def _asks_for_main(node: Any) -> bool:
    import ast

    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
    )


def _namespace_loader(spec: ModuleSpec) -> Any:
    from importlib import _bootstrap_external as external

    kind = getattr(external, "NamespaceLoader", None) or external._NamespaceLoader
    loader = kind.__new__(kind)
    loader._path = spec.submodule_search_locations
    return loader
