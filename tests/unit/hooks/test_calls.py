"""Functions of a project in the place of an engine's: which kinds, with what, and when not."""

from __future__ import annotations

import hashlib
import textwrap

import pytest

from builder.errors import RecipeError
from builder.hooks import REFUSED, Hook, registry, shipped, source_sha256

from .interpreter import Interpreter, limit

ENGINE = textwrap.dedent(
    """
    import functools

    def function(a, *, b=2):
        return a + b

    async def coroutine(a):
        return a

    @functools.lru_cache
    def cached(a):
        return a

    def wrapping(old):
        @functools.wraps(old)
        def wrapper(*args):
            return old(*args)
        return wrapper

    @wrapping
    def wrapped(a):
        return a

    class Base:
        @classmethod
        def supports(cls):
            return False

    class Backend(Base):
        def __init__(self, size=1):
            self._size = size

        def method(self, a):
            return self._size + a

        @staticmethod
        def static(a):
            return a

        @property
        def size(self):
            return self._size

        @size.setter
        def size(self, value):
            self._size = value

        @functools.cached_property
        def once(self):
            return self._size

    class Other(Base):
        pass

    kernel = object()
    partial = functools.partial(function, 1)
    """
)


def call(attribute: str, function: str = "new", name: str = "call", *, of: str | None = None) -> Hook:
    return Hook(
        name=name, target="engine", module="engine", attribute=attribute, call=f"hooks/own.py:{function}",
        expect_source=source_sha256(ENGINE, of or attribute) or "0" * 64,
    )  # fmt: skip


@pytest.fixture
def engine(interpreter: Interpreter) -> Interpreter:
    interpreter.write("engine.py", ENGINE)
    return interpreter


@pytest.mark.parametrize(
    ("attribute", "new", "expression", "printed"),
    [
        ("function", "def new(a, *, b=5): return new.original(a, b=b) * 10", "engine.function(1)", "60"),
        ("coroutine", "async def new(a): return await new.original(a) + 1",
         "__import__('asyncio').run(engine.coroutine(1))", "2"),
        ("cached", "def new(a): return -new.original(a)", "engine.cached(1)", "-1"),
        ("wrapped", "def new(a): return -new.original(a)", "engine.wrapped(1)", "-1"),
        ("Backend.method", "def new(self, a): return new.original(self, a) * 10",
         "engine.Backend().method(1)", "20"),
        ("Backend.static", "def new(a): return -new.original(a)",
         "engine.Backend.static(1), engine.Backend().static(2)", "(-1, -2)"),
        ("Backend.size", "def new(self): return -new.original(self)", "engine.Backend(3).size", "-3"),
        ("Backend.size", "def new(self): return -1", "setattr(b := engine.Backend(), 'size', 9) or b._size", "9"),
        ("Backend.once", "def new(self): return [new.original(self)]",
         "(b := engine.Backend()).once is b.once, b.once", "(True, [1])"),
        ("Base.supports", "def new(cls): return cls.__name__",
         "engine.Backend.supports(), engine.Other().supports()", "('Backend', 'Other')"),
    ],
)  # fmt: skip
def test_a_callable_keeps_its_kind_and_its_replacement_reaches_it(engine, attribute, new, expression, printed):
    engine.hook(call(attribute), project={"hooks/own.py": new + "\n"})
    assert engine.says(f"import engine; print(({expression}))") == printed
    status, told = engine.check()
    assert (status, told["hooks"][0]["state"]) == (0, "effective")
    assert told["hooks"][0]["value"] == "rocm_images_hooks.calls.hooks_own.new"


def test_an_inherited_method_is_overridden_in_the_named_class_alone(engine):
    hook = call("Backend.supports", of="Base.supports")
    engine.hook(hook, project={"hooks/own.py": "def new(cls):\n    return not new.original(cls)\n"})
    code = (
        "from engine import *; print(Backend.supports(), Backend().supports(), Base.supports(), Other.supports())"
    )
    assert engine.says(code) == "True True False False"


def test_two_functions_of_one_file_are_two_hooks_and_may_import_the_engine(engine):
    project = "import engine\ndef one(a): return engine.function(a)\ndef two(self, a): return engine.cached(7)\n"
    engine.hook(
        call("wrapped", "one", "first"), call("Backend.method", "two", "second"), project={"hooks/own.py": project}
    )
    assert engine.says("import engine; print(engine.wrapped(1), engine.Backend().method(1))") == "3 7"


@pytest.mark.parametrize(
    ("attribute", "why"),
    [
        ("kernel", "it is of type object, which is no function, method or property"),
        ("partial", "it is of type partial, which is no function, method or property"),
        ("Backend", "it is of type type, which is no function, method or property"),
        ("missing", "the module has no 'missing' of its own"),
        ("Backend.missing", "the class Backend has no 'missing'"),
        ("function.name", "function is of type function, not a class"),
        ("Backend.method", "expected a callable whose source has sha256 000"),
        ("Backend.__eq__", "it is of type wrapper_descriptor, which is no function, method or property"),
    ],
)
def test_what_cannot_be_replaced_ends_the_interpreter(engine, attribute, why):
    hook = call(attribute, of="nothing")
    engine.hook(hook, project={"hooks/own.py": "def new(): pass\n"})
    done = engine.execute("import engine")
    assert done.status == REFUSED
    assert f"engine.{attribute}: {why}" in done.stderr


def test_a_callable_without_source_cannot_be_told_from_another_and_ends_the_interpreter(engine):
    engine.write("engine.py", "exec(compile('def function(a): return a', '<made>', 'exec'))\n")
    engine.hook(call("function"), project={"hooks/own.py": "def new(a): pass\n"})
    done = engine.execute("import engine")
    assert done.status == REFUSED
    assert "the source of what is there cannot be read" in done.stderr


@pytest.mark.parametrize("text", ["other = 1\n", "new = print\n", "class new: pass\n"])
def test_a_file_of_the_project_without_the_function_ends_the_interpreter(engine, text):
    engine.hook(call("function"), project={"hooks/own.py": text})
    done = engine.execute("import engine")
    assert done.status == REFUSED
    assert "hooks_own.py: expected a function 'new', found" in done.stderr


def test_a_class_that_does_not_keep_what_is_set_ends_the_interpreter(engine):
    engine.write(
        "engine.py", "class Meta(type):\n    def __setattr__(c, n, v): pass\nclass C(metaclass=Meta): X = 1\n"
    )
    engine.hook(limit("engine", attribute="C.X", expect=1, value=2))
    assert "engine.C.X: its class does not keep what is set" in engine.execute("import engine").stderr


def test_an_array_stands_for_a_list_or_a_tuple_and_stays_what_it_was(engine):
    engine.write("engine.py", "A = ((1, 2), [3])\nB = [1]\nC = {'k': (1,)}\n")
    engine.hook(
        limit("engine", "a", attribute="A", expect=[[1, 2], [3]], value=[[4], [5], [6]]),
        limit("engine", "b", attribute="B", expect=[1], value=[]),
        limit("engine", "c", attribute="C", expect={"k": [1]}, value={"k": [2], "l": 1.5}),
    )
    assert engine.says("import engine; print(engine.A, engine.B, engine.C)") == (
        "((4,), [5], [6]) [] {'k': (2,), 'l': 1.5}"
    )
    assert engine.check()[0] == 0


def test_the_registry_is_the_same_for_the_same_hooks_and_names_the_files_it_needs():
    hooks = [call("function"), limit("engine", "b"), call("cached", "other", "c")]
    assert registry(hooks) == registry(tuple(hooks))
    assert shipped(hooks) == {"calls/hooks_own.py": "hooks/own.py"}


def test_hooks_that_exclude_each_other_are_refused():
    with pytest.raises(RecipeError) as twice:
        registry([limit(name="one"), limit(name="two")])
    assert twice.value.message == ("patch.two.hook.attribute: patch one overrides engine.kernels.LIMIT as well")
    with pytest.raises(RecipeError) as shared:
        registry([call("function", name="one"), call("cached", name="two")])
    assert shared.value.message == "patch.two.hook.call: hooks/own.py:new is what patch one calls"
    other = Hook(
        name="two", target="e", module="m", attribute="a", expect_source="0" * 64, call="hooks-own.py:new"
    )
    with pytest.raises(RecipeError) as named:
        registry([call("function"), other])
    assert named.value.message == (
        "patch: hooks/own.py and hooks-own.py would both be called hooks_own; rename one"
    )


def test_the_expected_hash_is_of_the_source_text_of_the_old_callable():
    assert (
        call("function").expect_source
        == hashlib.sha256(b"def function(a, *, b=2):\n    return a + b\n").hexdigest()
    )
