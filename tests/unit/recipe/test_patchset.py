"""Patches between recipe and lock: what the lock is asked for, which files they are, and for which pin."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli
import tomli_w

from builder.errors import LockError, PatchError, RecipeError
from builder.lockfile import Lock, asked, differences, dump_lock, gaps, parse_lock
from builder.patchfiles import in_order, own_files, require_unchanged
from builder.patchset import pins_of, require_made_for, unpatched
from builder.project import load_lock
from builder.recipe import Recipe, parse_recipe
from builder.scope import scope_of
from builder.workspace import Workspace

from . import samples
from .kinds_of_patches import COMMIT, TEXT
from .on_disk import OnDisk, on_disk

OTHER = "0123456789abcdef0123456789abcdef01234567"
FILE = "images/probe/recipe.toml"


def recipe(change: Callable[[dict[str, dict[str, Any]]], None] | None = None, text: str = TEXT) -> Recipe:
    """Read the recipe with every kind of patch; `change` edits its patches by name."""
    table = tomli.loads(text)
    if change is not None:
        change({patch["name"]: patch for patch in table["patch"]})
    return parse_recipe(tomli_w.dumps(table), file=FILE, name="probe")


def without(name: str) -> Recipe:
    table = tomli.loads(TEXT)
    table["patch"] = [patch for patch in table["patch"] if patch["name"] != name]
    return parse_recipe(tomli_w.dumps(table), file=FILE, name="probe")


def test_the_lock_is_asked_for_trees_and_files_and_for_nothing_else() -> None:
    wanted = asked(recipe())
    assert {key for key in wanted if key.startswith("patch.")} == {"patch.series", "patch.overlay", "patch.call"}
    assert wanted["patch.call"] == '{"files": ["hooks/b.py"], "target": "sglang"}'
    assert '"place": 1' in wanted["patch.overlay"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("series", lambda patches: patches["series"]["series"].update(order="number")),
        ("overlay", lambda patches: patches["overlay"]["overlay"].update(file="b.py")),
        ("call", lambda patches: patches["call"]["hook"].update(call="hooks/c.py:f")),
    ],
)
def test_a_lock_says_which_patch_is_another_one(name: str, change: Any) -> None:
    lock = samples.lock(recipe())
    assert differences(recipe(), lock) == ()
    (told,) = differences(recipe(change), lock)
    assert told.startswith(f"patch.{name}: locked for ")


@pytest.mark.parametrize(
    "change",
    [
        lambda patches: patches["series"].update(reason="another"),
        lambda patches: patches["call"]["hook"].update(attribute="g"),
        lambda patches: patches["installed"]["edit"].update(replace="3"),
    ],
)
def test_what_changes_no_tree_and_no_file_leaves_the_lock_alone(change: Any) -> None:
    assert differences(recipe(change), samples.lock(recipe())) == ()


def test_a_lock_reads_back_with_its_patches_as_it_was_written() -> None:
    lock = samples.lock(recipe())
    assert parse_lock(dump_lock(lock), file="recipe.lock") == lock
    assert "patch" not in tomli.loads(dump_lock(samples.lock(samples.recipe())))


def test_a_lock_that_lost_its_patches_is_not_whole() -> None:
    lock = samples.lock(recipe())
    plain = {name: source.model_copy(update={"patched": None}) for name, source in lock.source.items()}
    lost = lock.model_copy(update={"patch": lock.patch[1:], "source": plain})
    assert gaps(recipe(), lost) == ("patch.series: nothing is locked", "source.kernels.patched: missing")
    patched = {name: source.model_copy(update={"patched": "a" * 40}) for name, source in lock.source.items()}
    of = samples.recipe()
    assert gaps(of, samples.lock(of).model_copy(update={"source": patched})) == (
        "source.kernels.patched: no patch is for it",
    )


def test_a_series_for_another_pin_is_refused_with_both() -> None:
    of = recipe(lambda patches: patches["series"]["series"].update({"made-for": OTHER}))
    with pytest.raises(PatchError) as failure:
        require_made_for(of, pins_of(of, {}), file=FILE)
    assert failure.value.message == (
        f"{FILE}: patch.series.series.made-for: made for kernels {OTHER}, the recipe pins {COMMIT}"
    )
    assert failure.value.exit_code == 4


@pytest.mark.parametrize(
    ("source", "pin"),
    [
        ({"sdist": "kernels", "version": "1.0"}, "1.0"),
        ({"archive": "https://example.org/k.tar.gz", "sha256": "ab" * 32}, "ab" * 32),
        ({"path": "kernels"}, "cd" * 32),
    ],
)
def test_a_series_is_made_for_what_its_kind_of_source_is_pinned_to(source: dict[str, str], pin: str) -> None:
    table = tomli.loads(TEXT)
    table["source"]["kernels"] = source
    table["patch"][0]["series"]["made-for"] = pin
    of = parse_recipe(tomli_w.dumps(table), file=FILE, name="probe")
    assert pins_of(of, {"kernels": "cd" * 32}) == {"kernels": pin}
    require_made_for(of, pins_of(of, {"kernels": "cd" * 32}), file=FILE)


def test_nothing_is_said_of_a_folder_that_was_never_locked() -> None:
    table = tomli.loads(TEXT)
    table["source"]["kernels"] = {"path": "kernels"}
    table["patch"][0]["series"]["made-for"] = "ab" * 32
    of = parse_recipe(tomli_w.dumps(table), file=FILE, name="probe")
    require_made_for(of, pins_of(of, {}), file=FILE)


def test_only_what_a_probe_compares_is_made_without_its_patches() -> None:
    assert [component.name for component in unpatched(recipe())] == ["sglang"]
    assert unpatched(without("installed")) == ()


def test_a_series_is_in_the_order_of_its_names_or_of_its_numbers() -> None:
    names = ["10-a.patch", "9-b.patch", "09-a.patch", "a.patch"]
    assert in_order(names, "name") == ("09-a.patch", "10-a.patch", "9-b.patch", "a.patch")
    assert in_order(names, "number") == ("a.patch", "09-a.patch", "9-b.patch", "10-a.patch")


@pytest.fixture
def state(tmp_path: Path) -> OnDisk:
    made = on_disk(tmp_path, TEXT)
    made.prepared()
    return made


def refused(state: OnDisk) -> LockError:
    workspace = Workspace(root=state.root)
    with pytest.raises(LockError) as failure:
        load_lock(workspace, parse_recipe(workspace.recipe("probe").read_text(), file=FILE, name="probe"))
    assert failure.value.exit_code == 3
    assert failure.value.hint == "rocm-images lock probe"
    return failure.value


@pytest.mark.parametrize(
    "name", ["patches/probe/0001-series.patch", "images/probe/overlays/a.py", "images/probe/hooks/b.py"]
)
def test_a_patch_file_that_changed_since_the_lock_is_refused_with_both_hashes(state: OnDisk, name: str) -> None:
    path = state.root / name
    old = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_text("another text")
    now = hashlib.sha256(b"another text").hexdigest()
    failure = refused(state)
    assert failure.message == "images/probe/recipe.lock: patch files changed since the lock was made"
    (line,) = failure.details
    assert line.endswith(f": locked {old}, found {now}")


def test_a_patch_file_that_is_new_in_the_folder_of_a_series_is_refused(state: OnDisk) -> None:
    (state.root / "patches/probe/0003-more.patch").write_text("")
    (line,) = refused(state).details
    assert line.startswith("patch series: patches/probe/0003-more.patch: locked no such file, found ")


def test_a_patch_file_that_went_away_is_refused(state: OnDisk) -> None:
    (state.root / "patches/probe/0002-series.patch").unlink()
    (line,) = refused(state).details
    assert line.endswith(", found no such file")


def test_what_is_no_file_of_a_series_is_left_alone(state: OnDisk) -> None:
    (state.root / "patches/probe/README.md").write_text("about this series")
    workspace = Workspace(root=state.root)
    require_unchanged(workspace, recipe(), Lock.model_validate(state.lock))


def test_a_series_without_files_is_told_with_its_key(state: OnDisk) -> None:
    workspace = Workspace(root=state.root)
    of = recipe(lambda patches: patches["series"]["series"].update(pattern="*.diff"))
    with pytest.raises(RecipeError, match=r"patch\.series\.series\.pattern: no file in 'patches/probe' matches"):
        own_files(workspace, of, of.patch[0])
    of = recipe(lambda patches: patches["series"]["series"].update(directory="patches/other"))
    with pytest.raises(RecipeError, match=r"series\.directory: there is no folder 'patches/other'"):
        own_files(workspace, of, of.patch[0])


def test_a_patch_file_that_is_a_link_is_refused(state: OnDisk) -> None:
    path = state.root / "images/probe/overlays/a.py"
    path.unlink()
    path.symlink_to("/etc/passwd")
    of = recipe()
    with pytest.raises(RecipeError, match=r"patch\.overlay\.overlay: there is no plain file 'overlays/a\.py'"):
        own_files(Workspace(root=state.root), of, of.patch[1])


def test_an_update_of_a_source_makes_its_patches_anew_and_keeps_the_others() -> None:
    old = samples.lock(recipe())
    assert scope_of(recipe(), old, "kernels").patches == {"series", "overlay"}
    assert scope_of(recipe(), old, "sglang").patches == {"installed", "value", "call"}
    assert scope_of(recipe(), old, "debian").patches == frozenset()


def test_an_update_of_the_source_of_a_series_makes_what_it_patches_anew() -> None:
    table = tomli.loads(TEXT)
    table["source"]["fork"] = {"git": "https://git.example/fork", "branch": "main", "commit": OTHER}
    table["patch"][0]["series"]["source"] = "fork"
    of = parse_recipe(tomli_w.dumps(table), file=FILE, name="probe")
    scope = scope_of(of, samples.lock(of), "fork")
    assert scope.sources == {"fork", "kernels"}
    assert scope.patches == {"series", "overlay"}


def test_an_update_forgets_the_patches_that_its_source_no_longer_has() -> None:
    old = samples.lock(recipe())
    scope = scope_of(without("overlay"), old, "kernels")
    assert "patch.overlay" not in scope.asked
    kept = scope_of(without("overlay"), old, "debian")
    assert "patch.overlay" in kept.asked  # the tree still has it, and the lock goes on to say so
