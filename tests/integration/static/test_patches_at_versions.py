"""The command `patches` on the trees of real engines: what is needed, redundant, in the way or gone."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from builder import process
from builder.errors import PatchError
from builder.mirrors import load_mirrors
from builder.process import Completed
from builder.project import tree_hash
from builder.sources.index import LockedFile, fetch_wheels
from builder.sources.store import Store
from builder.story import Silent
from builder.workspace import Workspace

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[3]
COMMAND = Path(sys.executable).with_name("rocm-images")
SGLANG = LockedFile(
    project="sglang", filename="sglang-0.5.16-cp312-cp312-manylinux_2_34_x86_64.whl",
    sha256="b8ed16e72c7d6a643e31ba52e3ff106439e9dbb78543950e4c810158b826ea8e",
)  # fmt: skip
WORDS = {"reason": "tried", "upstream": "https://git.example/1", "drop-when": "upstream has it"}
ATTENTION = "vllm.v1.attention.backends.rocm_aiter_unified_attn"
BACKEND = "RocmAiterUnifiedAttentionBackend"
KERNEL = "vllm.model_executor.kernels.linear.mixed_precision.rdna_hybrid_w4a16"
# The source of the method that 0.28.0 inherits.
INHERITED = "11253e7b28ce26fbee9eb93abdced3431a4af00183897cd1847d26e40be5f58c"
CONNECTOR = {
    "name": "kv-connector", "target": "vllm", **WORDS,
    "hook": {
        "module": ATTENTION, "attribute": f"{BACKEND}.supports_kv_connector", "expect-source": INHERITED,
        "call": "hooks/backend.py:supports",
    },
    "probe": {
        "module": ATTENTION, "expression": f"{BACKEND}.supports_kv_connector()", "before": False, "after": True,
    },
}  # fmt: skip
LDS = {
    "name": "lds", "target": "vllm", **WORDS,
    "hook": {"module": KERNEL, "attribute": "LDS_CAPACITY_ELEMENTS", "expect": 32768, "value": 39321},
}  # fmt: skip


def recipe(name: str, source: dict[str, Any], patches: list[dict[str, Any]]) -> str:
    """Return a recipe of an engine that is a source."""
    base = {"debian": {"suite": "bookworm"}, "apt": ["python3"]}
    table = {
        "schema": 1, "name": name, "description": "tried", "engine": name, "gfx": ["gfx1201"], "python": "3.11",
        "base": {"build": base, "runtime": base}, "source": {name: source},
        "component": [{"name": name, "source": name, "version": "1", "requires": [], "reason": "tried"}],
        "image": {"cmd": ["python3"]}, "patch": patches,
    }  # fmt: skip
    return tomli_w.dumps(table)


def project(place: Path, name: str, source: dict[str, Any], patches: list[dict[str, Any]]) -> Path:
    """Write a project of one image; it shares this checkout's store of fetched files."""
    folder = place / "images" / name
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(recipe(name, source, patches))
    (folder / "hooks").mkdir()
    (folder / "hooks/backend.py").write_text("def supports(cls):\n    return True\n")
    state = Workspace(root=place).state
    state.mkdir()
    Workspace(root=ROOT).store.mkdir(parents=True, exist_ok=True)
    (state / "store").symlink_to(Workspace(root=ROOT).store)
    return place


def call(root: Path, *words: str, ci: bool = False) -> Completed:
    """Run the command as a shell does."""
    env = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "ROCM_IMAGES_"))}
    return process.run([COMMAND, "--root", root, "patches", *words], env=env | ({"CI": "true"} if ci else {}))


def states(done: Completed) -> dict[str, str]:
    (tree,) = json.loads(done.stdout)["trees"]
    return {patch["name"]: patch["state"] for patch in tree["patches"]}


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the two patches as hooks; both sdists are fetched."""
    root = project(
        tmp_path_factory.mktemp("vllm"), "vllm", {"sdist": "vllm", "version": "0.28.0"}, [CONNECTOR, LDS]
    )
    for words in ((), ("--at", "vllm=0.33.0")):
        done = call(root, "vllm", *words)
        assert done.status == 0, done.stderr
    return root


def test_with_vllm_0_28_0_both_patches_are_needed(vllm: Path) -> None:
    done = call(vllm, "vllm", "--json")
    assert (done.status, states(done)) == (0, {"kv-connector": "applies", "lds": "applies"})
    notes = [note for patch in json.loads(done.stdout)["trees"][0]["patches"] for note in patch["notes"]]
    assert f"probe {ATTENTION}: {BACKEND}.supports_kv_connector() gives false without the patch" in "\n".join(
        notes
    )
    assert f"{KERNEL}.LDS_CAPACITY_ELEMENTS is 32768 as expected" in "\n".join(notes)


def test_with_vllm_0_33_0_the_connector_patch_is_redundant_and_the_other_is_needed(vllm: Path) -> None:
    done = call(vllm, "vllm", "--at", "vllm=0.33.0", "--json")
    assert (done.status, states(done)) == (0, {"kv-connector": "redundant", "lds": "applies"})
    spoken = call(vllm, "vllm", "--at", "vllm=0.33.0")
    assert "vllm: 2 patches on vllm 0.33.0, pinned is 0.28.0\n" in spoken.stdout
    assert (
        "gives true without the patch, in vllm/v1/attention/backends/rocm_aiter_unified_attn.py:" in spoken.stdout
    )
    assert "warning: kv-connector is redundant" in spoken.stderr


@pytest.mark.parametrize(
    ("image", "at", "states_there"),
    [
        ("vllm-debian", (), {"kv-connector": "applies", "skinny-gate": "applies"}),
        ("vllm-debian", ("--at", "vllm=0.33.0"), {"kv-connector": "redundant", "skinny-gate": "applies"}),
        ("vllm-debian-patched", (), {"kv-connector": "applies", "skinny-gate": "applies"}),
        # The text around the constant has changed, and its value has not: the patch has to be made anew.
        (
            "vllm-debian-patched",
            ("--at", "vllm=0.33.0"),
            {"kv-connector": "redundant", "skinny-gate": "conflicts"},
        ),
    ],
)
def test_the_images_of_this_repository_are_judged_as_they_are_pinned_and_at_the_next_version(
    image: str, at: tuple[str, ...], states_there: dict[str, str]
) -> None:
    done = call(ROOT, image, *at, "--json", "--no-suggest")
    assert states(done) == states_there, done.stderr
    assert done.status == (PatchError.exit_code if "conflicts" in states_there.values() else 0)
    for patch in json.loads(done.stdout)["trees"][0]["patches"]:
        if patch["state"] == "conflicts":
            assert any("the patch is still needed" in note for note in patch["notes"])


def test_in_ci_a_redundant_patch_is_an_error_unless_it_is_acknowledged(vllm: Path, tmp_path: Path) -> None:
    assert call(vllm, "vllm", "--at", "vllm=0.33.0", ci=True).status == PatchError.exit_code
    root = project(
        tmp_path / "p", "vllm", {"sdist": "vllm", "version": "0.28.0"},
        [{**CONNECTOR, "acknowledge-redundant": "the next pin has it"}, LDS],
    )  # fmt: skip
    done = call(root, "vllm", "--at", "vllm=0.33.0", ci=True)
    assert done.status == 0
    assert "  it stays: the next pin has it" in done.stdout


def test_where_a_patch_fails_the_newest_release_that_takes_all_is_found(vllm: Path, tmp_path: Path) -> None:
    wrong = {**LDS, "name": "wrong", "hook": {**LDS["hook"], "attribute": "LDS_CAPACITY"}}
    root = project(tmp_path / "p", "vllm", {"sdist": "vllm", "version": "0.28.0"}, [LDS, wrong])
    done = call(root, "vllm", "--json", "--no-suggest")
    assert (done.status, states(done)) == (4, {"lds": "applies", "wrong": "target-missing"})
    assert "tried" not in json.loads(done.stdout)["trees"][0]
    fits = {**LDS, "name": "moved", "hook": {**LDS["hook"], "expect": 32768, "value": 1}}
    root = project(tmp_path / "q", "vllm", {"sdist": "vllm", "version": "0.28.0"}, [fits])
    folder = tmp_path / "tree" / KERNEL.rpartition(".")[0].replace(".", "/")
    folder.mkdir(parents=True)
    (folder / "rdna_hybrid_w4a16.py").write_text("LDS_CAPACITY_ELEMENTS = 16384\n")
    done = call(root, "vllm", "--at", f"vllm={tmp_path / 'tree'}", "--json")
    (tree,) = json.loads(done.stdout)["trees"]
    assert (done.status, states(done)) == (4, {"moved": "conflicts"})
    assert tree["patches"][0]["conflicts"][0]["reason"] == (
        f"{KERNEL}.LDS_CAPACITY_ELEMENTS is 16384, expected 32768"
    )
    assert tree["newest-that-takes-all"] == tree["tried"][0]["version"]
    assert tree["tried"][0]["failing"] == []


def test_a_name_or_version_that_is_none_is_refused(vllm: Path) -> None:
    done = call(vllm, "vllm", "--at", "vlm=0.33.0")
    assert done.status == 2
    assert "error: --at vlm: no patch of vllm is about 'vlm'; did you mean 'vllm'?" in done.stderr
    done = call(vllm, "vllm", "--at", "vllm=0.33")
    assert done.status in (0, 3)  # 0.33 is 0.33.0
    done = call(vllm, "vllm", "--at", "vllm=0.0.0")
    assert done.status == 3
    assert "there is no sdist of vllm 0.0.0" in done.stderr
    assert call(vllm, "vllm", "--at", "vllm").status == 2


# 60 patches on SGLang


class Generated:
    """A tree of SGLang 0.5.16 and a series for it, of which it is known what becomes of each patch."""

    def __init__(self, root: Path, tree: Path) -> None:
        self.root, self.tree = root, tree
        self.expected: dict[str, str] = {}
        self.series = root / "patches/sglang"
        self.series.mkdir(parents=True)
        self._work = root / "work"

    def add(self, path: str, before: bytes, after: bytes, state: str) -> Path:
        """Add what git makes of two versions of a file."""
        for side, data in (("a", before), ("b", after)):
            file = self._work / side / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        name = f"{len(self.expected) + 1:04}-{path.rpartition('/')[2]}.patch"
        words = ["git", "diff", "--no-index", "--no-prefix", f"--output={self.series / name}", "a", "b"]
        process.run(words, cwd=self._work)
        shutil.rmtree(self._work)
        self.expected[f"patches/sglang/{name}"] = state
        return self.series / name


def candidates(tree: Path) -> Iterator[tuple[str, list[bytes], int]]:
    """Yield Python files with the index of a line in the middle that a comment can go above, always the same."""
    paths = sorted(tree.rglob("*.py"))
    random.Random(16).shuffle(paths)
    for path in paths:
        lines = path.read_bytes().splitlines(keepends=True)
        fitting = [
            at for at in range(8, len(lines) - 8)
            if lines[at].startswith((b"def ", b"class ")) and len({*lines[at - 4 : at + 4]}) > 5
        ]  # fmt: skip
        if fitting and b"\r" not in path.read_bytes():
            yield path.relative_to(tree).as_posix(), lines, fitting[len(fitting) // 2]


def inserted(lines: list[bytes], at: int, *new: bytes) -> bytes:
    return b"".join([*lines[:at], *new, *lines[at:]])


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    place = tmp_path_factory.mktemp("sglang")
    store = Store(Workspace(root=ROOT).store)
    wheel = fetch_wheels([SGLANG], store=store, mirrors=load_mirrors(ROOT), story=Silent())[SGLANG.sha256]
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(place / "tree")
    series = {"directory": "patches/sglang", "made-for": tree_hash(place / "tree")}
    patch = {"name": "sixty", "target": "sglang", **WORDS, "series": series}
    root = project(place / "project", "sglang", {"path": "tree"}, [patch])
    tree = (place / "tree").rename(root / "images/sglang/tree")
    made = Generated(root, tree)
    kinds = ["applies"] * 50 + ["conflicts"] * 5 + ["missing"] * 2 + ["redundant"] * 2 + ["fuzz"]
    random.Random(60).shuffle(kinds)
    for kind, (path, lines, at) in zip(kinds, candidates(tree), strict=False):
        whole = b"".join(lines)
        match kind:
            case "applies":
                made.add(path, whole, inserted(lines, at, b"# changed\n", b"# twice\n"), "applies")
            case "conflicts":
                other = [*lines[: at - 1], b"# other\n", *lines[at - 1 :]]
                changed = [*other[:at], b"# changed\n", *other[at + 1 :]]
                made.add(path, b"".join(other), b"".join(changed), "conflicts")
            case "missing":
                made.add(f"{path}.gone", whole, inserted(lines, at, b"# changed\n"), "target-missing")
            case "redundant":
                without = [*lines[:at], *lines[at + 1 :]]
                made.add(path, b"".join(without), whole, "redundant")
            case _:
                far = [*lines[: at - 3], b"# other\n", *lines[at - 2 :]]
                file = made.add(path, b"".join(far), inserted(far, at, b"# changed\n"), "conflicts")
                assert loosely(tree, file, "-C2"), "with less context git would place it"
                assert not loosely(tree, file)
    assert len(made.expected) == 60
    return made


def loosely(tree: Path, patch: Path, *options: str) -> bool:
    words = ["git", "apply", "--check", *options, patch]
    return process.run(words, cwd=tree, env={"GIT_CEILING_DIRECTORIES": "/", "GIT_DIR": "/nowhere"}).status == 0


def test_of_60_patches_on_sglang_exactly_those_are_named_that_do_not_apply(
    generated: Generated, snapshot: Callable[[Path], dict[str, tuple[bytes, float, int]]]
) -> None:
    before = snapshot(generated.tree)
    done = call(generated.root, "sglang", "--json")
    assert done.status == PatchError.exit_code
    (tree,) = json.loads(done.stdout)["trees"]
    (series,) = tree["patches"]
    found = {file["name"]: file["state"] for file in series["files"]}
    assert found == generated.expected
    assert list(found) == sorted(found)
    counts = {state: list(found.values()).count(state) for state in set(found.values())}
    assert counts == {"applies": 50, "conflicts": 6, "target-missing": 2, "redundant": 2}
    reasons = [c["reason"] for file in series["files"] for c in file.get("conflicts", []) if c["hunk"]]
    assert len(reasons) == 6
    assert sum("only with a fuzz of" in reason for reason in reasons) >= 1
    assert snapshot(generated.tree) == before

    spoken = call(generated.root, "sglang")
    named = [line.split(":")[0].strip() for line in spoken.stdout.splitlines() if line.startswith("  patches/")]
    assert named == [name for name, state in generated.expected.items() if state != "applies"]
    assert (
        "sixty: conflicts (series for sglang: 60 files, 50 applies, 2 redundant, 6 conflicts, 2 target-missing)"
        in (spoken.stdout)
    )
    assert spoken.stdout.count("    actual ") >= 6


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, tuple[bytes, float, int]]]:
    """Return contents, dates and modes of all files of a folder."""

    def taken(folder: Path) -> dict[str, tuple[bytes, float, int]]:
        return {
            str(path): (path.read_bytes(), path.stat().st_mtime, path.stat().st_mode)
            for path in folder.rglob("*")
            if path.is_file()
        }

    return taken
