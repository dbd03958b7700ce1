"""What differs between two sides: what changed is named, what did not is not, what is unknown is called so."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder import compare
from builder.compare import Difference
from builder.compare.pulling import pull
from builder.compare.words import headline, rounded, size
from builder.record import LayerEntry
from builder.schema import diff_schema

from .conftest import GOLDENS, PATCH, Edit, component, much, pair, recorded, triton

SIZES = {
    "base": 40_000_000,
    "packages": 600_000_000,
    "triton": 183_000_000,
    "sglang": 90_000_000,
    "manifest": 2123,
}


def of_locks(edit: Edit | None, before: Edit | None = None) -> Difference:
    return compare.locks(*pair(before), *pair(edit))


def of_records(edit: Edit | None, again: set[str], before: Edit | None = None) -> Difference:
    old = recorded(pair(before), sizes=SIZES, again=frozenset())
    new = recorded(pair(edit), sizes=SIZES, again=frozenset(again))
    return compare.compare(
        compare.of_record(old, label="pins/probe.json"), compare.of_record(new, label="new/probe.json")
    )


def patched(table: dict[str, object]) -> None:
    table["patch"] = [PATCH]


def patched_anew(table: dict[str, object]) -> None:
    table["patch"] = [PATCH | {"edit": {**PATCH["edit"], "replace": "40960"}}]


SITUATIONS = {
    "one-component-of-locks": lambda: of_locks(triton),
    "one-component-of-records": lambda: of_records(triton, {"triton", "manifest"}),
    "everything": lambda: of_locks(much),
    "nothing": lambda: of_records(None, set()),
    "a-patch-that-does-something-else": lambda: of_records(patched_anew, {"sglang", "manifest"}, patched),
    "a-patch-that-is-gone": lambda: of_locks(None, patched),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_difference_is_json_as_its_schema_says(name: str) -> None:
    jsonschema.Draft7Validator(diff_schema()).validate(json.loads(json.dumps(SITUATIONS[name]().plain())))


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_difference_is_told_in_these_words(name: str) -> None:
    difference = SITUATIONS[name]()
    assert compare.text(difference) == (GOLDENS / f"{name}.txt").read_text()
    assert compare.markdown(difference) == (GOLDENS / f"{name}.md").read_text()


def test_a_bump_of_one_component_names_that_component_alone() -> None:
    difference = of_locks(triton)
    assert [each.name for each in difference.changed] == ["triton"]
    assert [each.name for each in difference.unchanged] == ["torch", "kernels", "sglang"]
    assert headline(difference) == "triton 3.6.0 -> 3.7.0"
    assert difference.fingerprint.moved is True
    for group in (difference.bases, difference.packages, difference.distributions, difference.contract):
        assert group == ()


def test_another_file_of_the_same_version_is_a_change() -> None:
    recipe, lock = pair()
    files = [
        file.model_copy(update={"sha256": "0" * 64}) if file.project == "triton" else file for file in lock.python
    ]
    difference = compare.locks(recipe, lock, recipe, lock.model_copy(update={"python": tuple(files)}))
    (changed,) = difference.changed
    assert (changed.name, changed.old, changed.new) == ("triton", "3.6.0", "3.6.0")
    assert [change.key for change in changed.changes] == ["sha256"]
    assert headline(difference) == "triton 3.6.0: content changed"


def test_other_build_commands_are_a_change_between_locks_and_unknown_to_a_record() -> None:
    def faster(table: dict[str, object]) -> None:
        component(table, "kernels")["build"] = ["make FAST=1 DESTDIR={destdir}"]

    assert [each.name for each in of_locks(faster).changed] == ["kernels"]
    record = compare.of_record(recorded(pair(), sizes=SIZES, again=frozenset()), label="record")
    assert compare.compare(record, compare.of_lock(*pair(faster))).changed == ()


def test_what_only_words_changed_of_is_no_difference() -> None:
    def reworded(table: dict[str, object]) -> None:
        table["description"] = "other words"
        table["smoke"] = {"jit": ["hipcc"]}

    assert of_locks(reworded).is_empty


def test_a_record_and_the_lock_it_was_built_from_do_not_differ() -> None:
    record = compare.of_record(recorded(pair(patched), sizes=SIZES, again=frozenset()), label="record")
    difference = compare.compare(replace(record, fingerprint=None), compare.of_lock(*pair(patched)))
    assert difference.changed == ()
    assert {each.status for each in difference.patches or ()} == {"same"}
    assert difference.bases == ()
    assert difference.fingerprint.moved is None
    assert difference.pull.size is None
    assert "to pull       unknown" in compare.text(difference)


def test_the_path_that_a_fingerprint_is_part_of_is_no_change_of_the_contract() -> None:
    recipe, lock = pair()
    contract = {"env": {"KV": "/cache/00ff00ff00ff00ff"}, "user": "engine"}
    table = {"name": "probe", "components": [], "fingerprint": "00ff00ff00ff00ff", "contract": contract}
    side = compare.of_manifest(table, label="image")
    assert side.contract == {"env.KV": "/cache/{fingerprint}", "user": "engine"}
    assert compare.of_lock(recipe, lock).contract is not None


def test_a_difference_is_json_with_every_group() -> None:
    plain = json.loads(json.dumps(of_records(triton, {"triton", "manifest"}).plain()))
    assert plain["pull"]["size"] == 183_002_123
    assert plain["pull"]["size-of-all-above"] == 273_002_123
    assert [(layer["owner"], layer["size"]) for layer in plain["pull"]["layers"]] == [
        ("triton", 183_000_000), ("manifest", 2123),
    ]  # fmt: skip
    assert plain["distributions"] == []
    assert plain["digest"]["moved"] is True
    assert [each["status"] for each in plain["components"]] == ["same", "changed", "same", "same"]


_LAYERS = st.lists(st.integers(min_value=0, max_value=9), max_size=8)


def _stack(numbers: list[int]) -> list[LayerEntry]:
    return [LayerEntry(owner="x", digest=f"sha256:{n:064x}", size=n + 1) for n in numbers]


@given(_LAYERS, _LAYERS)
def test_what_is_pulled_is_what_is_not_there_each_blob_once(old: list[int], new: list[int]) -> None:
    found = pull(_stack(old), _stack(new))
    assert found.size == sum(n + 1 for n in set(new) - set(old))
    assert found.whole == sum(n + 1 for n in set(new))
    assert found.size <= (found.stacked or 0) <= found.whole or found.stacked == found.size
    assert pull(_stack(new), _stack(new)).size == 0


def test_bytes_are_exact_and_rounded_for_people() -> None:
    assert size(999) == "999 bytes"
    assert size(183_002_123) == "183002123 bytes (183.0 MB)"
    assert size(None) == "unknown"
    assert rounded(3_712_345_678) == "3.7 GB"


def test_names_out_of_an_image_break_neither_a_terminal_nor_a_table() -> None:
    table = {"name": "x", "components": [{"name": "a|b\x1b[31m", "version": "1`2", "wheel": "w"}]}
    old = compare.of_manifest({"name": "x", "components": []}, label="old\x1b")
    difference = compare.compare(old, compare.of_manifest(table, label="new"))
    assert "\x1b" not in compare.text(difference) + compare.markdown(difference)
    assert "| a\\|b?\\[31m | | `1'2` | |" in compare.markdown(difference)
