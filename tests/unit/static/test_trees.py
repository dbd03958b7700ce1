"""Reading component trees from wheels, sdists and folders."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from builder.errors import LockError
from builder.sources.trees import read_tree
from builder.sourcetree import module_of

FILES = {
    "pkg/__init__.py": b"x = 1\n",
    "pkg/csrc/a.cu": b"#include <numa.h>\n",
    "pkg/_c.abi3.so": b"\x7fELF",
    "other/m.py": b"",
}


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as out:
        for name, data in files.items():
            out.writestr(name, data)
    return path


def sdist(path: Path, files: dict[str, bytes], top: str = "pkg-1.0") -> Path:
    with tarfile.open(path, "w:gz") as out:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return path


def folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, data in {**files, ".git/hook.py": b"", "pkg/__pycache__/x.py": b""}.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def test_the_three_forms_give_the_same_tree(tmp_path: Path) -> None:
    trees = [
        read_tree(wheel(tmp_path / "pkg-1.0-py3-none-any.whl", FILES)),
        read_tree(sdist(tmp_path / "pkg-1.0.tar.gz", FILES)),
        read_tree(folder(tmp_path / "pkg", FILES)),
    ]
    assert trees[0].names == frozenset(FILES)
    assert dict(trees[0].texts) == {name: data for name, data in FILES.items() if not name.endswith(".so")}
    assert trees[0] == trees[1] == trees[2]


def test_a_subfolder_and_a_choice_of_packages_can_be_read_alone(tmp_path: Path) -> None:
    archive = sdist(
        tmp_path / "a.tar.gz", {f"python/{name}": data for name, data in FILES.items()} | {"setup.py": b""}
    )
    assert read_tree(archive, under="python").names == frozenset(FILES)
    assert read_tree(archive, under="python/", packages=["other"]).names == {"other/m.py"}


def test_the_install_schemes_of_a_wheel_are_where_they_land(tmp_path: Path) -> None:
    files = {
        "pkg-1.0.data/purelib/pkg/a.py": b"",
        "pkg-1.0.data/platlib/pkg/b.py": b"",
        "pkg-1.0.data/data/c.py": b"",
    }
    names = read_tree(wheel(tmp_path / "a.whl", files)).names
    assert names == {"pkg/a.py", "pkg/b.py", "pkg-1.0.data/data/c.py"}


@pytest.mark.parametrize("name", ["a.whl", "a.tar.gz"])
def test_a_damaged_file_is_a_lock_error_that_names_it(tmp_path: Path, name: str) -> None:
    path = (wheel if name.endswith("whl") else sdist)(tmp_path / name, {"pkg/a.py": b"x" * 5000, "pkg/b.py": b"y"})
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(LockError) as caught:
        read_tree(path)
    assert caught.value.message.startswith(f"{name}: cannot be read as a wheel, an sdist or a folder: ")


def test_a_folder_that_is_not_in_the_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        read_tree(wheel(tmp_path / "a.whl", FILES), under="python", packages=["pkg"])
    assert caught.value.message == "a.whl: there are no files in it below 'python/{pkg}'"


def test_a_missing_file_is_a_lock_error(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"^gone\.whl: cannot be read"):
        read_tree(tmp_path / "gone.whl")


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("a/b.py", "a.b"), ("a/__init__.py", "a"), ("a.py", "a"), ("a/b-c.py", None), ("a/b.cu", None),
        ("__init__.py", None), ("a-1.0.dist-info/x.py", None),
    ],
)  # fmt: skip
def test_a_path_is_a_module_when_python_can_import_it(path: str, module: str | None) -> None:
    assert module_of(path) == module
