"""The lock: read back it is the same, damaged it is refused, and one for another recipe says what differs."""

from __future__ import annotations

from typing import Any

import pytest
import tomli
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from builder.errors import LockError
from builder.lockfile import (
    DebianPackage,
    Lock,
    LockedSource,
    PythonFile,
    asked,
    canonical,
    differences,
    dump_lock,
    gaps,
    parse_lock,
    require_fit,
)

from . import samples

FILE = "images/probe/recipe.lock"
OLD, NEW = (f'{{"version": "{version}", "wheel": "triton"}}' for version in ("3.6.0", "3.7.0"))
HASHES = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
WORDS = st.text(max_size=30)
SIZES = st.integers(min_value=0, max_value=2**62)
LOCKS = st.builds(
    Lock,
    schema=st.just(1),
    image=WORDS,
    epoch=st.integers(min_value=0, max_value=253402300799),
    asked=st.dictionaries(WORDS, WORDS, max_size=4),
    source=st.dictionaries(WORDS, st.builds(LockedSource, tree=HASHES), max_size=3),
    deb=st.lists(
        st.builds(
            DebianPackage, name=WORDS, version=WORDS, file=WORDS, size=SIZES, sha256=HASHES,
            stage=st.sampled_from(["base", "build", "runtime", "both"]),
        ),
        max_size=3,
    ).map(tuple),
    python=st.lists(
        st.builds(
            PythonFile, project=WORDS, version=WORDS, file=WORDS, size=st.none() | SIZES, sha256=HASHES,
            index=st.none() | WORDS, layer=WORDS,
        ),
        max_size=3,
    ).map(tuple),
)  # fmt: skip

KEYS = ("asked", "base", "deb", "epoch", "image", "inventory", "patch", "python", "schema", "source")


def refused(text: str) -> LockError:
    with pytest.raises(LockError) as failure:
        parse_lock(text, file=FILE)
    assert failure.value.exit_code == 3
    assert failure.value.hint == "make it again with: rocm-images lock"
    return failure.value


@given(LOCKS)
def test_a_lock_written_and_read_is_the_same(lock: Lock) -> None:
    text = dump_lock(lock)
    assert parse_lock(text, file=FILE) == lock
    assert dump_lock(parse_lock(text, file=FILE)) == text


def test_a_lock_says_who_wrote_it_and_nothing_of_the_machine() -> None:
    text = dump_lock(samples.lock(samples.recipe()))
    assert text.startswith("# Written by `rocm-images lock`; do not edit.")
    assert "://" not in text


def test_a_lock_cut_anywhere_is_refused_or_found_not_to_be_whole() -> None:
    recipe = samples.recipe()
    lines = dump_lock(samples.lock(recipe)).splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.startswith("layer = "))
    for count in range(last + 1):
        with pytest.raises(LockError) as failure:
            require_fit(recipe, parse_lock("".join(lines[:count]), file=FILE), file=FILE)
        assert failure.value.message.startswith(f"{FILE}: ")
    for count in range(len(lines[3]), len("".join(lines)), 97):
        with pytest.raises(LockError):
            require_fit(recipe, parse_lock("".join(lines)[:count], file=FILE), file=FILE)


def test_a_lock_with_the_marks_of_a_merge_is_refused() -> None:
    failure = refused(dump_lock(samples.lock(samples.recipe())) + "<<<<<<< ours\n")
    assert failure.message.startswith(f"{FILE}: not a TOML file, it may have been cut short: ")


@pytest.mark.parametrize(
    ("change", "details"),
    [
        (
            lambda table: table.update(schema=2),
            ("schema: expected 1, the only format this version reads, got the integer 2",),
        ),
        (lambda table: table.update(epoch="now"), ("epoch: expected an integer, got the string 'now'",)),
        (lambda table: table.update(epoch=-1), ("epoch: expected an integer from 0 to 253402300799, got -1",)),
        (
            lambda table: table.update(extra=1),
            ("extra: unknown key; known: " + ", ".join(KEYS),),
        ),
        (
            lambda table: table["deb"][0].update(sha256="ab"),
            ("deb.bash.sha256: expected 64 hex digits, got 'ab'",),
        ),
        (
            lambda table: table["deb"][0].pop("version"),
            ("deb.bash.version: missing; expected a string: version with epoch and revision",),
        ),
        (
            lambda table: table["deb"][0].update(stage="both stages", size=1.5),
            (
                "deb.bash.size: expected an integer, got the number 1.5",
                "deb.bash.stage: expected 'base', 'build', 'runtime' or 'both', got 'both stages'",
            ),
        ),
        (
            lambda table: table.update(python={"triton": "3.6.0"}),
            ("python: expected a list of tables, got a table; write its header in double brackets: [[…]]",),
        ),
        (
            lambda table: table["source"].update(kernels="ab"),
            ("source.kernels: expected a table, got the string 'ab'",),
        ),
    ],
)  # fmt: skip
def test_a_damaged_lock_is_refused_with_every_place(change: Any, details: tuple[str, ...]) -> None:
    table = tomli.loads(dump_lock(samples.lock(samples.recipe())))
    change(table)
    failure = refused(tomli_w.dumps(table))
    assert failure.message == f"{FILE}: not a lock this version can read"
    assert failure.details == details


def test_a_lock_made_for_its_recipe_fits() -> None:
    recipe = samples.recipe()
    lock = samples.lock(recipe)
    assert differences(recipe, lock) == ()
    assert gaps(recipe, lock) == ()
    require_fit(recipe, lock, file=FILE)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('python = "3.13"', 'python = "3.12"', 'python: locked for "3.13", the recipe says "3.12"'),
        (
            'forbid = ["nvidia-*"]',
            "forbid = []",
            'forbid: locked for ["nvidia-*"], the recipe says []',
        ),
        (
            'version = "3.6.0"',
            'version = "3.7.0"',
            f"component.triton: locked for {OLD}, the recipe says {NEW}",
        ),
        (
            'apt = ["g++", "python3"]',
            'apt = ["clang", "python3"]',
            'base.build.apt: locked for ["g++", "python3"], the recipe says ["clang", "python3"]',
        ),
        (
            '[[component]]\nname = "triton"\nwheel = "triton"\nversion = "3.6.0"\n',
            "",
            f"component.triton: locked for {OLD}, the recipe says nothing",
        ),
        (
            'path = "kernels"',
            'path = "other"',
            'source.kernels: locked for {"path": "kernels"}, the recipe says {"path": "other"}',
        ),
    ],
)
def test_a_difference_is_told_in_words_with_both_values(old: str, new: str, expected: str) -> None:
    lock = samples.lock(samples.recipe())
    base = samples.FULL.replace('suite = "trixie"', 'suite = "sid"')  # whose Python nobody knows beforehand
    asked_for = asked(samples.recipe(base))
    changed = samples.recipe(base.replace(old, new).replace('jit = ["triton", "hipcc"]', 'jit = ["hipcc"]'))
    assert differences(changed, lock.model_copy(update={"asked": asked_for})) == (expected,)


def test_a_difference_stops_a_build_and_names_the_command() -> None:
    lock = samples.lock(samples.recipe())
    changed = samples.recipe(samples.FULL.replace('version = "3.6.0"', 'version = "3.7.0"'))
    with pytest.raises(LockError) as failure:
        require_fit(changed, lock, file=FILE)
    assert failure.value.message == f"{FILE}: made for another recipe than the one beside it"
    assert failure.value.details == differences(changed, lock)
    assert failure.value.hint == "rocm-images lock probe"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('description = "Every', 'description = "Nearly every'),
        lambda text: text.replace('reason = "its', 'reason = "because its'),
        lambda text: text.replace("protected = true", "protected = false"),
        lambda text: text.replace('apt = ["g++", "python3"]', 'apt = ["python3", "g++"]'),
        lambda text: text.replace('user = "engine"', 'user = "server"'),
        lambda text: text.replace('imports = ["sglang"]', 'imports = ["torch"]'),
        lambda text: text.replace('"make {offload-arch}"', '"make all {offload-arch}"'),
        lambda text: text.replace('gfx = ["gfx1100", "gfx1201"]', 'gfx = ["gfx1201"]'),
    ],
)
def test_what_the_lock_does_not_answer_leaves_it_fitting(change: Any) -> None:
    lock = samples.lock(samples.recipe())
    require_fit(samples.recipe(change(samples.FULL)), lock, file=FILE)


def test_a_lock_that_lost_entries_names_each_of_them() -> None:
    recipe = samples.recipe()
    lock = samples.lock(recipe)
    broken = lock.model_copy(
        update={
            "image": "other",
            "deb": tuple(deb for deb in lock.deb if deb.name not in ("hipcc", "python3")) + lock.deb[:1],
            "python": tuple(file for file in lock.python if file.project != "triton"),
            "source": {},
        }
    )
    with pytest.raises(LockError) as failure:
        require_fit(recipe, broken, file=FILE)
    assert failure.value.message == f"{FILE}: not whole, it was cut short or edited"
    assert failure.value.details == (
        "base.build.apt: no package python3 for this stage",
        "base.runtime.apt: no package hipcc for this stage",
        "base.runtime.apt: no package python3 for this stage",
        "component.triton: no wheel of triton",
        "deb.bash: more than once",
        "image: made for other, the recipe is probe",
        "source.kernels: no tree",
    )


def test_packages_and_wheels_are_found_by_stage_and_layer() -> None:
    lock = samples.lock(samples.recipe())
    assert [package.name for package in lock.packages("base")] == ["bash"]
    assert [package.name for package in lock.packages("build")] == ["g++", "python3"]
    assert "python3" in [package.name for package in lock.packages("runtime")]
    assert [file.project for file in lock.wheels("dependencies")] == ["numpy"]
    assert lock.wheels("torch") == ()


def test_canonical_json_does_not_know_the_order_of_keys() -> None:
    assert canonical({"b": 1, "a": {"d": "ü", "c": None}}) == '{"a":{"c":null,"d":"ü"},"b":1}'.encode()
    assert canonical({"a": {"c": None, "d": "ü"}, "b": 1}) == canonical({"b": 1, "a": {"d": "ü", "c": None}})
