"""Hooks and the ways in which a module gets imported, in a real interpreter."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from builder.hooks import REFUSED, Hook

from .interpreter import KERNELS, LIMIT, limit


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LIMIT = 65536", "65536 of type int"),
        ("LIMIT = 32768.0", "32768.0 of type float"),
        ("LIMIT = '32768'", "'32768' of type str"),
        ("class LIMIT: pass", "<class 'engine.kernels.LIMIT'> of type type"),
        (
            "class Odd:\n    def __repr__(self): raise KeyError\nLIMIT = Odd()",
            "<Odd whose repr raises KeyError> of type Odd",
        ),
    ],
)
def test_another_old_value_ends_the_interpreter_and_is_named(hooked, text, found):
    hooked.write("engine/kernels.py", text)
    done = hooked.execute("import engine.kernels")
    assert done.status == REFUSED
    assert f"engine.kernels.LIMIT: expected 32768 of type int, found {found}; the interpreter" in done.stderr


@pytest.mark.parametrize("import_", ["from engine import kernels", "import engine.kernels as kernels"])
def test_a_submodule_is_hooked_however_it_is_imported(hooked, import_):
    assert hooked.says(f"{import_}; print(kernels.LIMIT)") == "39321"


def test_the_init_of_a_package_is_hooked_after_it_imported_its_parts(hooked):
    hooked.write("engine/__init__.py", "LIMIT = 32768\nfrom engine import kernels\n")
    hooked.write("engine/kernels.py", "import engine\ndef limit(): return engine.LIMIT\n")
    hooked.hook(limit("engine"))
    assert hooked.says("import engine; print(engine.LIMIT, engine.kernels.limit())") == "39321 39321"


def test_a_reload_applies_the_hook_again(hooked):
    code = "import importlib, engine.kernels as k; importlib.reload(k); importlib.reload(k); print(k.limit())"
    assert hooked.says(code) == "39321"
    assert len(hooked.events("effective")) == 3


def test_a_reload_that_keeps_the_new_value_is_no_misfit(hooked):
    hooked.write("engine/kernels.py", "if 'LIMIT' not in globals(): LIMIT = 32768\n")
    assert hooked.says("import importlib, engine.kernels as k; importlib.reload(k); print(k.LIMIT)") == "39321"


def test_a_reload_of_a_module_that_changed_ends_the_interpreter(hooked):
    done = hooked.execute(
        """
        import importlib, sys, engine.kernels
        open(engine.kernels.__file__, "w").write("LIMIT = 1234567\\n")
        importlib.invalidate_caches()
        importlib.reload(engine.kernels)
        """
    )
    assert done.status == REFUSED
    assert "found 1234567" in done.stderr


def test_threads_that_import_at_once_all_read_the_new_value(hooked):
    hooked.write("engine/kernels.py", "import time\nLIMIT = 32768\ntime.sleep(0.1)\n")
    code = """
        import threading
        gate, seen = threading.Barrier(8), []
        def work():
            gate.wait()
            from engine.kernels import LIMIT
            seen.append(LIMIT)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(set(seen), len(seen))
        """
    assert hooked.says(code) == "{39321} 8"
    assert len(hooked.events("effective")) == 1


def test_two_finders_that_ask_each_other_do_not_ask_for_ever(hooked):
    code = """
        import importlib.util, sys
        class Asking:
            asked = 0
            def find_spec(self, name, path=None, target=None):
                if name == "engine.kernels":
                    Asking.asked += 1
                    assert Asking.asked < 9
                    return importlib.util.find_spec(name)
        sys.meta_path.insert(0, Asking())
        sys.meta_path.append(Asking())
        sys.setrecursionlimit(200)
        import engine.kernels
        print(engine.kernels.LIMIT)
        """
    done = hooked.execute(code.replace("assert Asking.asked < 9", "if Asking.asked > 1: return None"))
    assert (done.stdout, done.status) == ("39321\n", 0), done.stderr


def test_a_finder_that_imports_what_it_is_to_find_gets_the_hook(hooked):
    code = """
        import importlib, sys
        class Importing:
            busy = False
            def find_spec(self, name, path=None, target=None):
                if name == "engine.kernels" and not self.busy:
                    self.busy = True
                    return importlib.import_module(name).__spec__
        sys.meta_path.insert(1, Importing())
        import engine.kernels
        print(engine.kernels.LIMIT)
        """
    assert hooked.says(code) == "39321"


def test_a_module_in_a_namespace_package_is_hooked_and_its_portions_stay(hooked):
    hooked.write("space/one.py", KERNELS)
    other = hooked.modules / "other"
    (other / "space").mkdir(parents=True)
    (other / "space/two.py").write_text("TWO = 2\n")
    hooked.hook(limit("space.one"))
    code = f"""
        import space.one, sys
        sys.path.append({str(other)!r})
        import space.two
        print(space.one.LIMIT, space.two.TWO)
        """
    assert hooked.says(code) == "39321 2"


def test_a_namespace_package_itself_has_nothing_to_hook_and_works_on_if_that_is_optional(hooked):
    hooked.write("space/one.py", KERNELS)
    hooked.hook(limit("space"))
    assert "the module has no 'LIMIT' of its own" in hooked.execute("import space").stderr
    hooked.hook(limit("space", optional=True))
    code = "import space.one, importlib; print(type(space.__loader__).__name__, space.one.LIMIT)"
    assert hooked.says(code).lstrip("_") == "NamespaceLoader 32768"


def test_a_module_in_a_zip_is_hooked(hooked):
    with zipfile.ZipFile(hooked.modules / "engine.zip", "w") as archive:
        archive.writestr("zipped/__init__.py", "")
        archive.writestr("zipped/kernels.py", KERNELS + "def old(): return 1\n")
        archive.writestr("zipped/data.txt", "data")
    old = hashlib.sha256(b"def old(): return 1\n").hexdigest()
    call = Hook(
        name="call", target="engine", module="zipped.kernels", attribute="old", expect_source=old,
        call="hooks/z.py:new",
    )  # fmt: skip
    hooked.hook(limit("zipped.kernels"), call, project={"hooks/z.py": "def new(): return new.original() + 1\n"})
    code = """
        import sys; sys.path.insert(0, "engine.zip")
        import zipped.kernels as k, pkgutil, importlib.resources
        print(k.LIMIT, k.old(), pkgutil.get_data("zipped", "data.txt"))
        """
    assert hooked.says(code) == "39321 2 b'data'"


def test_resources_and_introspection_of_a_hooked_package_work(hooked):
    hooked.write("engine/__init__.py", "LIMIT = 32768\n")
    hooked.write("engine/data.txt", "data")
    hooked.hook(limit("engine"), LIMIT)
    code = """
        import importlib.resources, importlib.util, inspect, pickle, pkgutil, engine, engine.kernels
        print(importlib.resources.files("engine").joinpath("data.txt").read_text())
        print(pkgutil.get_data("engine", "data.txt"))
        print([module.name for module in pkgutil.iter_modules(engine.__path__)])
        print(type(engine.__loader__).__name__, type(engine.__spec__.loader).__name__)
        print(len(inspect.getsource(engine.kernels)), inspect.getsource(engine.kernels.limit).strip())
        print(pickle.loads(pickle.dumps(engine.kernels.limit))())
        """
    assert hooked.says(code).splitlines() == [
        "data", "b'data'", "['kernels']", "SourceFileLoader SourceFileLoader",
        f"{len(KERNELS)} def limit(): return LIMIT", "39321",
    ]  # fmt: skip


def test_the_loader_that_is_found_has_all_that_the_loader_behind_it_has(hooked):
    code = """
        import copy, importlib.util
        loader = importlib.util.find_spec("engine.kernels").loader
        print(loader.path.endswith("engine/kernels.py"), loader.is_package("engine.kernels"))
        print(loader.get_source("engine.kernels").splitlines()[0], len(loader.get_data(loader.path)))
        print(hasattr(loader, "nonsense"), copy.copy(loader).name)
        """
    assert hooked.says(code).splitlines() == [
        "True False", f"LIMIT = 32768 {len(KERNELS)}", "False engine.kernels",
    ]  # fmt: skip


def test_a_module_made_by_hand_from_its_spec_is_hooked(hooked):
    code = """
        import importlib.util
        spec = importlib.util.find_spec("engine.kernels")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        print(module.LIMIT)
        """
    assert hooked.says(code) == "39321"


def test_a_module_that_is_executed_on_first_use_is_hooked(hooked):
    code = """
        import importlib.util, sys
        spec = importlib.util.find_spec("engine.kernels")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = sys.modules["engine.kernels"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        print(module.LIMIT)
        """
    assert hooked.says(code) == "39321"


def test_a_module_that_puts_another_in_its_place_is_hooked_where_callers_look(hooked):
    hooked.write(
        "engine/kernels.py",
        """
        import sys, types
        class Lazy(types.ModuleType): pass
        other = Lazy(__name__)
        other.LIMIT = 32768
        sys.modules[__name__] = other
        """,
    )
    assert hooked.says("from engine.kernels import LIMIT; print(LIMIT)") == "39321"


def test_a_module_that_raises_raises_and_its_next_import_is_hooked(hooked):
    hooked.write(
        "engine/kernels.py",
        "import os\nif not os.environ.pop('READY', ''): raise ImportError('no device')\nLIMIT = 32768\n",
    )
    code = """
        import os
        try:
            import engine.kernels
        except ImportError as error:
            print(error)
        os.environ["READY"] = "1"
        import engine.kernels
        print(engine.kernels.LIMIT)
        """
    assert hooked.says(code) == "no device\n39321"
