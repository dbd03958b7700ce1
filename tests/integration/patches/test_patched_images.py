"""Patches of every kind, from the recipe into an image that was really built, and those that must not be in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import docker
import pytest

from ..project import Ended, Project
from .conftest import Patches, local, patch_of, said_in

pytestmark = pytest.mark.engine

READ = """
import json, os, toy.limits, toy.backend, toy.table, packaging
print(json.dumps({
    "area": toy.limits.area(), "capacity": toy.limits.CAPACITY, "room": toy.limits.room(),
    "supports": toy.backend.Backend.supports(), "inherited": toy.backend.Base.supports(), "rows": toy.table.ROWS,
    "license": packaging.__license__, "next": os.path.exists(os.path.dirname(toy.__file__) + "/next.py"),
    "old": os.path.exists(os.path.dirname(toy.__file__) + "/old.py"), "uid": os.getuid(),
}))
"""
LEDGER = "print(open('/usr/share/rocm-images/patches.json').read())"
STATES = dict.fromkeys(("deeper", "wider", "rows", "license", "capacity", "supports"), "effective")
EDIT = {"file": "toy/limits.py", "find": "WIDTH = 8", "replace": "WIDTH = 16"}
HOOK = {"module": "toy.limits", "attribute": "CAPACITY", "expect": 32768, "value": 39321}


def test_every_patch_has_its_effect_in_the_image_for_its_user(
    built: tuple[Project, Ended], engine: docker.DockerClient
) -> None:
    project, ended = built
    assert said_in(engine, ended.result, READ) == {
        "area": 32, "capacity": 39321, "room": 39321, "supports": True, "inherited": False, "rows": ["one", "two"],
        "license": "patched", "next": True, "old": False, "uid": 1000,
    }  # fmt: skip
    tests = json.loads(project.workspace.pin("patched").read_text())["smoke"]["tests"]
    named = {name for name in tests if "patch" in name or "hook" in name}
    assert len(named) == 14
    assert {tests[name] for name in named} == {"passed"}


def test_the_ledger_is_in_the_image_the_labels_the_manifest_and_the_record(
    built: tuple[Project, Ended], engine: docker.DockerClient
) -> None:
    project, ended = built
    ledger = said_in(engine, ended.result, LEDGER)
    assert {patch["name"]: patch["state"] for patch in ledger["patches"]} == STATES
    capacity = next(patch for patch in ledger["patches"] if patch["name"] == "capacity")
    assert capacity["probe"]["found"] == {"before": 32768, "after": 39321}
    series = next(patch for patch in ledger["patches"] if patch["name"] == "deeper")
    assert [(file["state"], file["hunks"]) for file in series["files"]] == [("applies", 2), ("applies", 1)]
    assert "reason" not in capacity  # a word of the recipe would make another image of the same bytes
    record = json.loads(project.workspace.pin("patched").read_text())
    words = ("reason", "upstream", "drop-when")
    assert [{k: v for k, v in each.items() if k not in words} for each in record["patches"]] == ledger["patches"]
    assert all(each[word] for each in record["patches"] for word in words)
    label = json.loads(engine.images.get(ended.result).labels["rocm-images.patches"])
    assert {each["name"]: (each["state"], each["sha256"]) for each in label} == {
        each["name"]: (each["state"], each["sha256"]) for each in ledger["patches"]
    }
    manifest = said_in(engine, ended.result, LEDGER.replace("patches.json", "manifest.json"))
    assert [each["name"] for each in manifest["patches"]] == list(STATES)
    lock = (project.workspace.images / "patched/recipe.lock").read_text()
    assert f'patched = "{manifest["components"][1]["patched"]}"' in lock
    owners = [layer["owner"] for layer in record["layers"]]
    assert owners[-5:] == ["packaging", "toy", "hooks", "manifest", "patches"]


def test_a_build_from_nothing_gives_the_same_digest(built: tuple[Project, Ended]) -> None:
    project, ended = built
    again = project.build("patched", "--no-cache")
    assert again.status == 0, again.stderr
    assert again.result == ended.result


@pytest.mark.parametrize(
    ("name", "probe", "line"),
    [
        (
            "deeper", {"after": 33},
            "patch.deeper: area() of toy.limits with the patch: expected 33, found 32",
        ),
        (
            "rows", {"before": ["zero"]},
            'patch.rows: ROWS of toy.table without the patch: expected ["zero"], found ["one"]',
        ),
        (
            "license", {"expression": "__version__"},
            'patch.license: __version__ of packaging with the patch: expected "patched", found "26.4"',
        ),
        (
            "wider", {"before": 8.0},
            "patch.wider: WIDTH of toy.limits without the patch: expected 8.0, found 8",
        ),
        (
            "wider", {"module": "toy.gone"},
            "WIDTH of toy.gone without the patch: expected 8, found no value: ModuleNotFoundError: ",
        ),
    ],
)  # fmt: skip
def test_f41_a_patch_without_the_effect_it_promises_stops_the_build(
    variant: Callable[..., Project], name: str, probe: dict[str, Any], line: str
) -> None:
    project = variant(lambda recipe: patch_of(recipe, name)["probe"].update(probe))
    ended = project.build("patched")
    assert ended.status == 4
    assert f"images/patched/recipe.toml: patch.{name}: " in ended.stderr
    assert line in ended.stderr
    assert project.tags("patched") == []


@pytest.mark.parametrize(
    ("name", "hook"),
    [
        ("capacity", {"expect": 1}),
        ("capacity", {"attribute": "CAPACITIES"}),
        ("supports", {"expect-source": "0" * 64}),
    ],
)
def test_a_hook_that_does_not_fit_stops_the_build(
    variant: Callable[..., Project], name: str, hook: dict[str, Any]
) -> None:
    project = variant(lambda recipe: patch_of(recipe, name)["hook"].update(hook))
    ended = project.build("patched")
    assert ended.status == 4
    assert f"images/patched/recipe.toml: patch.{name}: " in ended.stderr


def test_an_optional_hook_that_does_not_fit_is_skipped_and_the_ledger_says_so(
    variant: Callable[..., Project], engine: docker.DockerClient
) -> None:
    project = variant(lambda recipe: patch_of(recipe, "capacity")["hook"].update(expect=1, optional=True))
    project.done("build", "patched")
    ledger = said_in(engine, local(engine, project, "patched"), LEDGER)
    (capacity,) = [patch for patch in ledger["patches"] if patch["name"] == "capacity"]
    assert capacity["state"] != "effective"
    assert capacity["probe"]["found"] == {"before": 32768, "after": 32768}


def test_f45_a_lock_names_every_patch_that_does_not_apply_and_is_not_written(
    variant: Callable[..., Project],
) -> None:
    def broken(recipe: dict[str, Any]) -> None:
        patch_of(recipe, "wider")["edit"]["find"] = "WIDTH = 9\n"
        patch_of(recipe, "rows")["overlay"]["replaces"] = "0" * 64

    project = variant(broken)
    lock = project.workspace.lock("patched")
    before = lock.read_bytes()
    ended = project.run("lock", "patched")
    assert ended.status == 4
    assert "images/patched/recipe.toml: source.toy: 2 of 4 patches do not apply" in ended.stderr
    assert "wider: conflicts" in ended.stderr
    assert "rows: conflicts" in ended.stderr
    assert lock.read_bytes() == before


def test_f44_a_series_for_another_pin_is_refused_by_every_command(variant: Callable[..., Project]) -> None:
    project = variant(lambda recipe: patch_of(recipe, "deeper")["series"].update({"made-for": "0" * 64}))
    for words in (["lock"], ["check"], ["plan"], ["build"]):
        ended = project.run(*words, "patched")
        assert ended.status == 4, words
        said = ended.stderr + ended.stdout
        assert "patch.deeper.series.made-for: made for toy " + "0" * 64 in said
        assert "the recipe pins ba4de541" in said


def test_a_patch_file_that_changed_since_the_lock_is_refused_by_every_command(
    variant: Callable[..., Project],
) -> None:
    project = variant(lambda recipe: None)
    file = project.workspace.root / "patches/toy/0001-Make-the-toy-deeper.patch"
    file.write_text(file.read_text().replace("DEPTH = 2", "DEPTH = 3"))
    for words in (["lock", "--check"], ["check"], ["plan"], ["build"]):
        ended = project.run(*words, "patched")
        assert ended.status == 3, words
        assert "patch files changed since the lock was made" in ended.stderr + ended.stdout
    project.done("lock", "patched", "--update", "toy")
    project.done("plan", "patched")


def test_a_patched_tree_that_is_not_the_locked_one_is_not_built(variant: Callable[..., Project]) -> None:
    project = variant(lambda recipe: None)
    lock = project.workspace.lock("patched")
    found = next(line for line in lock.read_text().splitlines() if line.startswith("patched = "))
    lock.write_text(lock.read_text().replace(found, f'patched = "{"0" * 40}"'))
    ended = project.run("build", "patched")
    assert ended.status == 3
    assert "source.toy: its patches give another tree than the locked one" in ended.stderr


def test_what_a_published_image_has_installed_is_edited_overlaid_and_hooked(
    above: Callable[[Patches], Project], engine: docker.DockerClient
) -> None:
    edit = {"name": "wider", "edit": EDIT, "probe": {
        "module": "toy.limits", "expression": "WIDTH", "before": 8, "after": 16}}  # fmt: skip
    overlay = {"name": "next", "overlay": {"file": "toy/next.py", "from": "overlays/next.py"}}
    files = {"overlays/next.py": "NEXT = True\n"}
    project = above(Patches(patches=(edit, overlay, {"name": "capacity", "hook": HOOK}), files=files))
    project.done("build", "above")
    image = local(engine, project, "above")
    read = "import json, toy.limits as l, toy.next as n; print(json.dumps([l.area(), l.room(), n.NEXT]))"
    assert said_in(engine, image, read) == [16, 39321, True]
    ledger = said_in(engine, image, LEDGER)
    assert {patch["name"]: patch["state"] for patch in ledger["patches"]} == {
        "wider": "effective", "next": "applies", "capacity": "effective",
    }  # fmt: skip
    check = (
        "import json, importlib.metadata as m; print(json.dumps([f.hash.value for f in m.files('toy') if f.hash]))"
    )
    assert said_in(engine, image, check)  # its RECORD can still be read


REFUSED = {
    "zero times": ("WIDTH = 9", "the text is there zero times"),
    "twice": ("return ", "the text is there twice"),
    "only with other whitespace": ("WIDTH  =  8", "only with other whitespace"),
}


@pytest.mark.parametrize(("find", "reason"), REFUSED.values(), ids=REFUSED)
def test_an_edit_that_does_not_fit_an_installed_tree_stops_the_build(
    above: Callable[[Patches], Project], find: str, reason: str
) -> None:
    project = above(Patches(patches=({"name": "wider", "edit": EDIT | {"find": find}},)))
    ended = project.build("above")
    assert ended.status == 4
    assert "images/above/recipe.toml: patch.wider: toy/limits.py: " in ended.stderr
    assert reason in ended.stderr
    assert project.tags("above") == []


def test_all_edits_that_do_not_fit_are_named_at_once(above: Callable[[Patches], Project]) -> None:
    half = {"name": "half", "edit": EDIT | {"find": "DEPTH = 1\n\n", "replace": "WIDTH = 8\nDEPTH = 3\n"}}
    broken = {"name": "broken", "edit": {"file": "toy/table.py", "find": '"one"]', "replace": '"one"'}}
    gone = {"name": "gone", "edit": {"file": "toy/gone.py", "find": "1", "replace": "2"}}
    project = above(Patches(patches=(half, broken, gone)))
    ended = project.run("build", "above")
    assert ended.status == 4
    for name, reason in (("half", "limits.py"), ("broken", "no Python any more"), ("gone", "no such file")):
        (line,) = [line for line in ended.stderr.splitlines() if f": patch.{name}: " in line]
        assert reason in line


def test_an_edit_with_nothing_left_to_do_is_a_warning_here_and_an_error_in_ci(
    above: Callable[[Patches], Project],
) -> None:
    edit = EDIT | {"find": "WIDTH = 9", "replace": "WIDTH = 8"}
    project = above(Patches(patches=({"name": "wider", "edit": edit},)))
    told = "images/above/recipe.toml: patch.wider: redundant: what it changes is there already"
    ended = project.run("build", "above", env={"CI": "true"})
    assert (ended.status, f"error: {told}" in ended.stderr) == (4, True), ended.stderr
    ended = project.run("build", "above", env={"CI": ""})
    assert (ended.status, f"warning: {told}" in ended.stderr) == (0, True), ended.stderr
    project.edit("above", lambda recipe: patch_of(recipe, "wider").update({"acknowledge-redundant": "on purpose"}))
    ended = project.run("build", "above", env={"CI": "true"})
    assert ended.status == 0, ended.stderr
    assert told not in ended.stderr


def test_a_component_and_an_edit_that_write_the_same_file_are_both_named(
    above: Callable[[Patches], Project],
) -> None:
    overlay = {"name": "next", "overlay": {"file": "toy/next.py", "from": "overlays/next.py"}}
    project = above(Patches(patches=(overlay,), files={"overlays/next.py": "NEXT = True\n", "more/next.py": ""}))
    folder = "{destdir}/usr/local/lib/python3.13/dist-packages/toy"

    def with_another(recipe: dict[str, Any]) -> None:
        recipe["source"] = {"more": {"path": "more"}}
        build = [f"mkdir -p {folder}", f"cp next.py {folder}/"]
        recipe["component"].append({"name": "more", "source": "more", "version": "1.0", "build": build})

    project.edit("above", with_another)
    project.done("lock", "above")
    ended = project.build("above")
    assert ended.status == 5
    assert "an edit of the base and component more write the same file: " in ended.stderr
    assert "/dist-packages/toy/next.py" in ended.stderr


def test_hooks_on_an_image_that_has_some_are_refused(above: Callable[[Patches], Project]) -> None:
    project = above(Patches(patches=({"name": "capacity", "hook": HOOK},)))

    def hooked(recipe: dict[str, Any]) -> None:
        words = {"target": "toy", "reason": "r", "upstream": "https://git.example/1", "drop-when": "w"}
        recipe["patch"] = [{"name": "below", "hook": HOOK, **words}]

    project.edit("plain", hooked)
    ended = project.run("plan", "above")
    assert ended.status == 2
    assert "patch.capacity.hook: image plain has hooks already: below" in ended.stderr
