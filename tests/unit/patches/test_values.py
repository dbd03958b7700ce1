"""What the text of a tree says of constants, class attributes and methods, and where it does not tell."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from pathlib import Path

import pytest

from builder.patches.tree import Held
from builder.patches.values import Known, Missing, Unknown, evaluate, source_hash

TREE = {
    "pkg/__init__.py": b"from .consts import LIMIT as TOP\nfrom .consts import *\n",
    "pkg/consts.py": (
        b"import os\n"
        b"LIMIT = 64 * 1024 // 2\nWANTED = int(LIMIT * 1.2)\nNAME: str = 'x' + 'y'\nEMPTY: int\n"
        b"TWICE = 1\nTWICE = 2\n"
        b"MAYBE = 1\nif os.name == 'nt':\n    MAYBE = 2\n"
        b"try:\n    TRIED = 1\nexcept ImportError:\n    TRIED = 2\n"
        b"REBOUND = 1\ndef rebind():\n    global REBOUND\n    REBOUND = 2\n"
        b"COUNTED = 1\nCOUNTED += 1\n"
        b"ASKED = os.environ.get('X')\n"
        b"LISTED = ['a', 'b']\nGROWN = ['a']\nGROWN.append('b')\n"
        b"HUGE = 9 ** 9 ** 9\nNEGATIVE = -3\nPAIR = (1, 2.5, None)\nTABLE = {'a': [True]}\n"
    ),
    "pkg/base.py": (
        b"from abc import ABC, abstractmethod\nfrom typing import TYPE_CHECKING\n\n"
        b"if TYPE_CHECKING:\n    from nowhere import Thing\n\n\n"
        b"class Root(ABC):\n    size = 1\n    name = 'root'\n\n"
        b'    @classmethod\n    def supports(cls) -> bool:\n        """Say it."""\n        return False\n\n'
        b"    @staticmethod\n    def kind(extra=None):\n        return 'root'\n\n"
        b"    @classmethod\n    def named(cls):\n        return cls.name\n\n"
        b"    @classmethod\n    @abstractmethod\n    def open_(cls):\n        ...\n\n"
        b"    def method(self):\n        return 1\n\n"
        b"    @classmethod\n    def branchy(cls):\n"
        b"        if cls.size:\n            return 1\n        return 2\n\n"
        b"    def free():\n        return LOCAL\n\n\nLOCAL = 7\n"
    ),
    "pkg/sub/__init__.py": b"",
    "pkg/sub/child.py": (
        b"import pkg.base\nfrom ..base import Root as Base\nfrom torch import nn\n\n\n"
        b"class Child(Base):\n    name = 'child'\n\n\n"
        b"class Other(pkg.base.Root):\n    @classmethod\n    def supports(cls):\n        return True\n\n\n"
        b"class Both(Child, Other):\n    pass\n\n\n"
        b"class Module(nn.Module):\n    own = 1\n\n\n"
        b"class Deep(Module):\n    pass\n\n\n"
        b"class Mixed(Child, nn.Module):\n    mine = 3\n\n\n"
        b"class Patched(Base):\n    size = 2\n\n\nPatched.size = 3\n\n\n"
        b"@register\nclass Decorated(Base):\n    size = 2\n\n\n"
        b"class Made(metaclass=Meta):\n    size = 2\n\n\n"
        b"class Kind(Enum):\n    A = 1\n"
    ),
    "pkg/lazy.py": b"def __getattr__(name):\n    return 1\n",
    "pkg/starred.py": b"from torch import *\n",
    "pkg/circle.py": b"from .circle2 import A\n",
    "pkg/circle2.py": b"from .circle import A\n",
    "pkg/broken.py": b"def f(:\n",
    "python/inner/mod.py": b"X = 'inner'\n",
}


@pytest.mark.parametrize(
    ("module", "expression", "value", "where"),
    [
        ("pkg.consts", "LIMIT", 32768, "pkg/consts.py:2"),
        ("pkg.consts", "WANTED", 39321, "pkg/consts.py:3"),
        ("pkg.consts", "NAME", "xy", "pkg/consts.py:4"),
        ("pkg.consts", "TWICE", 2, "pkg/consts.py:7"),
        ("pkg.consts", "NEGATIVE", -3, "pkg/consts.py:26"),
        ("pkg.consts", "PAIR", (1, 2.5, None), "pkg/consts.py:27"),
        ("pkg.consts", "TABLE", {"a": [True]}, "pkg/consts.py:28"),
        ("pkg.consts", "LISTED", ["a", "b"], "pkg/consts.py:22"),
        ("pkg.consts", "LIMIT * 2 + len(NAME)", 65538, "pkg/consts.py:2"),
        ("pkg", "TOP", 32768, "pkg/consts.py:2"),
        ("pkg", "NAME", "xy", "pkg/consts.py:4"),
        ("pkg", "consts.LIMIT", 32768, "pkg/consts.py:2"),
        ("pkg.base", "Root.size", 1, "pkg/base.py:9"),
        ("pkg.base", "Root.supports()", False, "pkg/base.py:13"),
        ("pkg.base", "Root.kind()", "root", "pkg/base.py:18"),
        ("pkg.base", "Root.free()", 7, "pkg/base.py:39"),
        ("pkg.sub.child", "Child.supports()", False, "pkg/base.py:13"),
        ("pkg.sub.child", "Child.size", 1, "pkg/base.py:9"),
        ("pkg.sub.child", "Child.named()", "child", "pkg/base.py:22"),
        ("pkg.sub.child", "Other.supports()", True, "pkg/sub/child.py:12"),
        ("pkg.sub.child", "Both.supports()", True, "pkg/sub/child.py:12"),
        ("pkg.sub.child", "Both.name", "child", "pkg/sub/child.py:7"),
        ("pkg.sub.child", "Module.own", 1, "pkg/sub/child.py:21"),
        ("pkg.sub.child", "Deep.own", 1, "pkg/sub/child.py:21"),
        ("pkg.sub.child", "Mixed.mine", 3, "pkg/sub/child.py:29"),
    ],
)
def test_a_value_is_known_where_only_the_text_decides(
    module: str, expression: str, value: object, where: str
) -> None:
    assert evaluate(Held.of(TREE), module, expression) == Known(value=value, where=where)


@pytest.mark.parametrize(
    ("module", "expression", "reason"),
    [
        ("pkg.consts", "MAYBE", "pkg.consts.MAYBE is set under a condition, in pkg/consts.py:10"),
        ("pkg.consts", "TRIED", "pkg.consts.TRIED is set under a condition, in pkg/consts.py:14"),
        ("pkg.consts", "REBOUND", "pkg.consts.REBOUND is set by a function, in pkg/consts.py:17"),
        ("pkg.consts", "COUNTED", "'COUNTED' is not simply assigned, in pkg/consts.py:20"),
        ("pkg.consts", "ASKED", "\"os.environ.get('X')\" is computed when it is asked for"),
        ("pkg.consts", "GROWN", "'GROWN' may be changed, in pkg/consts.py:24"),
        ("pkg.consts", "HUGE", "it is computed from very large numbers"),
        ("pkg.consts", "LIMIT // 0", "integer division or modulo by zero"),
        ("pkg.consts", "LIMIT +", "invalid syntax"),
        ("pkg.base", "Root.method()", "'Root.method()' needs arguments or an instance, in pkg/base.py:30"),
        ("pkg.base", "Root.open_()", "'Root.open_()' is decorated with classmethod, abstractmethod"),
        ("pkg.base", "Root.branchy()", "branchy() does more than return a value, in pkg/base.py:34"),
        ("pkg.base", "Root.supports", "'Root.supports' is no plain value"),
        ("pkg.base", "Thing", "pkg.base has no name 'Thing'"),
        ("pkg.sub.child", "Deep.training", "'training' is not found before it is open"),
        ("pkg.sub.child", "Mixed.size", "'size' is not found before it is open: Mixed inherits from 'nn.Module'"),
        ("pkg.sub.child", "Patched.size", "Patched.size is set outside the class, in pkg/sub/child.py:36"),
        ("pkg.sub.child", "Decorated.size", "class Decorated is decorated"),
        ("pkg.sub.child", "Made.size", "class Made has a metaclass"),
        ("pkg.sub.child", "Kind.A", "class Kind makes its attributes itself"),
        ("pkg.lazy", "ANY", "pkg.lazy makes names when they are asked for"),
        ("pkg.starred", "ANY", "pkg.starred imports all names of 'torch', which is not in the tree"),
        ("pkg.circle", "A", "'A' is imported in a circle"),
        ("pkg.broken", "A", "pkg/broken.py is no Python that this program can read"),
    ],
)  # fmt: skip
def test_what_the_text_does_not_decide_is_unknown_with_the_reason(
    module: str, expression: str, reason: str
) -> None:
    found = evaluate(Held.of(TREE), module, expression)
    if expression == "Thing":
        assert isinstance(found, Missing)
        return
    assert isinstance(found, Unknown)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("module", "expression", "reason"),
    [
        ("pkg.gone", "X", "there is no module 'pkg.gone'"),
        ("pkg.consts", "GONE", "pkg/consts.py has no name 'GONE'"),
        ("pkg.consts", "EMPTY", "pkg/consts.py has no name 'EMPTY'"),
        ("pkg.sub.child", "Child.gone", "class Child of pkg/sub/child.py has no attribute 'gone'"),
        ("pkg.sub.child", "Gone.supports()", "pkg/sub/child.py has no name 'Gone'"),
    ],
)
def test_what_is_not_there_is_missing(module: str, expression: str, reason: str) -> None:
    assert evaluate(Held.of(TREE), module, expression) == Missing(reason=reason)


def test_imports_start_from_the_folders_that_are_named() -> None:
    held = Held.of(TREE)
    assert evaluate(held, "inner.mod", "X") == Missing(reason="there is no module 'inner.mod'")
    assert evaluate(held, "inner.mod", "X", roots=["", "python"]) == Known(
        value="inner", where="python/inner/mod.py:1"
    )


def test_what_is_known_is_what_python_itself_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "known_to_python"
    for path, data in TREE.items():
        if path.startswith("pkg/") and path not in ("pkg/broken.py", "pkg/starred.py", "pkg/sub/child.py"):
            file = package / path.removeprefix("pkg/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data.replace(b"HUGE = 9 ** 9 ** 9\n", b""))  # Python would not come back
    (package / "sub/child.py").write_bytes(
        TREE["pkg/sub/child.py"].partition(b"class Module")[0]
        .replace(b"pkg.base", b"known_to_python.base").replace(b"from torch import nn\n", b"")
    )  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))
    held = Held.of({f"known_to_python/{p.relative_to(package)}": p.read_bytes() for p in package.rglob("*.py")})
    asked = {
        "consts": ["LIMIT", "WANTED", "NAME", "TWICE", "PAIR", "TABLE"],
        "base": ["Root.size", "Root.supports()", "Root.kind()", "Root.named()", "Root.free()"],
        "sub.child": ["Child.named()", "Both.supports()", "Both.name", "Both.size", "Other.supports()"],
    }
    try:
        for name, expressions in asked.items():
            module = importlib.import_module(f"known_to_python.{name}")
            for expression in expressions:
                found = evaluate(held, f"known_to_python.{name}", expression)
                assert isinstance(found, Known), (expression, found)
                assert found.value == eval(expression, vars(module)), expression
        child = importlib.import_module("known_to_python.sub.child")
        for attribute in ("Child.supports", "Both.supports", "Child.kind", "Child.method"):
            function = eval(attribute, vars(child))
            wanted = hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
            answer = source_hash(held, "known_to_python.sub.child", attribute)
            assert isinstance(answer, Known), (attribute, answer)
            assert answer.value == wanted, attribute
    finally:
        for loaded in [name for name in sys.modules if name.startswith("known_to_python")]:
            del sys.modules[loaded]


def test_the_source_of_a_decorated_function_is_not_that_of_the_callable() -> None:
    assert isinstance(source_hash(Held.of(TREE), "pkg.base", "Root.open_"), Unknown)
    assert isinstance(source_hash(Held.of(TREE), "pkg.base", "Root.gone"), Missing)
    assert isinstance(source_hash(Held.of(TREE), "pkg.base", "Root.size"), Unknown)
