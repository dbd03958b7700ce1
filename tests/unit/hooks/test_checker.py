"""What the checker in an image tells: installed, fired, effective, and what callers read."""

from __future__ import annotations

import json

import pytest

from builder.hooks import REFUSED

from .interpreter import KERNELS, LIMIT, limit


def states(told):
    return {hook["name"]: (hook["state"], hook["value"]) for hook in told["hooks"]}


def test_effective_hooks_are_told_with_the_value_that_callers_read(hooked):
    status, told = hooked.check()
    assert status == 0
    assert told == {
        "active": True,
        "hooks": [
            {
                "name": "limit", "target": "engine", "module": "engine.kernels", "attribute": "LIMIT",
                "optional": False, "state": "effective", "value": 39321, "detail": None, "held": [],
            }
        ],
    }  # fmt: skip


def test_what_modules_print_or_leave_running_does_not_disturb_the_document(hooked):
    hooked.write(
        "engine/kernels.py",
        "import os, threading, time\nLIMIT = 32768\nprint('noise')\nos.write(1, b'more')\n"
        "threading.Thread(target=time.sleep, args=[60]).start()\n",
    )
    status, told = hooked.check()
    assert (status, states(told)) == (0, {"limit": ("effective", 39321)})


def test_a_misfit_is_told_with_the_others_instead_of_ending_the_checker(hooked):
    hooked.write("engine/kernels.py", "LIMIT = 1\nOTHER = 32768\n")
    hooked.hook(LIMIT, limit(name="other", attribute="OTHER"), limit(name="away", attribute="AWAY"))
    status, told = hooked.check()
    assert status == 1
    assert states(told) == {"limit": ("fired", 1), "other": ("effective", 39321), "away": ("fired", None)}
    assert [hook["detail"] for hook in told["hooks"]] == [
        "expected 32768 of type int, found 1 of type int", None, "the module has no 'AWAY' of its own",
    ]  # fmt: skip


def test_an_optional_hook_that_is_skipped_is_told_and_is_no_failure(hooked):
    hooked.hook(limit(attribute="AWAY", optional=True))
    status, told = hooked.check()
    assert (status, states(told)) == (0, {"limit": ("fired", None)})


def test_a_module_that_cannot_be_imported_leaves_its_hook_installed(hooked):
    hooked.write("engine/kernels.py", "raise RuntimeError('no device')\n")
    status, told = hooked.check()
    assert (status, states(told)) == (1, {"limit": ("installed", None)})
    assert told["hooks"][0]["detail"].startswith("its module cannot be imported: RuntimeError: no device (")


def test_a_value_that_another_module_took_before_the_hook_is_not_effective(hooked):
    hooked.write("engine/kernels.py", "LIMIT = 32768\nimport engine.early\n")
    hooked.write("engine/early.py", "from engine.kernels import LIMIT as MINE\n")
    status, told = hooked.check()
    assert (status, states(told)) == (1, {"limit": ("fired", 39321)})
    assert told["hooks"][0]["held"] == ["engine.early.MINE"]
    assert told["hooks"][0]["detail"] == "the old one is still held by engine.early.MINE"


def test_an_equal_constant_of_another_module_is_not_the_old_value(hooked):
    hooked.write("engine/kernels.py", "LIMIT = 32768\nSAME = 32768\nimport engine.other\n")
    hooked.write("engine/other.py", "LIMIT = 32768\n")
    assert hooked.check()[0] == 0


def test_a_value_that_is_overwritten_after_the_hook_is_not_effective(hooked):
    hooked.write("engine/late.py", "import engine.kernels\nengine.kernels.LIMIT = 5\nX = 1\n")
    hooked.hook(LIMIT, limit("engine.late", "late", attribute="X", expect=1, value=2))
    status, told = hooked.check()
    assert (status, states(told)) == (1, {"limit": ("fired", 5), "late": ("effective", 2)})
    assert told["hooks"][0]["detail"] == "callers read 5"


def test_a_module_that_is_imported_past_the_finder_is_told(hooked):
    hooked.write(
        "engine/__init__.py",
        """
        import importlib.machinery, importlib.util, sys
        found = importlib.machinery.PathFinder.find_spec("engine.kernels", __path__)
        module = sys.modules["engine.kernels"] = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        """,
    )
    status, told = hooked.check()
    assert (status, states(told)) == (1, {"limit": ("installed", 32768)})
    assert told["hooks"][0]["detail"] == "its module was imported past the hooks"


def test_the_log_of_served_processes_tells_what_became_of_every_hook(hooked):
    hooked.write("engine/never.py", KERNELS)
    hooked.hook(LIMIT, limit("engine.never", "never"))
    assert hooked.says("import engine.kernels; print(1)") == "1"
    done = hooked.run("-m", "rocm_images_hooks", "--log", str(hooked.log), env={"ROCM_IMAGES_HOOK_LOG": ""})
    told = json.loads(done.stdout)
    assert (done.status, states(told)) == (1, {"limit": ("effective", None), "never": ("installed", None)})
    assert told["hooks"][1]["detail"] == "its module was never imported"


def test_a_log_with_a_refusal_is_not_effective_whatever_other_processes_did(hooked):
    hooked.says("import engine.kernels")
    hooked.write("engine/kernels.py", "LIMIT = 1\n")
    assert hooked.execute("import engine.kernels").status == REFUSED
    done = hooked.run("-m", "rocm_images_hooks", "--log", str(hooked.log), env={"ROCM_IMAGES_HOOK_LOG": ""})
    assert (done.status, states(json.loads(done.stdout))) == (1, {"limit": ("fired", None)})


def test_an_empty_log_tells_that_nothing_was_active(hooked):
    hooked.log.write_text("")
    done = hooked.run("-m", "rocm_images_hooks", "--log", str(hooked.log), env={"ROCM_IMAGES_HOOK_LOG": ""})
    told = json.loads(done.stdout)
    assert (done.status, told["active"], states(told)) == (1, False, {"limit": ("installed", None)})


@pytest.mark.parametrize("argv", [["--help"], ["--log"], ["--log", "/nowhere"], ["--log", "/proc/version"]])
def test_wrong_usage_and_foreign_logs_end_with_status_2(hooked, argv):
    done = hooked.run("-m", "rocm_images_hooks", *argv)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("rocm-images: ")
