"""What a hook may replace, and what it refuses, in a real interpreter."""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from typing import Any

from builder.hooks import REFUSED, source_sha256

from .interpreter import KERNELS, LIMIT, limit


def test_a_constant_is_what_callers_read_and_functions_of_its_module_too(hooked):
    assert hooked.says("from engine.kernels import LIMIT, limit; print(LIMIT, limit())") == "39321 39321"
    assert [(event["event"], event["hook"]) for event in hooked.events()] == [
        ("installed", "limit"), ("fired", "limit"), ("effective", "limit"),
    ]  # fmt: skip


def test_two_hooks_on_one_module_are_both_effective(hooked):
    hooked.write("engine/kernels.py", KERNELS + "class Backend:\n    supported = False\n")
    hooked.hook(LIMIT, limit(name="backend", attribute="Backend.supported", expect=False, value=True))
    assert hooked.says("import engine.kernels as k; print(k.LIMIT, k.Backend.supported)") == "39321 True"
    assert [event["hook"] for event in hooked.events("effective")] == ["limit", "backend"]


def test_a_renamed_constant_ends_the_interpreter_although_its_import_is_in_a_try(hooked):
    hooked.write("engine/kernels.py", "LIMIT_ELEMENTS = 32768\n")
    done = hooked.execute(
        """
        try:
            import engine.kernels
        except BaseException:
            pass
        print("served")
        """
    )
    assert (done.status, done.stdout) == (REFUSED, "")
    assert done.stderr == (
        "rocm-images: hook limit: engine.kernels.LIMIT: the module has no 'LIMIT' of its own; "
        "the interpreter stops with status 97\n"
    )
    assert hooked.events("refused")[0]["detail"] == "the module has no 'LIMIT' of its own"
    assert not hooked.events("effective")


def test_true_is_not_one(hooked):
    hooked.write("engine/kernels.py", "LIMIT = True")
    hooked.hook(limit(expect=1, value=2))
    assert "expected 1 of type int, found True of type bool" in hooked.execute("import engine.kernels").stderr


def test_an_optional_hook_that_does_not_fit_is_skipped_with_an_event(hooked):
    hooked.write("engine/kernels.py", "LIMIT = 65536")
    hooked.hook(limit(optional=True))
    assert hooked.says("import engine.kernels as k; print(k.LIMIT)") == "65536"
    skipped = hooked.events("skipped")
    assert [event["detail"] for event in skipped] == ["expected 32768 of type int, found 65536 of type int"]


def test_an_attribute_that_only_a_function_of_the_module_would_make_up_is_no_target(hooked):
    hooked.write("engine/kernels.py", "def __getattr__(name): return 32768")
    assert "no 'LIMIT' of its own" in hooked.execute("import engine.kernels").stderr


def test_the_hash_of_a_callable_is_that_of_its_source_in_an_interpreter(tmp_path):
    text = textwrap.dedent(
        '''
        import functools
        class Backend:
            """A class."""
            @classmethod
            @functools.lru_cache
            def supports(cls,
                         what="(") -> bool:
                """Tell."""

                # and why
                return False
                # that is all
            @property
            def size(self): return 1
            @size.setter
            def size(self, value): pass
            class Inner:
                async def run(self):
                    yield 1

        if True:
            def maybe(): return 1
        def last(a): return lambda: (
            a)
        '''
    )
    path = tmp_path / "hashed_module.py"
    path.write_text(text)
    space: dict[str, Any] = {"__name__": "hashed_module"}
    exec(compile(text, path, "exec"), space)
    backend = space["Backend"]
    old = {
        "Backend.supports": vars(backend)["supports"].__func__, "Backend.size": vars(backend)["size"].fget,
        "Backend.Inner.run": backend.Inner.run, "maybe": space["maybe"], "last": space["last"],
    }  # fmt: skip
    for name, function in old.items():
        assert source_sha256(text, name) == hashlib.sha256(inspect.getsource(function).encode()).hexdigest(), name
        assert source_sha256(text.replace("\n", "\r\n"), name) == source_sha256(text, name)
    assert source_sha256(text, "Backend.missing") is None
    assert source_sha256(text, "Missing.size") is None
    assert source_sha256(text + "if True:\n    def last(a): pass\n", "last") is None
