"""What is installed is read from a folder as Python reads it, and compared with its records."""

from __future__ import annotations

import base64
import hashlib
import sys
import sysconfig
from pathlib import Path

import pytest

from builder.smoke.inside import python_set


def install(site: Path, name: str, version: str, files: dict[str, str], *, requires: tuple[str, ...] = ()) -> Path:
    """Lay a distribution out as an installer does."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata = "\n".join(lines + [f"Requires-Dist: {line}" for line in requires]) + "\n"
    written = {**files, f"{info.name}/METADATA": metadata, f"{info.name}/INSTALLER": "pip\n"}
    record = []
    for path, text in written.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(text)}")
    (info / "RECORD").write_text("\n".join([*record, f"{info.name}/RECORD,,"]) + "\n")
    return info


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two folders that Python imports from, in this order."""
    sysconfig.get_config_vars()  # which reads a module, and it is then known
    first, second = tmp_path / "local", tmp_path / "dist"
    first.mkdir()
    second.mkdir()
    monkeypatch.setattr(sys, "path", [str(first), str(second)])
    return first, second


def test_distributions_are_told_in_the_order_in_which_python_finds_them(sites: tuple[Path, Path]) -> None:
    install(sites[1], "torch", "2.6.0", {"torch/__init__.py": ""}, requires=("sympy>=1", "numpy; extra == 'all'"))
    install(sites[0], "torch", "2.12.1+cu130", {"torch/__init__.py": "cuda"})
    found = python_set.probe([])["distributions"]
    assert [(each["name"], each["version"], each["site"]) for each in found] == [
        ("torch", "2.12.1+cu130", str(sites[0])),
        ("torch", "2.6.0", str(sites[1])),
    ]
    assert found[1]["requires"] == ["sympy>=1", "numpy; extra == 'all'"]
    assert (found[0]["installer"], found[0]["tops"], found[0]["package"]) == ("pip", ["torch"], None)
    assert found[0]["identity"] != found[1]["identity"]


def test_files_that_changed_and_files_that_are_gone_are_told(sites: tuple[Path, Path]) -> None:
    install(sites[0], "pkg", "1.0", {"pkg/__init__.py": "a", "pkg/x.py": "b", "pkg/y.py": "c"})
    (sites[0] / "pkg/x.py").write_text("patched")
    (sites[0] / "pkg/y.py").unlink()
    (found,) = python_set.probe([])["distributions"]
    assert found["changed"] == [str(sites[0] / "pkg/x.py")]
    assert found["gone"] == [str(sites[0] / "pkg/y.py")]


def test_a_file_that_two_distributions_brought_is_told(sites: tuple[Path, Path]) -> None:
    install(sites[0], "aiter", "0.14", {"aiter/__init__.py": "a"})
    install(sites[0], "amd-aiter", "0.1", {"aiter/__init__.py": "a", "aiter/ops.py": ""})
    (claim,) = python_set.probe([])["claims"]
    assert claim == {"path": str(sites[0] / "aiter/__init__.py"), "names": ["aiter", "amd-aiter"]}


def test_a_folder_that_imports_as_an_empty_module_is_told_and_a_namespace_that_is_owned_is_not(
    sites: tuple[Path, Path],
) -> None:
    install(sites[0], "owner", "1.0", {"google/api.py": ""})
    (sites[0] / "triton/backends/__pycache__").mkdir(parents=True)
    (sites[0] / "whole").mkdir()
    (sites[0] / "whole/__init__.py").touch()
    (sites[0] / "no-module").mkdir()
    assert python_set.probe([])["remnants"] == [str(sites[0] / "triton")]


def test_metadata_without_a_name_is_told_and_not_passed_over(sites: tuple[Path, Path]) -> None:
    (sites[0] / "UNKNOWN-0.0.0.dist-info").mkdir()
    (found,) = python_set.probe([])["distributions"]
    assert (found["name"], found["version"]) == (None, None)


def test_the_environment_of_markers_is_that_of_packaging() -> None:
    from packaging.markers import default_environment

    assert python_set.probe([])["environment"] == dict(default_environment())
