"""The contract check on small trees: an importer `engine`, a provider `aiter`."""

from __future__ import annotations

from textwrap import dedent

import pytest

from builder.interfaces import Contract, Verdict, check_contract
from builder.sourcetree import SourceTree

AITER = {
    "aiter/__init__.py": """
        from .ops.norm import *
        from .ops.enum import QuantType as QuantType
        from . import mla
        import os
        if os.environ.get("X"):
            fast = True
        else:
            slow = True
        for looped in range(3):
            pass
        with open(os.devnull) as opened:
            pass
        try:
            tried = 1
        except ValueError as error:
            handled = 2
        first, (second, *rest) = 1, (2, 3)
        annotated: int = 3
        only_declared: int
        class Kind: inner = 1
        def configure():
            global made_later
            made_later = 1
    """,
    "aiter/ops/__init__.py": "",
    "aiter/ops/norm.py": "def rms_norm(): ...\ndef _private(): ...\nimport torch\n",
    "aiter/ops/enum.py": """
        __all__ = ['ActivationType']
        __all__ += ['QuantType']
        class ActivationType: ...
        class QuantType: ...
        class Hidden: ...
    """,
    "aiter/ops/starred.py": "from .enum import *\nfrom .norm import *\n",
    "aiter/ops/lazy.py": "def __getattr__(name): ...\n",
    "aiter/ops/filled.py": "for n in 'ab':\n    globals()[n] = 1\n",
    "aiter/ops/generated.py": "exec('x = 1')\n",
    "aiter/ops/foreign.py": "from elsewhere import *\n",
    "aiter/ops/guarded.py": "try:\n    from elsewhere import *\nexcept ImportError:\n    pass\nown = 1\n",
    "aiter/ops/computed.py": "__all__ = sorted(['a'])\nfrom .norm import *\n",
    "aiter/ops/broken.py": "def f(:\n",
    "aiter/mla.py": "def mla_decode_fwd(): ...\n",
    "aiter/space/deep.py": "value = 1\n",
}
COMPILED = frozenset({"aiter/jit/module_core.cpython-312-x86_64-linux-gnu.so", "aiter/configs/a.csv"})


def check(engine: str | dict[str, str], provider: dict[str, str] = AITER) -> Contract:
    files = {"engine/m.py": engine} if isinstance(engine, str) else engine
    provided = SourceTree.of({path: dedent(text) for path, text in provider.items()})
    installed = SourceTree(names=provided.names | COMPILED, texts=provided.texts)
    return check_contract(SourceTree.of({path: dedent(text) for path, text in files.items()}), installed)


def missing(engine: str) -> list[str]:
    return [breach.wanted for breach in check(engine).missing]


def test_f34_a_module_the_engine_imports_is_not_in_aiter() -> None:
    engine = {
        "vllm/attention/rocm_aiter_unified.py": """
            def forward():
                from aiter.ops.triton.unified_attention import unified_attention
                return unified_attention()
        """,
        "vllm/other.py": "from aiter.ops.triton.unified_attention import unified_attention\n",
    }
    (breach,) = check(engine).missing
    assert breach.verdict is Verdict.MISSING_MODULE
    assert [use.place for use in breach.uses] == ["vllm/other.py:1", "vllm/attention/rocm_aiter_unified.py:3"]
    wanted, _, rest = str(breach).partition(": ")
    assert wanted == "aiter.ops.triton.unified_attention"
    assert rest == "no module aiter.ops.triton; needed at import, vllm/other.py:1 and 1 more"
    there = AITER | {"aiter/ops/triton/unified_attention.py": "def unified_attention(): ...\n"}
    assert check(engine, there).breaches == ()


@pytest.mark.parametrize(
    "text",
    [
        "import aiter",
        "import aiter.ops.norm",
        "import aiter.ops.norm as n",
        "from aiter import rms_norm, QuantType, mla, fast, slow, looped, opened, tried, error, handled",
        "from aiter import first, second, rest, annotated, only_declared, Kind, made_later, ops, configure, os",
        "from aiter.ops import norm",
        "from aiter.ops.starred import QuantType, ActivationType, rms_norm",
        "from aiter import *",
        "import aiter.jit.module_core",
        "from aiter.space import deep",
        "import aiter.space",
        "from aiter.ops.guarded import own",
        "from aiter.ops.norm import _private, torch",
        "import importlib\nimportlib.import_module('aiter.mla')",
        "import aiter\naiter.mla.mla_decode_fwd()",
        "import aiter as a\na.rms_norm()",
        "from aiter import mla\nmla.mla_decode_fwd()",
        "from aiter import Kind\nKind.anything",
        "from torch import whatever",
        "aiter = object()\naiter.whatever",
        "import aiter\ndef f(aiter):\n    aiter.whatever",
        "from .aiter import whatever",
        "import importlib\nimportlib.import_module(name)",
    ],
)
def test_what_is_there_is_found(text: str) -> None:
    assert check(text).breaches == ()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import aiter.nothing", "aiter.nothing"),
        ("import aiter.ops.nothing.more", "aiter.ops.nothing.more"),
        ("from aiter.ops.nothing import x, y", "aiter.ops.nothing"),
        ("from aiter import nothing", "aiter.nothing"),
        ("from aiter import (\n    rms_norm,\n    nothing,\n)", "aiter.nothing"),
        ("from aiter import _private", "aiter._private"),
        ("from aiter.ops.starred import Hidden", "aiter.ops.starred.Hidden"),
        ("from aiter.ops.guarded import other", "aiter.ops.guarded.other"),
        ("from aiter import inner", "aiter.inner"),
        ("from aiter.space import nothing", "aiter.space.nothing"),
        ("import aiter.configs", "aiter.configs"),
        ("import importlib\nimportlib.import_module('aiter.nothing')", "aiter.nothing"),
        ("from importlib import import_module\nx = import_module('aiter.nothing')", "aiter.nothing"),
        ("__import__('aiter.nothing')", "aiter.nothing"),
        ("import aiter\naiter.nothing()", "aiter.nothing"),
        ("import aiter.mla as m\ndef f():\n    return [m.nothing for _ in x]", "aiter.mla.nothing"),
        ("def f():\n    import aiter\n    class C:\n        x = aiter.ops.norm.nothing", "aiter.ops.norm.nothing"),
        ("match x:\n    case 1:\n        import aiter.nothing", "aiter.nothing"),
        ("async def f():\n    async with g():\n        import aiter.nothing", "aiter.nothing"),
        ("@decorated(lambda: __import__('aiter.nothing'))\ndef f(): ...", "aiter.nothing"),
    ],
)
def test_what_is_not_there_is_missing(text: str, wanted: str) -> None:
    assert missing(text) == [wanted]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("from aiter.ops.lazy import x", "aiter.ops.lazy has a module-level __getattr__"),
        ("from aiter.ops.filled import x", "aiter.ops.filled writes into globals()"),
        ("from aiter.ops.generated import x", "aiter.ops.generated executes generated code"),
        ("from aiter.ops.foreign import x", "aiter.ops.foreign takes all names of elsewhere, which is not here"),
        ("from aiter.ops.computed import x", "aiter.ops.computed computes its __all__"),
        ("from aiter.ops.broken import x", "aiter/ops/broken.py does not parse"),
        ("from aiter.jit.module_core import x", "aiter.jit.module_core is a compiled module"),
    ],
)
def test_what_a_module_computes_is_unknown_and_says_why(text: str, why: str) -> None:
    contract = check(text)
    assert contract.missing == ()
    assert [(breach.verdict, breach.why) for breach in contract.unknown] == [(Verdict.UNKNOWN, why)]


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import aiter.nothing\nexcept ImportError:\n    pass",
        "try:\n    from aiter import nothing\nexcept (ValueError, ModuleNotFoundError):\n    pass",
        "try:\n    if x:\n        import aiter.nothing\nexcept Exception:\n    pass",
        "try:\n    import aiter.nothing\nexcept:\n    pass",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import aiter.nothing",
        "import typing\nif not typing.TYPE_CHECKING:\n    pass\nelse:\n    import aiter.nothing",
        "from importlib.util import find_spec\nif find_spec('aiter.nothing'):\n    import aiter.nothing",
        "import importlib.util as u\nif u.find_spec('aiter.nothing') is not None:\n    import aiter.nothing.more",
        "import util as u\nif u.find_spec('aiter.nothing') is None:\n    0\nelse:\n    import aiter.nothing",
        "from importlib.util import find_spec\nif ok and find_spec('aiter.nothing'):\n    import aiter.nothing",
    ],
)
def test_a_guarded_import_is_optional_but_reported(text: str) -> None:
    contract = check(text)
    assert contract.missing == ()
    assert {breach.module for breach in contract.optional} <= {"aiter", "aiter.nothing", "aiter.nothing.more"}
    assert len(contract.optional) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from importlib.util import find_spec\nif find_spec('aiter'):\n    import aiter.nothing",
        "try:\n    import aiter.nothing\nexcept ValueError:\n    pass",
        "try:\n    pass\nfinally:\n    import aiter.nothing",
        "from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    import aiter.nothing",
        "if HAS_AITER:\n    import aiter.nothing",
        "try:\n    import aiter.gone\nexcept ImportError:\n    import aiter.nothing",
    ],
)
def test_a_guard_that_does_not_cover_the_import_is_none(text: str) -> None:
    assert missing(text) == ["aiter.nothing"]


def test_a_fallback_is_not_needed_when_the_first_choice_is_there() -> None:
    text = "try:\n    from aiter import rms_norm\nexcept ImportError:\n    from aiter.old import rms_norm"
    assert check(text).missing == ()
    assert [breach.wanted for breach in check(text).optional] == ["aiter.old"]


def test_a_breach_says_when_it_hurts() -> None:
    texts = {
        "needed at import": "import aiter.nothing",
        "needed on a condition": "if x:\n    import aiter.nothing",
        "needed when called": "def f():\n    import aiter.nothing",
        "optional": "try:\n    import aiter.nothing\nexcept ImportError: pass",
    }
    assert [check(text).breaches[0].uses[0].how for text in texts.values()] == list(texts)


def test_tests_of_the_importer_do_not_count_and_broken_files_are_reported() -> None:
    contract = check({"engine/tests/t.py": "import aiter.nothing", "engine/b.py": "import aiter.nothing\ndef f(:"})
    assert contract.breaches == ()
    assert contract.unparsed == {"engine/b.py": "line 2: invalid syntax"}


def test_modules_the_importer_brings_itself_are_its_own() -> None:
    engine = {"aiter/__init__.py": "", "engine/m.py": "import aiter.nothing"}
    assert check(engine).breaches == ()


def test_every_import_is_counted() -> None:
    assert check("import aiter\nfrom aiter import rms_norm, mla\naiter.rms_norm()").checked == 4
