"""What crashes, hangs or ends while it is imported is told by name, and what comes after it is tried as well."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

from builder.smoke.inside import compiled_modules, opened_libraries
from builder.smoke.inside.compiled_modules import _isolated, _modules

from ..elf.forge import library

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))


def fine() -> dict[str, Any]:
    os.write(1, b"a module that talks\n")
    return {"process": os.getpid()}


def fails() -> dict[str, Any]:
    raise ImportError("x.so: undefined symbol: gone")


def crashes() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def ends() -> dict[str, Any]:
    os._exit(3)


def leaves() -> dict[str, Any]:
    sys.exit("not on this machine")


def hangs() -> dict[str, Any]:
    while True:
        time.sleep(60)


def test_all_share_one_process_until_one_kills_it() -> None:
    told = _isolated({"a": fine, "b": fine, "c": crashes, "d": fine, "e": ends, "f": fails, "g": leaves}, 30)
    assert list(told) == ["a", "b", "c", "d", "e", "f", "g"]
    assert told["a"]["process"] == told["b"]["process"] != told["d"]["process"]
    assert told["c"] == {"died": "the process died of SIGSEGV"}
    assert told["e"] == {"died": "the process ended with status 3"}
    assert told["f"]["chain"] == [{"type": "ImportError", "message": "x.so: undefined symbol: gone"}]
    assert told["g"]["chain"] == [{"type": "SystemExit", "message": "not on this machine"}]


def test_one_that_hangs_is_ended_and_named() -> None:
    told = _isolated({"a": fine, "b": hangs, "c": fine}, 0.2)
    assert told["b"] == {"died": "it did not end within 0.2 s"}
    assert "process" in told["c"]


def test_nothing_that_a_module_prints_reaches_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    _isolated({"a": fine}, 30)
    assert capfd.readouterr().out == ""


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two folders that Python imports from, in this order."""
    folders = tmp_path / "local", tmp_path / "dist"
    for folder in folders:
        folder.mkdir()
    monkeypatch.setattr(compiled_modules, "sites", lambda: [str(folder) for folder in folders])
    return folders


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_modules_are_the_libraries_that_initialise_one_of_their_name(sites: tuple[Path, Path]) -> None:
    put(sites[0] / f"pkg/sub/_x{SUFFIX}", library(exports=["PyInit__x"]))
    put(sites[0] / "pkg/_y.abi3.so", library(exports=["PyInit__y", "PyInit_other"]))
    put(sites[0] / f"top{SUFFIX}", library(exports=["PyInit_top"]))
    put(sites[0] / "pkg/lib/libkernel.so", library(soname="libkernel.so"))
    put(sites[0] / "pkg/plain.so", library(exports=["PyInit_another"]))
    put(sites[0] / "pkg/old.cpython-39-x86_64-linux-gnu.so", library(exports=["PyInit_old"]))
    put(sites[0] / "pkg.libs/_z.so", library(exports=["PyInit__z"]))
    assert [name for name, _ in _modules()] == ["top", "pkg._y", "pkg.sub._x"]


def test_what_another_folder_hides_is_not_imported_and_what_cannot_be_read_is(sites: tuple[Path, Path]) -> None:
    put(sites[0] / f"pil/_a{SUFFIX}", library(exports=["PyInit__a"]))
    put(sites[1] / f"pil/_b{SUFFIX}", library(exports=["PyInit__b"]))
    put(sites[1] / f"zmq/_c{SUFFIX}", library(exports=["PyInit__c"])[:100])
    assert [name for name, _ in _modules()] == ["pil._a", "zmq._c"]


def test_a_library_opens_by_name_or_tells_why_not_and_what_is_near() -> None:
    told = opened_libraries.probe(["libc.so.6", "libc.so.99", "libgone.so"])["libraries"]
    assert told["libc.so.6"] == {"error": None, "near": []}
    assert told["libc.so.99"]["near"] == ["libc.so.6"]
    assert told["libgone.so"] == {
        "error": "libgone.so: cannot open shared object file: No such file or directory",
        "near": [],
    }
