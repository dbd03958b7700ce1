"""The program that edits installed trees, run by a real interpreter on what a real installer installed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import zipfile
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from builder.edits import REFUSED, STEP_FILES, shipped, spec
from builder.inside.distributions import line_of
from builder.inside.editing import Edit, Overlay
from builder.process import Completed, run

INSIDE = Path(str(files("builder"))) / "inside"
EPOCH = 1_700_000_000
ENGINE = {
    "engine/__init__.py": "",
    "engine/kernels.py": "LIMIT = 32768\n",
    "engine/other.py": "LIMIT = 1\n",
    "engine/data, with a comma.txt": "data\n",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A virtual environment with an engine in it, and the step that edits it."""

    top: Path
    python: Path
    site: Path

    @property
    def out(self) -> Path:
        return self.top / "out"

    def edit(self, *patches: Edit | Overlay, root: Path = Path("/")) -> Completed:
        """Run the step as a build does."""
        source = self.top / "from"
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        (source / "spec.json").write_bytes(spec(patches))
        for name, data in shipped(patches).items():
            (source / name).parent.mkdir(exist_ok=True)
            (source / name).write_bytes(data)
        return run([self.python, self.top / "step/edit_tree.py", str(EPOCH), root, source, self.out])

    def report(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.top / "edits.json").read_text())
        return told

    def written(self) -> set[str]:
        """Return what is in the layer, by its path in the site directory."""
        place = self.out / self.site.relative_to("/")
        return {str(path.relative_to(place)) for path in self.out.rglob("*") if path.is_file()}

    def join(self) -> None:
        """Let the layer join the image."""
        for path in self.out.rglob("*"):  # not copytree, which gives folders such as /tmp modes and dates as well
            if not path.is_dir():
                target = "/" / path.relative_to(self.out)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)

    def says(self, code: str, *options: str) -> str:
        done = run([self.python, *options, "-c", code])
        assert done.status == 0, done.stderr
        return done.stdout.strip()


def wheel(folder: Path, contents: dict[str, str]) -> Path:
    """Make a wheel of an engine."""
    info = "engine-1.0.dist-info"
    texts = contents | {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: engine\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{line_of(name, text.encode())}\n" for name, text in texts.items())
    path = folder / "engine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**texts, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return an interpreter, and a copy of its site directory with the engine in it."""
    top = tmp_path_factory.mktemp("edits")
    done = run([sys.executable, "-m", "venv", "--without-pip", top / "venv"])
    assert done.status == 0, done.stderr
    python, uv = top / "venv/bin/python", Path(sys.executable).with_name("uv")
    command = [uv, "pip", "install", "-q", "--offline", "--no-cache", "--link-mode=copy", "--compile-bytecode"]
    done = run([*command, "--python", python, wheel(top, ENGINE)])
    assert done.status == 0, done.stderr
    shutil.copytree(next((top / "venv").rglob("site-packages")), top / "site")
    return python, top / "site"


@pytest.fixture
def installed(environment: tuple[Path, Path], tmp_path: Path) -> Installed:
    python, pristine = environment
    site = next(python.parent.parent.rglob("site-packages"))
    shutil.rmtree(site)
    shutil.copytree(pristine, site)
    (tmp_path / "step").mkdir()
    for file in STEP_FILES:
        shutil.copyfile(INSIDE / file, tmp_path / "step" / file)
    return Installed(top=tmp_path, python=python, site=site)


def limit(file="engine/kernels.py", name="limit", find="32768", replace="39321"):
    return Edit(name=name, file=file, find=find, replace=replace)


def cached(name: str, *, optimization: str = "") -> str:
    return f"engine/__pycache__/{name}.cpython-{sys.version_info.major}{sys.version_info.minor}{optimization}.pyc"


def require_record(site: Path) -> None:
    """Compare every file of the engine with its line in RECORD, by other code than that which wrote it."""
    distribution = importlib.metadata.Distribution.at(site / "engine-1.0.dist-info")
    hashed = [file for file in distribution.files or () if file.hash is not None]
    assert len(hashed) >= len(ENGINE)
    for file in hashed:
        data = Path(str(file.locate())).read_bytes()
        digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (file.hash and file.hash.value, file.size) == (digest, len(data)), file


def test_changed_files_alone_are_written_with_bytecode_and_record(installed):
    done = installed.edit(limit())
    assert done.status == 0, done.stderr
    assert installed.written() == {"engine/kernels.py", cached("kernels"), "engine-1.0.dist-info/RECORD"}
    assert (installed.site / "engine/kernels.py").read_text() == "LIMIT = 32768\n"
    installed.join()
    require_record(installed.site)
    assert installed.says("import engine.kernels as k; print(k.LIMIT)") == "39321"
    assert {path.stat().st_mtime for path in installed.out.rglob("*")} == {EPOCH}


def test_the_report_names_what_was_changed_and_how(installed):
    done = installed.edit(limit(), limit("engine/other.py", "there", "LIMIT = 0", "LIMIT = 1"))
    assert json.loads(done.stdout) == installed.report()
    kernels = str(installed.site / "engine/kernels.py")
    first, second = installed.report()["patches"]
    assert first == {
        "name": "limit", "state": "applies", "file": "engine/kernels.py", "path": kernels, "lines": [1],
        "before": hashlib.sha256(b"LIMIT = 32768\n").hexdigest(),
        "after": hashlib.sha256(b"LIMIT = 39321\n").hexdigest(),
    }  # fmt: skip
    assert (second["state"], second["before"] == second["after"]) == ("redundant", True)
    assert done.stderr == "patch there: engine/other.py: the replacement is there already\n"
    record = str(installed.site / "engine-1.0.dist-info/RECORD")
    assert installed.report()["records"] == [record]
    assert installed.report()["changed"] == sorted([kernels, str(installed.site / cached("kernels")), record])


def test_one_refused_patch_keeps_all_from_being_written(installed):
    done = installed.edit(limit(), limit("engine/other.py", "gone", "LIMIT = 7"))
    assert done.status == REFUSED == 4
    assert done.stderr.startswith("patch gone: engine/other.py: the text is there zero times, expected once\n")
    assert not installed.out.exists()
    assert not (installed.top / "edits.json").exists()


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (limit("engine/gone.py"), "engine/gone.py: there is no such file"),
        (limit("../../etc/x"), "../../etc/x: the path leaves the tree"),
        (limit("/etc/passwd"), "/etc/passwd: the path is absolute"),
        (limit(replace="("), "engine/kernels.py: it applies, but the file is no Python any more: line 1"),
        (limit("engine/away/x.py"), "engine/away/x.py: engine/away is a link that leads out of the tree, to /etc"),
        (limit("engine/passwd"), "engine/passwd is a link that leads out of the tree, to /etc/passwd"),
        (Overlay(name="limit", file="engine/away/new", content=b""), "away is a link that leads out of the tree"),
        (limit("engine"), "engine: this is a folder"),
        (limit("engine/fast.py", find="LIMIT"), "engine/fast.py: it is not what is imported, fast.abi3.so is"),
        (limit("engine/pack.py", find="LIMIT"), "engine/pack.py: it is not what is imported, pack/__init__.py is"),
    ],
)  # fmt: skip
def test_what_must_not_be_edited_has_its_own_message_and_exit_4(installed, patch, why):
    engine = installed.site / "engine"
    (engine / "away").symlink_to("/etc")
    (engine / "passwd").symlink_to("/etc/passwd")
    (engine / "pack").mkdir()
    for file in ("fast.py", "fast.abi3.so", "pack.py", "pack/__init__.py"):
        (engine / file).write_text("LIMIT = 1\n")
    done = installed.edit(patch)
    assert done.status == REFUSED
    assert done.stderr.startswith("patch limit: ")
    assert why in done.stderr
    assert not installed.out.exists()


def test_an_overlay_replaces_the_known_file_and_a_new_one_gets_a_line_in_record(installed):
    old = hashlib.sha256(b"LIMIT = 32768\n").hexdigest()
    whole = Overlay(name="whole", file="engine/kernels.py", content=b"LIMIT = 1.5\n", replaces=old)
    new = Overlay(name="new", file="engine/more/new.py", content=b"X = 2\n")
    assert installed.edit(whole, new).status == 0
    installed.join()
    assert installed.says("import engine.kernels as k, engine.more.new as n; print(k.LIMIT, n.X)") == "1.5 2"
    require_record(installed.site)
    assert (
        line_of("engine/more/new.py", b"X = 2\n")
        in (installed.site / "engine-1.0.dist-info/RECORD").read_text().splitlines()
    )


def test_bytecode_of_every_level_that_is_there_is_made_anew(installed):
    for options in ("-O", "-OO"):
        installed.says(
            "import compileall; compileall.compile_dir('" + str(installed.site) + "', quiet=1, "
            "invalidation_mode=__import__('py_compile').PycInvalidationMode.UNCHECKED_HASH)",
            options,
        )
    assert installed.edit(limit()).status == 0
    assert {cached("kernels", optimization=f".opt-{level}") for level in (1, 2)} <= installed.written()
    installed.join()
    for options in ("-q", "-O", "-OO"):
        assert installed.says("import engine.kernels as k; print(k.LIMIT)", options) == "39321"


def test_mode_and_owner_stay_and_hard_links_are_not_followed(installed):
    kernels = installed.site / "engine/kernels.py"
    kernels.chmod(0o640)
    os.chown(kernels, 4321, 4322)
    os.link(kernels, installed.top / "cache.py")
    assert installed.edit(limit()).status == 0
    state = (installed.out / kernels.relative_to("/")).stat()
    assert (state.st_mode & 0o7777, state.st_uid, state.st_gid) == (0o640, 4321, 4322)
    assert (installed.top / "cache.py").read_text() == "LIMIT = 32768\n"


def test_a_tree_below_a_root_that_is_not_this_one_is_edited_at_its_absolute_paths(installed):
    root = installed.top / "srv"
    shutil.copytree(installed.site, root / installed.site.relative_to("/"))
    shutil.copytree(root, installed.out)  # the stage of a component has the whole tree there already
    assert installed.edit(limit(), root=root).status == 0
    place = installed.out / installed.site.relative_to("/")
    assert (place / "engine/kernels.py").read_text() == "LIMIT = 39321\n"
    assert (root / installed.site.relative_to("/") / "engine/kernels.py").read_text() == "LIMIT = 32768\n"
    assert installed.report()["patches"][0]["path"] == str(installed.site / "engine/kernels.py")
    require_record(place)


@pytest.mark.parametrize("way", ["path", "finder"])
def test_an_editable_installation_is_found_where_it_is_imported_from(installed, way):
    source = installed.top / "source"
    (source / "editable").mkdir(parents=True)
    (source / "editable/__init__.py").write_text("LIMIT = 32768\n")
    if way == "path":
        (installed.site / "editable.pth").write_text(f"{source}\n")
    else:
        (installed.site / "finding.py").write_text(
            "import sys, importlib.util as u\nclass F:\n def find_spec(self, name, path=None, target=None):\n"
            f"  return u.spec_from_file_location(name, {str(source / 'editable/__init__.py')!r}) "
            "if name == 'editable' else None\nsys.meta_path.append(F())\n"
        )
        (installed.site / "editable.pth").write_text("import finding\n")
    done = installed.edit(limit("editable/__init__.py"))
    assert done.status == 0, done.stderr
    installed.join()
    assert installed.says("import editable; print(editable.LIMIT)") == "39321"


def test_two_runs_write_the_same_bytes(installed):
    patches = [limit(), Overlay(name="new", file="engine/new.py", content=b"X = {'a', 'b', 'c'}\n")]
    layers = []
    for _ in range(2):
        assert installed.edit(*patches).status == 0
        written = [path for path in installed.out.rglob("*") if path.is_file()]
        layers.append({path.relative_to(installed.out): path.read_bytes() for path in written})
        shutil.rmtree(installed.out)
    assert layers[0] == layers[1]
