"""The record of a published image: layers by owner, the same text for the same content, and no trust in damage."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.errors import LockError
from builder.plan import Known
from builder.publishtable import Publish
from builder.record import LayerEntry, dump, owned_layers, parse_pin, parse_state, pin, renewed, state
from builder.schema import pin_schema

from ..recipe import samples

DIGEST = "sha256:" + "ab" * 32
SMOKE = {
    "tiers": {"cpu": "passed", "gpu": "not run"},
    "tests": {"hash extension compiles": "passed", "a card is there": "not run"},
}


def record(**changed: Any) -> dict[str, Any]:
    recipe = samples.recipe()
    lock = samples.lock(recipe)
    layers = owned_layers(
        [(f"sha256:{number:064x}", number) for number in range(1, 6)], ("packages", "triton", "manifest")
    )
    given = {
        "reference": f"127.0.0.1:5000/x/probe:1-abc@{DIGEST}", "digest": DIGEST, "content_key": "c" * 64,
        "test_key": "7" * 64, "lock_hash": "1" * 64, "fingerprint": "f" * 16, "layers": layers,
        "smoke": SMOKE, "patches": [],
    }  # fmt: skip
    return pin(recipe, lock, **{**given, **changed})


@given(st.lists(st.text(min_size=1, max_size=5), max_size=6), st.integers(min_value=0, max_value=5))
def test_layers_belong_to_their_owners_from_the_top_and_to_the_base_below(owners: list[str], below: int) -> None:
    blobs = [(f"sha256:{number:064x}", number) for number in range(below + len(owners))]
    layers = owned_layers(blobs, owners)
    assert [layer.owner for layer in layers] == ["base"] * below + owners
    assert [(layer.digest, layer.size) for layer in layers] == blobs


def test_more_owners_than_layers_are_a_bug_and_no_record() -> None:
    with pytest.raises(ValueError, match="2 owners for 1 layers"):
        owned_layers([(DIGEST, 1)], ("packages", "manifest"))


def test_a_record_is_what_its_schema_says() -> None:
    jsonschema.Draft7Validator(pin_schema()).validate(json.loads(dump(record())))


@pytest.mark.parametrize(
    "changed",
    [
        {"digest": "sha256:ab"},
        {"reference": "probe:1"},
        {"fingerprint": "no hash"},
        {"smoke": {"tiers": {"cpu": "failed"}, "tests": {}}},
        {"smoke": {"tiers": {}, "tests": {}}},
        {"layers": [LayerEntry(owner="base", digest=DIGEST, size=-1)]},
    ],
)
def test_a_record_that_should_not_be_is_against_its_schema(changed: dict[str, Any]) -> None:
    assert list(jsonschema.Draft7Validator(pin_schema()).iter_errors(json.loads(dump(record(**changed)))))


def test_the_same_image_gives_the_same_record_whatever_the_order_of_its_parts() -> None:
    turned = {key: dict(reversed(part.items())) for key, part in reversed(SMOKE.items())}
    assert dump(record()) == dump(record(smoke=turned))
    table = record()
    assert dump(dict(reversed(table.items()))) == dump(table)
    assert dump(table).endswith("}\n")


def test_a_record_names_what_deployments_need_and_no_time_or_place() -> None:
    table = record()
    assert table["reference"] == f"127.0.0.1:5000/x/probe:1-abc@{DIGEST}"
    assert table["size"] == 15
    assert {stage: base["debian"] for stage, base in table["bases"].items()} == {
        "build": "trixie", "runtime": "trixie",
    }  # fmt: skip
    assert table["tags"] == ["1-abc"]
    assert [layer["owner"] for layer in table["layers"]] == ["base", "base", "packages", "triton", "manifest"]
    keys = set(json.loads(dump(table)))
    assert not keys & {"time", "date", "created", "duration", "host", "path", "log"}


def test_a_record_read_back_is_the_record() -> None:
    text = dump(record())
    assert parse_pin(text, file="pins/probe.json") == json.loads(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "pins/probe.json: damaged, this is no JSON"),
        ("[1", "pins/probe.json: damaged, this is no JSON"),
        ("3", "pins/probe.json: damaged, this is no table"),
        ("{}", "pins/probe.json: schema: expected 2, the format of this version, got None"),
        ('{"schema": 1}', "pins/probe.json: schema: expected 2, the format of this version, got 1"),
        ('{"schema": 2, "reference": null}', "pins/probe.json: not a record this version can read"),
    ],
)
def test_a_damaged_record_is_refused(text: str, message: str) -> None:
    with pytest.raises(LockError) as failure:
        parse_pin(text, file="pins/probe.json")
    assert failure.value.message == message
    assert failure.value.hint == "rocm-images build probe --publish HOST/NAMESPACE"


def test_a_state_read_back_is_what_is_known() -> None:
    text = state(inputs={"uv": '"1"'}, content_key="c", test_key="t", digest=DIGEST, passed=True)
    known = Known(inputs={"uv": '"1"'}, content_key="c", test_key="t", digest=DIGEST, passed=True)
    assert parse_state(text, file="state.json") == known


STATE = {"inputs": {}, "content_key": "c", "test_key": "t", "digest": "d", "passed": True}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        json.dumps({"inputs": {}}),
        json.dumps(STATE | {"more": 1}),
        json.dumps(STATE | {"inputs": []}),
        json.dumps(STATE | {"inputs": {"uv": 1}}),
        json.dumps(STATE | {"digest": None}),
        json.dumps(STATE | {"passed": "yes"}),
    ],
)
def test_a_damaged_state_is_refused(text: str) -> None:
    with pytest.raises(LockError) as failure:
        parse_state(text, file="dist/probe/state.json")
    assert failure.value.message.startswith(
        ("dist/probe/state.json: damaged", "dist/probe/state.json: not a state")
    )
    assert failure.value.hint == "rm dist/probe/state.json"


def test_the_tags_are_those_of_the_recipe_of_today_and_a_move_counts_where_it_was_made() -> None:
    recipe = samples.recipe()
    nightly = recipe.model_copy(update={"publish": Publish.model_validate({"moving-tags": ["nightly"]})})
    before = record(tags=["edge"], moved_from=f"sha256:{'9' * 64}")
    assert (before["tags"], before["moved-from"]) == (["1-abc", "edge"], f"sha256:{'9' * 64}")
    here = renewed(before, nightly, {}, reference=before["reference"])
    assert (here["tags"], here["moved-from"]) == (["1-abc", "nightly"], before["moved-from"])
    there = renewed(before, recipe, {}, reference=f"oci:probe:1-abc@{DIGEST}")
    assert (there["tags"], there["moved-from"]) == (["1-abc"], None)
