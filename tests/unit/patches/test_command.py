"""The command `patches`, on sources of every kind, from indexes and repositories on this disk."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from jsonschema import Draft7Validator
from typer.testing import CliRunner, Result

from builder.cli.app import app
from builder.errors import EngineError, LockError, PatchError, RecipeError
from builder.schema import SCHEMAS

from .making import git, hunk, lay_out

WORDS = {"reason": "tried", "upstream": "https://git.example/1", "drop-when": "upstream has it"}
CODE = "LIMIT = 1\n\n\nclass Backend:\n    @classmethod\n    def fast(cls):\n        return False\n"
TREE = {"pkg/__init__.py": "", "pkg/core.py": CODE, "README": "one\ntwo\nthree\n"}
LIMIT = {"module": "pkg.core", "attribute": "LIMIT", "expect": 1, "value": 2}
FAST = {"module": "pkg.core", "expression": "Backend.fast()", "before": False, "after": True}
SWITCH = {"file": "pkg/core.py", "find": "return False", "replace": "return True"}
SERIES = {
    "0001-limit.patch": hunk("pkg/core.py", "-LIMIT = 1", "+LIMIT = 3", " ", " ", " class Backend:"),
    "0002-readme.patch": hunk("README", " one", "-two", "+2", " three"),
}


class Project:
    """A project of one image with the component and source `pkg`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "images/pkg"
        self.folder.mkdir(parents=True)
        self.mirrors: dict[str, dict[str, str]] = {}

    def write(
        self, source: Mapping[str, Any] | None, *patches: dict[str, Any], more: Mapping[str, Any] | None = None
    ) -> None:
        base = {"debian": {"suite": "bookworm"}, "apt": ["python3"]}
        from_source = {"source": "pkg", "requires": [], "reason": "tried"}
        component = {"name": "pkg", "version": "1.0", **(from_source if source is not None else {"wheel": "pkg"})}
        sources = {"pkg": dict(source)} if source is not None else {}
        table = {
            "schema": 1, "name": "pkg", "description": "tried", "engine": "pkg", "gfx": ["gfx1201"],
            "python": "3.11", "base": {"build": base, "runtime": base}, "source": {**sources, **(more or {})},
            "component": [component], "image": {"cmd": ["python3"]},
            "patch": [{"target": "pkg", **WORDS, **patch} for patch in patches],
        }  # fmt: skip
        (self.folder / "recipe.toml").write_text(tomli_w.dumps(table))
        (self.root / "mirrors.toml").write_text(tomli_w.dumps(self.mirrors))

    def series(self, files: Mapping[str, str]) -> None:
        lay_out(self.root / "patches/pkg", {name: text.encode() for name, text in files.items()})

    def index(self, files: Mapping[str, bytes]) -> None:
        """Make these the files of a Python index on this disk."""
        page = self.root / "simple/pkg"
        page.mkdir(parents=True)
        links = []
        for name, data in files.items():
            (page / name).write_bytes(data)
            links.append(f'<a href="{name}#sha256={hashlib.sha256(data).hexdigest()}">{name}</a><br>')
        (page / "index.html").write_text("<!DOCTYPE html><html><body>" + "".join(links) + "</body></html>")
        self.mirrors["indexes"] = {"default": (self.root / "simple").as_uri()}

    def call(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["--root", str(self.root), "patches", "pkg", *words])

    def states(self, *words: str) -> dict[str, str | None]:
        outcome = self.call("--json", *words)
        trees = json.loads(outcome.stdout)["trees"]
        return {patch["name"]: patch["state"] for tree in trees for patch in tree["patches"]}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in (
        "CI",
        "ROCM_IMAGES_MIRRORS",
        "PIP_FIND_LINKS",
        "UV_FIND_LINKS",
        "UV_DEFAULT_INDEX",
        "UV_INDEX_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    return Project(tmp_path / "project")


def path_source(project: Project, files: Mapping[str, str] = TREE) -> dict[str, str]:
    lay_out(project.folder / "tree", {name: text.encode() for name, text in files.items()})
    return {"path": "tree"}


def sdist(version: str, files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"pkg-{version}/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def wheel(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return out.getvalue()


def test_every_kind_of_patch_has_a_state_on_a_folder(project: Project) -> None:
    project.series(SERIES)
    (project.folder / "new.py").write_text("NEW = True\n")
    project.write(
        path_source(project),
        {"name": "series", "series": {"directory": "patches/pkg", "made-for": "0" * 64}},
        {"name": "edit", "edit": SWITCH, "probe": FAST},
        {"name": "overlay", "overlay": {"file": "pkg/new.py", "from": "new.py"}},
        {"name": "hook", "hook": {**LIMIT, "expect": 3}},
    )  # fmt: skip
    outcome = project.call()
    assert outcome.exit_code == 0, outcome.output
    assert project.states() == dict.fromkeys(["series", "edit", "overlay", "hook"], "applies")
    assert outcome.stdout == (
        "pkg: 4 patches on pkg tree, as pinned\n"
        "series: applies (series for pkg: 2 files, 2 applies)\n"
        f"  it was made for {'0' * 64}\n"
        "edit: applies (edit for pkg)\n"
        "  probe pkg.core: Backend.fast() gives false before, true after, in pkg/core.py:6\n"
        "overlay: applies (overlay for pkg)\n"
        "hook: applies (hook for pkg)\n"
        "  pkg.core.LIMIT is 3 as expected, in pkg/core.py:1\n"
    )


def test_all_that_fails_is_told_with_what_is_there(project: Project) -> None:
    project.series({**SERIES, "0003-gone.patch": hunk("gone.py", "-a", "+b")})
    project.write(
        path_source(project, {**TREE, "README": "one\n2\nthree\n", "pkg/core.py": CODE.replace("= 1", "= 9")}),
        {"name": "series", "series": {"directory": "patches/pkg", "made-for": "0" * 64}},
        {"name": "edit", "edit": {"file": "pkg/core.py", "find": "return None", "replace": "return True"}},
        {"name": "hook", "hook": LIMIT},
        {"name": "lost", "hook": {**LIMIT, "attribute": "GONE"}},
        {"name": "open", "hook": {**LIMIT, "attribute": "GONE2", "optional": True}},
    )  # fmt: skip
    outcome = project.call()
    assert outcome.exit_code == PatchError.exit_code
    assert project.states() == {
        "series": "conflicts", "edit": "conflicts", "hook": "conflicts", "lost": "target-missing",
        "open": "target-missing",
    }  # fmt: skip
    lines = outcome.stdout.splitlines()
    assert "series: conflicts (series for pkg: 3 files, 1 redundant, 1 conflicts, 1 target-missing)" in lines
    assert "    expected        LIMIT = 1" in [line.removeprefix("  ") for line in lines]
    assert "    actual       1  LIMIT = 9" in [line.removeprefix("  ") for line in lines]
    assert "  patches/pkg/0003-gone.patch: target-missing" in lines
    assert "  pkg/core.py:1: pkg.core.LIMIT is 9, expected 1" in lines
    assert "  pkg.core.GONE: pkg/core.py has no name 'GONE'" in lines


def test_an_optional_hook_without_target_is_no_failure(project: Project) -> None:
    project.write(path_source(project), {"name": "open", "hook": {**LIMIT, "attribute": "GONE", "optional": True}})
    assert project.call().exit_code == 0


def test_a_probe_proves_a_patch_redundant_that_no_longer_applies(project: Project) -> None:
    there = CODE.replace("return False", "# upstream's own way\n        return True")
    project.write(
        path_source(project, {**TREE, "pkg/core.py": there}),
        {"name": "edit", "edit": SWITCH, "probe": FAST},
    )  # fmt: skip
    outcome = project.call()
    assert outcome.exit_code == 0
    assert "edit: redundant (edit for pkg)\n" in outcome.stdout
    assert "  it goes when: upstream has it\n" in outcome.stdout


def test_a_patch_without_effect_is_a_conflict(project: Project) -> None:
    project.write(
        path_source(project),
        {"name": "edit", "edit": {"file": "README", "find": "two", "replace": "2"}, "probe": FAST},
        {"name": "other", "edit": {"file": "README", "find": "one", "replace": "1"},
         "probe": {**FAST, "before": 5, "after": 6}},
    )  # fmt: skip
    outcome = project.call()
    assert outcome.exit_code == PatchError.exit_code
    assert "it applies without effect: probe pkg.core: Backend.fast() gives false, expected true" in outcome.stdout
    assert "probe pkg.core: Backend.fast() gives false without the patch, expected 5" in outcome.stdout


def test_values_are_compared_by_type(project: Project) -> None:
    project.write(
        path_source(project, {**TREE, "pkg/core.py": "LIMIT = True\nPAIR = (1, 2)\n"}),
        {"name": "number", "hook": LIMIT},
        {"name": "pair", "hook": {**LIMIT, "attribute": "PAIR", "expect": [1, 2], "value": [3]}},
    )
    assert project.states() == {"number": "conflicts", "pair": "applies"}


@pytest.mark.parametrize(("ci", "acknowledged", "code"), [("", False, 0), ("true", False, 4), ("true", True, 0)])
def test_a_redundant_patch_is_an_error_in_ci_unless_acknowledged(
    project: Project, monkeypatch: pytest.MonkeyPatch, ci: str, acknowledged: bool, code: int
) -> None:
    monkeypatch.setenv("CI", ci)
    known = {"acknowledge-redundant": "the next pin has it"} if acknowledged else {}
    there = {**TREE, "pkg/core.py": CODE.replace("= 1", "= 2")}
    project.write(path_source(project, there), {"name": "hook", "hook": LIMIT, **known})
    outcome = project.call()
    assert outcome.exit_code == code
    assert ("warning: hook is redundant" in outcome.stderr) is not acknowledged
    assert json.loads(project.call("--json").stdout)["redundant"] == ([] if acknowledged else ["hook"])


def test_the_sources_are_left_alone(project: Project) -> None:
    project.series(SERIES)
    project.write(path_source(project), {
        "name": "series", "series": {"directory": "patches/pkg", "made-for": "0" * 64}
    })  # fmt: skip
    before = {path: path.stat().st_mtime_ns for path in project.folder.rglob("*")}
    assert project.call().exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in project.folder.rglob("*")} == before


def test_sdists_of_other_versions_are_judged_and_the_newest_that_takes_all_is_found(project: Project) -> None:
    newer = {**TREE, "README": "one\nzwei\nthree\n"}
    project.index({
        "pkg-1.0.tar.gz": sdist("1.0", TREE), "pkg-1.1.tar.gz": sdist("1.1", TREE),
        "pkg-1.2.tar.gz": sdist("1.2", newer), "pkg-1.3.tar.gz": b"broken",
        "pkg-2.0rc1.tar.gz": sdist("2.0rc1", TREE),
    })  # fmt: skip
    project.series(SERIES)
    project.write(
        {"sdist": "pkg", "version": "1.0"},
        {"name": "series", "series": {"directory": "patches/pkg", "made-for": "1.0"}},
    )
    assert project.call().exit_code == 0
    assert project.states("--at", "pkg=2.0rc1") == {"series": "applies"}
    outcome = project.call("--at", "pkg=1.2")
    assert outcome.exit_code == PatchError.exit_code
    lines = outcome.stdout.splitlines()
    assert lines[0] == "pkg: 1 patch on pkg 1.2, pinned is 1.0"
    assert lines[-3] == "the newest release of pkg that takes all patches is 1.1; tried:"
    assert lines[-2].startswith("  1.3: pkg-1.3.tar.gz: is neither tar nor zip")
    assert lines[-1] == "  1.1: takes all"
    table = json.loads(project.call("--at", "pkg=1.2", "--json").stdout)
    Draft7Validator(SCHEMAS["patches"]()).validate(table)
    (tree,) = table["trees"]
    assert tree["newest-that-takes-all"] == "1.1"
    assert "tried" not in json.loads(project.call("--at", "pkg=1.2", "--json", "--no-suggest").stdout)["trees"][0]


def test_what_was_judged_once_is_judged_again_without_an_index(project: Project) -> None:
    project.index({"pkg-1.0.tar.gz": sdist("1.0", TREE), "pkg-1.1.tar.gz": sdist("1.1", TREE)})
    project.write({"sdist": "pkg", "version": "1.0"}, {"name": "hook", "hook": LIMIT})
    assert project.call().exit_code == project.call("--at", "pkg=1.1").exit_code == 0
    (project.root / "simple/pkg/index.html").unlink()
    assert project.call().exit_code == project.call("--at", "pkg=1.1").exit_code == 0
    outcome = project.call("--at", "pkg=1.2")
    assert isinstance(outcome.exception, LockError | EngineError)


def test_a_version_that_is_not_there_is_an_error_that_names_those_that_are(project: Project) -> None:
    project.index({"pkg-1.0.tar.gz": sdist("1.0", TREE), "pkg-1.1.tar.gz": sdist("1.1", TREE)})
    project.write({"sdist": "pkg", "version": "1.0"}, {"name": "hook", "hook": LIMIT})
    error = project.call("--at", "pkg=3").exception
    assert isinstance(error, LockError)
    assert (error.message, error.details) == ("there is no sdist of pkg 3", ("there is: 1.1, 1.0",))


def test_tags_commits_and_folders_of_a_git_source(project: Project, tmp_path: Path) -> None:
    remote = lay_out(tmp_path / "remote", {name: text.encode() for name, text in TREE.items()})
    git(remote, "init", "--quiet", "--initial-branch=main")
    commits = {}
    for tag, text in (
        ("v1.0", CODE),
        ("v1.1", CODE + "\n"),
        ("v2.0", CODE.replace("= 1", "= 7")),
        ("other", CODE),
    ):
        (remote / "pkg/core.py").write_text(text)
        git(remote, "add", "--all")
        git(remote, "commit", "--quiet", "--allow-empty", f"--message={tag}")
        git(remote, "tag", tag)
        commits[tag] = git(remote, "rev-parse", "HEAD").strip()
    project.mirrors["git"] = {"https://git.example": tmp_path.as_uri()}
    project.series(SERIES)
    project.write(
        {"git": "https://git.example/remote", "tag": "v1.0", "commit": commits["v1.0"]},
        {"name": "series", "series": {"directory": "patches/pkg", "made-for": commits["v1.0"]}},
    )
    outcome = project.call()
    assert outcome.exit_code == 0, outcome.exception
    assert "it was made for" not in outcome.stdout
    assert project.states("--at", f"pkg={commits['v1.1']}") == {"series": "applies"}
    outcome = project.call("--at", "pkg=v2.0")
    assert outcome.exit_code == PatchError.exit_code
    assert f"  it was made for {commits['v1.0']}\n" in outcome.stdout
    assert outcome.stdout.splitlines()[-2:] == [
        "the newest release of pkg that takes all patches is v1.1; tried:", "  v1.1: takes all",
    ]  # fmt: skip
    assert project.states("--at", f"pkg={remote}") == {"series": "applies"}
    assert isinstance(project.call("--at", "pkg=v9").exception, LockError)


def test_a_series_from_another_source_may_be_at_another_place_as_well(project: Project) -> None:
    lay_out(project.folder / "fork", {f"series/{name}": text.encode() for name, text in SERIES.items()})
    broken = hunk("README", "-nothing", "+x")
    other = lay_out(project.root / "other", {"series/0001-broken.patch": broken.encode()})
    project.write(
        path_source(project),
        {"name": "series", "series": {"source": "fork", "directory": "series", "made-for": "0" * 64}},
        more={"fork": {"path": "fork"}},
    )
    outcome = project.call()
    assert outcome.exit_code == 0, outcome.exception
    assert project.states("--at", f"fork={other}") == {"series": "conflicts"}


def test_an_installed_tree_is_the_wheel_or_a_folder(project: Project) -> None:
    changed = {**TREE, "pkg/core.py": CODE.replace("= 1", "= 2")}
    project.index({"pkg-1.0-py3-none-any.whl": wheel(TREE), "pkg-1.1-py3-none-any.whl": wheel(changed)})
    project.write(None, {"name": "edit", "edit": SWITCH}, {"name": "hook", "hook": LIMIT})
    assert project.states() == {"edit": "applies", "hook": "applies"}
    assert project.states("--at", "pkg=1.1") == {"edit": "applies", "hook": "redundant"}
    folder = lay_out(project.root / "site-packages", {"pkg/core.py": b"LIMIT = 3\n"})
    assert project.states("--at", f"pkg={folder}") == {"edit": "conflicts", "hook": "conflicts"}
    file = project.root / "here-1.0-py3-none-any.whl"
    file.write_bytes(wheel(changed))
    assert project.states("--at", f"pkg={file}") == {"edit": "applies", "hook": "redundant"}


def test_what_a_base_has_is_not_judged_without_a_folder(project: Project) -> None:
    project.write(None, {"name": "hook", "hook": LIMIT})
    recipe = project.folder / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('wheel = "pkg"', 'base = "pkg"'))
    outcome = project.call()
    assert outcome.exit_code == 0, outcome.exception
    assert "hook: not judged (hook for pkg)\n" in outcome.stdout
    assert "name a folder with --at pkg=PATH" in outcome.stdout
    folder = lay_out(project.root / "site-packages", {"pkg/core.py": b"LIMIT = 3\n"})
    assert project.call("--at", f"pkg={folder}").exit_code == PatchError.exit_code


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("pgk=1.0", RecipeError, "--at pgk: no patch of pkg is about 'pgk'; did you mean 'pkg'?"),
        ("pkg", RecipeError, "--at: expected NAME=WHERE, each name once, got 'pkg'"),
        ("pkg=", RecipeError, "--at: expected NAME=WHERE, each name once, got 'pkg='"),
        ("pkg=./gone", RecipeError, "there is no such folder, wheel or archive"),
        ("pkg=1.1", RecipeError, "--at pkg=1.1: source.pkg has no versions to choose from"),
    ],
)
def test_a_wrong_place_is_refused(project: Project, word: str, kind: type[Exception], message: str) -> None:
    project.write(path_source(project), {"name": "hook", "hook": LIMIT})
    error = project.call("--at", word).exception
    assert isinstance(error, kind)
    assert message in str(error)


def test_a_patch_file_that_cannot_be_read_is_named_with_its_line(project: Project) -> None:
    project.series({"0001-out.patch": hunk("../../etc/x", "-a", "+b")})
    project.write(path_source(project), {
        "name": "series", "series": {"directory": "patches/pkg", "made-for": "0" * 64}
    })  # fmt: skip
    error = project.call().exception
    assert isinstance(error, PatchError)
    assert error.message == "patches/pkg/0001-out.patch: line 1: '../../etc/x' leaves the tree"


def test_an_image_without_patches_has_none_to_tell_of(project: Project) -> None:
    project.write(path_source(project))
    outcome = project.call()
    assert (outcome.exit_code, outcome.stdout) == (0, "pkg has no patches\n")
