"""Hooks and the ways in which interpreters get started, and how they end when something is wrong."""

from __future__ import annotations

import hashlib

import pytest

from builder.hooks import REFUSED, Hook

from .interpreter import KERNELS, LIMIT, limit


def test_without_a_log_nothing_is_written_anywhere(hooked):
    done = hooked.run("-c", "import engine.kernels as k; print(k.LIMIT)", env={"ROCM_IMAGES_HOOK_LOG": ""})
    assert (done.status, done.stdout, done.stderr) == (0, "39321\n", "")
    assert not hooked.log.exists()


def test_a_log_that_cannot_be_written_is_told_once_and_stops_nothing(hooked):
    done = hooked.run("-c", "import engine.kernels", env={"ROCM_IMAGES_HOOK_LOG": "/proc/nowhere/log"})
    assert done.status == 0
    assert done.stderr.count("the log of hooks cannot be written") == 1


def test_a_hook_whose_module_is_never_imported_stays_installed(hooked):
    assert hooked.says("import engine; print('served')") == "served"
    assert [event["event"] for event in hooked.events()] == ["installed"]


def test_a_module_imported_before_the_activation_is_hooked_at_once(hooked):
    hooked.hook(limit("string", attribute="digits", expect="0123456789", value="01"))
    done = hooked.execute(
        """
        import site, string
        print(string.digits)
        site.main()
        print(string.digits)
        """,
        "-S",
    )
    assert done.stdout == "0123456789\n01\n"


def test_a_module_that_is_half_imported_at_the_activation_ends_the_interpreter(hooked):
    hooked.write("engine/kernels.py", "LIMIT = 32768\nimport site; site.main()\nLIMIT = 32768\n")
    done = hooked.execute("import engine.kernels", "-S")
    assert done.status == REFUSED
    assert "its module is being imported while the hooks are activated" in done.stderr


def test_a_second_activation_changes_nothing(hooked):
    code = """
        import rocm_images_hooks, site
        site.main()
        rocm_images_hooks.activate()
        from engine.kernels import LIMIT
        print(LIMIT)
        """
    assert hooked.says(code) == "39321"
    assert len(hooked.events("installed")) == 1


def test_a_hooked_module_runs_with_python_m_and_its_main_part_reads_the_new_value(hooked):
    hooked.write(
        "engine/kernels.py", KERNELS + "if __name__ == '__main__':\n    print(LIMIT, limit(), __spec__.name)\n"
    )
    done = hooked.run("-m", "engine.kernels")
    assert (done.status, done.stdout, done.stderr) == (0, "39321 39321 engine.kernels\n", "")


def test_python_m_of_a_module_that_its_package_imported_already_reads_the_new_value(hooked):
    hooked.write("engine/__init__.py", "import engine.kernels\n")
    hooked.write("engine/kernels.py", KERNELS + "if __name__ == '__main__':\n    print(LIMIT)\n")
    assert hooked.run("-m", "engine.kernels").stdout == "39321\n"


def test_python_m_of_a_hooked_package_runs_its_main_module(hooked):
    hooked.write("engine/__init__.py", "LIMIT = 32768\n")
    hooked.write("engine/__main__.py", "import engine; print(engine.LIMIT)\n")
    hooked.hook(limit("engine"))
    assert hooked.run("-m", "engine").stdout == "39321\n"


def test_lines_of_errors_stay_right_in_a_module_that_python_m_executes(hooked):
    hooked.write("engine/kernels.py", KERNELS + "\nif __name__ == '__main__':\n    1 / 0\n")
    assert 'kernels.py", line 5, in <module>\n    1 / 0' in hooked.run("-m", "engine.kernels").stderr


def test_a_module_without_source_cannot_be_executed_by_name_with_its_hook(hooked):
    hooked.says("import compileall; compileall.compile_file('engine/kernels.py', legacy=True, quiet=1)")
    (hooked.modules / "engine/kernels.py").unlink()
    assert hooked.says("import engine.kernels as k; print(k.LIMIT)") == "39321"
    done = hooked.run("-m", "engine.kernels")
    assert done.status == REFUSED
    assert "has no source to put the hook into" in done.stderr


@pytest.mark.parametrize("option", ["-I", "-E", "-P", "-s", "-B", "-O", "-OO", "-q"])
def test_no_other_option_switches_hooks_off(hooked, option):
    code = f"import sys; sys.path.insert(0, {str(hooked.modules)!r}); import engine.kernels as k; print(k.LIMIT)"
    assert hooked.says(code, option) == "39321"
    assert len(hooked.events("effective")) == 1


def test_without_site_nothing_is_active_and_the_checker_says_so(hooked):
    assert hooked.says("import engine.kernels as k; print(k.LIMIT)", "-S") == "32768"
    assert hooked.events() == []
    status, told = hooked.check("-S", by_path=True)
    assert (status, told["active"]) == (1, False)
    assert [(hook["state"], hook["value"]) for hook in told["hooks"]] == [("installed", 32768)]
    assert told["hooks"][0]["detail"] == (
        "nothing activated the hooks: this interpreter reads no .pth file, as with -S"
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_read_the_new_value_however_they_are_started(hooked, method):
    hooked.write(
        "serve.py",
        f"""
        import multiprocessing, os

        def work(_):
            import engine.kernels
            return engine.kernels.limit(), os.getpid()

        if __name__ == "__main__":
            with multiprocessing.get_context({method!r}).Pool(1) as pool:
                value, pid = pool.map(work, [0])[0]
            print(value, pid)
        """,
    )
    done = hooked.run("serve.py")
    assert done.status == 0, done.stderr
    value, pid = done.stdout.split()
    assert value == "39321"
    assert [event["pid"] for event in hooked.events("effective")] == [int(pid)]


def test_a_child_forked_by_a_thread_while_another_imports_is_hooked(hooked):
    hooked.write("engine/slow.py", "import time; time.sleep(0.2); LIMIT = 32768\n")
    hooked.hook(LIMIT, limit("engine.slow", "slow"))
    code = """
        import os, threading, time
        importing = threading.Thread(target=__import__, args=["engine.slow"])
        importing.start()
        time.sleep(0.05)
        child = os.fork()
        if not child:
            import engine.kernels
            os._exit(engine.kernels.LIMIT == 39321)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        importing.join()
        """
    assert hooked.says(code) == "1"


def test_a_child_that_does_not_fit_ends_and_its_parent_sees_the_status(hooked):
    hooked.write("engine/kernels.py", "LIMIT = 1\n")
    code = """
        import os
        child = os.fork()
        if not child:
            try:
                import engine.kernels
            finally:
                os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    assert hooked.says(code) == "97"


def test_a_program_started_by_a_program_is_hooked(hooked):
    code = """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "from engine.kernels import LIMIT; print(LIMIT)"])
        """
    assert hooked.says(code) == "39321"


@pytest.mark.parametrize("raised", ["SystemExit(0)", "RuntimeError('broken')", "KeyboardInterrupt()"])
def test_a_raise_inside_the_hook_never_ends_with_status_0(hooked, raised):
    hooked.write("engine/kernels.py", "def old(): return 1\n")
    call = Hook(
        name="call", target="engine", module="engine.kernels", attribute="old", optional=True, call="h.py:new",
        expect_source=hashlib.sha256(b"def old(): return 1\n").hexdigest(),
    )  # fmt: skip
    hooked.hook(call, project={"h.py": f"raise {raised}\n"})
    done = hooked.execute("import engine.kernels")
    assert done.status == REFUSED
    assert f"the hook raises {raised.partition('(')[0]}" in done.stderr
    assert "h.py:1" in done.stderr


@pytest.mark.parametrize("damage", ["", "{", '{"schema": 2, "hooks": []}', '{"schema": 1, "hooks": [{}]}'])
def test_a_damaged_registry_ends_every_interpreter(hooked, damage):
    (hooked.package / "registry.json").write_text(damage)
    done = hooked.execute("print('served')")
    assert (done.status, done.stdout) == (REFUSED, "")
    assert "the hooks cannot be activated" in done.stderr


def test_a_package_that_is_gone_ends_every_interpreter_also_with_its_errors_closed(hooked):
    away = hooked.package.with_name("away")
    hooked.package.rename(away)
    try:
        assert hooked.execute("print('served')").status == REFUSED
        code = (
            f"import os; os.close(2); os.execv({str(hooked.python)!r}, [{str(hooked.python)!r}, '-c', 'print(1)'])"
        )
        done = hooked.execute(code, "-S")
        assert (done.status, done.stdout) == (REFUSED, "")
    finally:
        away.rename(hooked.package)


def test_importing_the_package_alone_activates_nothing(hooked):
    code = f"""
        import sys
        sys.path.append({str(hooked.package.parent)!r})
        import rocm_images_hooks, engine.kernels
        print(engine.kernels.LIMIT)
        """
    assert hooked.says(code, "-S") == "32768"


def test_what_was_installed_has_the_times_it_was_told_and_bytecode_that_needs_none(environment):
    _, out = environment
    assert {path.stat().st_mtime for path in out.rglob("*")} == {1700000000}
    compiled = list(out.rglob("*.pyc"))
    assert len(compiled) == len(list(out.rglob("*.py")))
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\x01\0\0\0"}  # hash-based and unchecked (PEP 552)
    finder = next(path for path in compiled if path.name.startswith("finder."))
    assert str(out).encode() not in finder.read_bytes()
