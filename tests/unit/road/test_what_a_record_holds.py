"""What a record holds of recipe and lock: every input, against a golden, and no address with a password."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder import origins
from builder.errors import RecipeError
from builder.lockfile import Lock, LockedSource, LockedSubmodule
from builder.patchledger import entry
from builder.recipe import Recipe
from builder.record import LayerEntry, dump, is_whole, parse_pin, passed, pin, renewed, went_in
from builder.schema import pin_schema

from ..recipe import kinds_of_patches, samples
from ..recipe.kinds_of_pins import BUILT, COMMIT

GOLDEN = Path(__file__).resolve().parents[2] / "data" / "records" / "everything.json"
EVERYTHING = kinds_of_patches.TEXT.replace(
    "[image]\n",
    f'{BUILT}\n[kv-cache]\npage-size = 64\nkv-cache-dtype = "auto"\n\n'
    '[publish]\nmoving-tags = ["nightly"]\n\n[image]\n',
)
DIGEST = f"sha256:{'ab' * 32}"
NAME = "registry.example.org/llm/probe"


def everything() -> tuple[Recipe, Lock]:
    """Return a recipe with every kind of input there is, and its lock as a resolver makes it."""
    recipe = samples.recipe(EVERYTHING)
    lock = samples.lock(recipe)
    wheels = [samples.wheel("setuptools", "release.build", "80.0")]
    sources = lock.source | {
        "engine": LockedSource(
            tree=samples.digest("engine")[:40], commit=COMMIT,
            submodule=(
                LockedSubmodule(path="third_party/x", url="https://me:pw@git.example.org/x", commit=COMMIT),
            ),
        ),
        "release": LockedSource(file="release-1.0.tar.gz", size=1, sha256=samples.digest("release")),
        "archive": LockedSource(size=1, sha256="ab" * 32),
    }  # fmt: skip
    return recipe, lock.model_copy(update={"python": (*lock.python, *wheels), "source": sources})


def record(of: tuple[Recipe, Lock] | None = None, **changed: Any) -> dict[str, Any]:
    recipe, lock = of or everything()
    given = {
        "reference": f"{NAME}:0.5.16-cccccccccccc@{DIGEST}", "digest": DIGEST, "content_key": "c" * 64,
        "test_key": "7" * 64, "lock_hash": "1" * 64, "fingerprint": "f" * 16,
        "layers": [LayerEntry(owner="base", digest=DIGEST, size=7)],
        "smoke": {"tiers": {"cpu": "passed", "gpu": "not run"}, "tests": {"imports": "passed"}},
        "patches": [entry(recipe, lock, patch) for patch in recipe.patch],
        "tags": ("nightly",), "moved_from": f"sha256:{'cd' * 32}", "sbom": {"spdx": DIGEST},
    }  # fmt: skip
    return pin(recipe, lock, **{**given, **changed})


def test_a_record_holds_every_input_as_the_golden_has_it() -> None:
    text = dump(record())
    assert text == GOLDEN.read_text(encoding="utf-8")
    jsonschema.Draft7Validator(pin_schema()).validate(json.loads(text))
    assert is_whole(parse_pin(text, file="pins/probe.json"))


def test_two_runs_give_the_same_bytes() -> None:
    assert dump(record()) == dump(record())


def test_the_sources_have_their_trees_before_and_after_their_patches() -> None:
    sources = record()["sources"]
    assert sources["kernels"] == {
        "git": "https://git.example/kernels", "tag": "v1", "commit": COMMIT, "tree": samples.digest("kernels"),
        "patched": samples.digest("kernels patched")[:40],
    }  # fmt: skip
    assert sources["release"]["index"] == "default"


def test_every_wheel_of_the_lock_is_told_with_the_index_it_is_from() -> None:
    recipe, lock = everything()
    mirrored = lock.python[0].model_copy(update={"index": "https://wheels.example.org/simple"})
    table = record((recipe, lock.model_copy(update={"python": (mirrored, *lock.python[1:])})))
    told = {each["name"]: each["index"] for each in table["distributions"]}
    assert told.pop(mirrored.project) == "https://wheels.example.org/simple"
    assert set(told.values()) == {"default"}
    assert len(table["distributions"]) == len(lock.python)


def test_the_hash_of_a_base_moves_with_each_of_its_packages_and_with_nothing_else() -> None:
    recipe, lock = everything()
    before = record((recipe, lock))["bases"]
    for place, deb in enumerate(lock.deb):
        for change in ({"version": "9"}, {"sha256": "9" * 64}):
            debs = [*lock.deb[:place], deb.model_copy(update=change), *lock.deb[place + 1 :]]
            after = record((recipe, lock.model_copy(update={"deb": tuple(debs)})))["bases"]
            moved = {
                (stage, key) for stage, base in after.items() for key in base if base[key] != before[stage][key]
            }
            assert moved == {
                "base": {("build", "packages"), ("runtime", "packages")},
                "both": {("build", "added"), ("runtime", "added")},
                "build": {("build", "added")}, "runtime": {("runtime", "added")},
            }[deb.stage]  # fmt: skip
        moved_file = deb.model_copy(update={"file": "pool/elsewhere.deb"})
        debs = [*lock.deb[:place], moved_file, *lock.deb[place + 1 :]]
        assert record((recipe, lock.model_copy(update={"deb": tuple(debs)})))["bases"] == before


def test_what_an_archive_decides_about_has_no_hash() -> None:
    image = f"docker.io/library/debian:13@{DIGEST}"
    table = record(_on({"image": image, "apt": ["python3", "zlib1g"]}))["bases"]["runtime"]
    assert table == {"image": image, "digest": DIGEST, "apt": ["python3", "zlib1g"], "added": None}


def test_a_base_of_this_project_is_told_with_its_keys() -> None:
    keys = ("9" * 64, "8" * 16)
    table = record(_on({"recipe": "other"}), below={"other": keys})["bases"]["runtime"]
    assert table == {"recipe": "other", "content-key": keys[0], "fingerprint": keys[1]}


def test_the_contract_is_as_the_image_was_built() -> None:
    contract = record()["contract"]
    assert contract["env"]["KV"] == f"/var/cache/engine/{'f' * 16}"
    assert contract["env"]["ROCM_IMAGES_FINGERPRINT"] == "f" * 16
    assert (contract["uid"], contract["workdir"], contract["shm"]) == (1000, "/srv", "8g")


def test_a_tag_is_told_also_of_a_layout_in_this_folder() -> None:
    assert record(tags=())["tags"] == ["0.5.16-cccccccccccc"]
    assert record(reference=f"oci:out:1-a@{DIGEST}", tags=())["tags"] == ["1-a"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://git.example.org/x.git", "https://git.example.org/x.git"),
        ("https://me:pw@git.example.org:8443/x?a=b", "https://git.example.org:8443/x?a=b"),
        ("https://token@git.example.org/x", "https://git.example.org/x"),
        ("ssh://git@git.example.org/x", "ssh://git@git.example.org/x"),
        ("ssh://git:pw@git.example.org/x", "ssh://git@git.example.org/x"),
        ("git://git.example.org/x", "git://git.example.org/x"),
        ("default", "default"),
        ("../inner", "../inner"),
    ],
)
def test_an_address_loses_its_credentials_and_nothing_else(url: str, expected: str) -> None:
    assert origins.address(url) == expected


# What no message has a reason to say, as it has the word "password".
SECRET = st.text(alphabet=st.characters(codec="ascii", categories=("L", "N")), min_size=8, max_size=20).map(
    lambda text: f"zQ7{text}"
)


@given(user=SECRET, password=SECRET, scheme=st.sampled_from(["https", "http", "ssh", "git"]))
def test_no_password_of_any_address_is_in_a_record(user: str, password: str, scheme: str) -> None:
    recipe, lock = everything()
    url = f"{scheme}://{user}:{password}@git.example.org/x"
    module = LockedSubmodule(path="x", url=url, commit=COMMIT)
    engine = lock.source["engine"].model_copy(update={"submodule": (module,)})
    wheel = lock.python[0].model_copy(update={"index": url})
    text = dump(
        record((
            recipe,
            lock.model_copy(
                update={"source": lock.source | {"engine": engine}, "python": (wheel, *lock.python[1:])}
            ),
        ))
    )  # fmt: skip
    assert f":{password}@" not in text
    assert f"//{user}@" not in text or scheme == "ssh"
    with pytest.raises(RecipeError) as refused:
        samples.recipe(EVERYTHING.replace("https://git.example.org/engine", url))
    assert password not in "\n".join((refused.value.message, *refused.value.details))


def test_a_renewed_record_has_what_is_locked_today_and_what_was_found_then() -> None:
    recipe, lock = everything()
    before = record((recipe, lock))
    changed = samples.recipe(
        EVERYTHING.replace('tag = "v1"', 'tag = "v2"').replace('reason = "r"', 'reason = "s"')
    )
    parts = went_in(
        changed, lock, content_key="c" * 64, test_key="7" * 64, lock_hash="2" * 64, fingerprint="f" * 16,
        inputs={}, below={},
    )  # fmt: skip
    after = renewed(before, changed, parts, reference=f"other.example.org/probe:1@{DIGEST}")
    moved = {key for key in after if after[key] != before[key]}
    assert moved == {"reference", "tags", "moved-from", "lock", "sources", "patches", "fingerprint-inputs"}
    assert {patch["reason"] for patch in after["patches"]} == {"s"}
    assert is_whole(after)
    same = went_in(
        recipe, lock, content_key="c" * 64, test_key="7" * 64, lock_hash="1" * 64, fingerprint="f" * 16,
        inputs=before["fingerprint-inputs"], below={},
    )  # fmt: skip
    assert dump(renewed(before, recipe, same, reference=before["reference"])) == dump(before)


@pytest.mark.parametrize(
    ("tiers", "asked", "expected"),
    [
        ({"cpu": "passed", "gpu": "not run"}, ("cpu",), True),
        ({"cpu": "passed", "gpu": "not run"}, ("cpu", "gpu"), False),
        ({"cpu": "passed", "gpu": "passed"}, ("cpu", "gpu"), True),
        ({"cpu": "passed", "gpu": "failed"}, ("cpu",), False),
        ({"cpu": "not run"}, ("cpu",), False),
        ({}, ("cpu",), False),
    ],
)
def test_an_image_passed_when_it_failed_nowhere_and_passed_where_it_is_asked(
    tiers: dict[str, str], asked: tuple[str, ...], expected: bool
) -> None:
    assert passed(record(smoke={"tiers": tiers, "tests": {}}), asked) is expected


def _on(runtime: dict[str, Any]) -> tuple[Recipe, Lock]:
    recipe = samples.recipe(samples.SMALL, base={"build": {"debian": {"suite": "trixie"}}, "runtime": runtime})
    return recipe, samples.lock(recipe)
