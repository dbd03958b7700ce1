"""What a source tree declares of its needs: where it is read, and when the recipe has to say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builder.declared import runtime_requirements
from builder.errors import RecipeError
from builder.recipe import Component

WHERE = "images/probe/recipe.toml: component.engine"
PYPROJECT = """
[project]
name = "Engine"
dependencies = ["numpy>=2", "tomli; python_version < '3.11'", "uvloop; sys_platform == 'linux'"]
[project.optional-dependencies]
all = ["engine[audio,video]"]
audio = ["soundfile"]
video = ["av", "engine[audio]"]
"""


def needs(tree: Path, files: dict[str, str], python: str = "3.12", **keys: Any) -> tuple[str, ...]:
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    table = {"name": "engine", "source": "engine", "version": "1.0"}
    component = Component.model_validate(table | {key.replace("_", "-"): value for key, value in keys.items()})
    return runtime_requirements(tree, component, python=python, where=WHERE)


def refused(tree: Path, files: dict[str, str], **keys: Any) -> RecipeError:
    with pytest.raises(RecipeError) as failure:
        needs(tree, files, **keys)
    return failure.value


def test_what_the_recipe_says_counts_and_the_tree_is_not_read(tmp_path: Path) -> None:
    assert needs(tmp_path, {"pyproject.toml": "this is no TOML"}, requires=["numpy"], reason="so") == ("numpy",)


def test_static_metadata_is_taken_with_its_markers_evaluated_for_the_image(tmp_path: Path) -> None:
    assert needs(tmp_path, {"pyproject.toml": PYPROJECT}) == ("numpy>=2", "uvloop")
    assert needs(tmp_path, {}, python="3.10") == ("numpy>=2", "tomli", "uvloop")


def test_extras_bring_what_they_name_also_through_others_of_the_project(tmp_path: Path) -> None:
    found = needs(tmp_path, {"pyproject.toml": PYPROJECT}, extras=["all"])
    assert found == ("numpy>=2", "uvloop", "soundfile", "av")
    failure = refused(tmp_path, {}, extras=["vidoe"])
    assert failure.message == "component.engine.extras: its source has no extra 'vidoe'"
    assert failure.hint == "it has: all, audio, video"


def test_a_project_without_dependencies_has_none(tmp_path: Path) -> None:
    assert needs(tmp_path, {"pyproject.toml": '[project]\nname = "engine"\n'}) == ()


def test_a_subdirectory_is_where_the_project_is(tmp_path: Path) -> None:
    assert needs(tmp_path, {"python/pyproject.toml": PYPROJECT}, subdirectory="python") == ("numpy>=2", "uvloop")
    failure = refused(tmp_path, {}, subdirectory="pyhton")
    assert failure.message == f"{WHERE}.subdirectory: there is no folder 'pyhton' in the source"


INFO = """\
Metadata-Version: {version}
Name: engine
Version: 1.0
{dynamic}Requires-Dist: numpy
Requires-Dist: soundfile; extra == 'audio'
"""
LEFT_TO_THE_BUILD = '[project]\ndynamic = ["dependencies"]'


def test_the_metadata_of_a_source_archive_counts_where_it_is_binding(tmp_path: Path) -> None:
    files = {
        "PKG-INFO": INFO.format(version="2.2", dynamic=""),
        "pyproject.toml": '[project]\ndynamic = ["dependencies"]',
    }
    assert needs(tmp_path, files) == ("numpy",)
    assert needs(tmp_path, {}, extras=["audio"]) == ("numpy", "soundfile")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (
            {"pyproject.toml": LEFT_TO_THE_BUILD, "PKG-INFO": INFO.format(version="2.1", dynamic="")},
            "its pyproject.toml leaves 'dependencies' to the build",
        ),
        (
            {"PKG-INFO": INFO.format(version="2.4", dynamic="Dynamic: requires-dist\n")},
            "tree has no [project] table",
        ),
        ({"setup.py": "raise SystemExit('this is executed')"}, "tree has no [project] table"),
    ],
)  # fmt: skip
def test_a_tree_that_leaves_it_to_its_build_is_refused_and_the_keys_are_named(
    files: dict[str, str], why: str, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    failure = refused(tree, files)
    assert failure.message == f"{WHERE}: what it needs at run time is not written in its tree: {why}"
    assert failure.hint == (
        "name its requirements files with 'requires-files', or list it with 'requires' and 'reason'"
    )


def test_a_tree_of_another_distribution_is_refused(tmp_path: Path) -> None:
    failure = refused(tmp_path, {"pyproject.toml": '[project]\nname = "engine-rocm"\n'})
    assert failure.message == f"{WHERE}.name: its source builds the distribution 'engine-rocm', not 'engine'"


REQUIREMENTS = """
# what the card needs
--extra-index-url https://elsewhere.example.org/simple
-r common.txt   # everybody's
amd-quark==0.12.post1 \\
    --hash=sha256:abc
tilelang == 0.1.10 ; python_version >= "3.12"
old; python_version < "3.12"
"""


def test_requirements_files_are_read_with_what_they_include(tmp_path: Path) -> None:
    files = {"requirements/rocm.txt": REQUIREMENTS, "requirements/common.txt": "numpy\nregex # Replace re\n"}
    found = needs(tmp_path, files, requires_files=["requirements/rocm.txt"])
    assert found == ("numpy", "regex", "amd-quark==0.12.post1", "tilelang==0.1.10")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-c limits.txt", "r.txt: expected requirements and '-r FILE', got '-c limits.txt'"),
        ("-e .", "r.txt: expected requirements and '-r FILE', got '-e .'"),
        ("-r ../outside.txt", "'../outside.txt', included by 'r.txt', is not inside the source"),
        ("-r absent.txt", "there is no file 'absent.txt' in the source"),
        ("-r r.txt", "'r.txt' includes itself"),
    ],
)
def test_what_else_is_in_a_requirements_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("numpy\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    failure = refused(tree, {"r.txt": text}, requires_files=["r.txt"])
    assert failure.message == f"{WHERE}.requires-files[0]: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("numpy >= two", "expected a requirement, got 'numpy >= two': "),
        ("kernels @ https://example.org/k.whl", "kernels: a requirement by address is not locked: "),
    ],
)
def test_a_requirement_that_cannot_be_locked_is_refused(text: str, message: str, tmp_path: Path) -> None:
    failure = refused(tmp_path, {"r.txt": text}, requires_files=["r.txt"])
    assert failure.message.startswith(message)


def test_a_link_that_leaves_the_tree_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("numpy\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "r.txt").symlink_to("../secret.txt")
    failure = refused(tree, {}, requires_files=["r.txt"])
    assert failure.message == f"{WHERE}.requires-files[0]: 'r.txt' is not inside the source"
