"""What a recipe pins, told from what it merely says, for recipes that have every kind of pin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from builder.cli.app import app
from builder.pins import Pin, pins
from builder.recipe import parse_recipe

ROOT = Path(__file__).resolve().parents[3]
MADE_UP = ROOT / "tests/data/renovate/images"


def of(name: str) -> dict[tuple[str, str], Pin]:
    """Return the pins of a made-up recipe by key and kind."""
    text = (MADE_UP / name / "recipe.toml").read_text(encoding="utf-8")
    return {(pin.key, pin.kind): pin for pin in pins(parse_recipe(text, file=name, name=name))}


def test_a_base_is_pinned_by_tag_and_digest_and_without_a_tag_it_is_of_another_kind() -> None:
    rocm = of("sglang-rocm")[("base.build.image", "image")]
    assert rocm == Pin(
        key="base.build.image", kind="image", name="docker.io/rocm/dev-ubuntu-24.04", origin="registry",
        source="docker.io/rocm/dev-ubuntu-24.04", value="7.2.4-complete", digest=f"sha256:{1:064}",
    )  # fmt: skip
    bare = of("settled")[("base.build.image", "untagged-image")]
    assert (bare.value, bare.digest) == (None, f"sha256:{4:064}")


def test_git_is_pinned_by_tag_or_branch_with_the_commit_whatever_the_order_of_the_keys() -> None:
    found = of("sglang-rocm")
    tag, branch = found[("source.sglang.tag", "tag")], found[("source.rdna4.branch", "branch")]
    assert (tag.source, tag.value, tag.digest) == ("https://github.com/sgl-project/sglang", "v0.5.16", f"{11:040}")
    assert (branch.source, branch.value, branch.digest) == (
        "https://github.com/example/sglang-rdna4", "main", f"{12:040}"
    )  # fmt: skip


def test_a_wheel_keeps_its_local_version_and_its_index() -> None:
    found = of("sglang-rocm")
    torch = found[("component.torch.version", "wheel")]
    assert (torch.value, torch.origin, torch.index) == (
        "2.11.0+rocm7.2", "index", "https://wheels.example/whl/rocm7.2"
    )  # fmt: skip
    audio = found[("component.torchaudio.version", "wheel")]
    assert (audio.origin, audio.index) == ("flat-index", "https://wheels.example/flat/")
    assert of("vllm-rocm")[("component.transformers.version", "wheel")].index is None


def test_an_archive_is_a_release_file_where_its_name_does_not_have_the_whole_tag_again() -> None:
    release = of("sglang-rocm")[("source.aotriton.archive", "release-file")]
    assert (release.source, release.value, release.digest) == ("ROCm/aotriton", "v0.11.1", f"{3:064}")
    others = [pin for (_, kind), pin in of("settled").items() if kind == "archive"]
    assert [pin.name for pin in others] == ["tree", "elsewhere", "twice"]
    assert {pin.value for pin in others} == {None}


def test_a_variant_has_no_pins_of_its_own() -> None:
    listed = CliRunner().invoke(
        app, ["--root", str(ROOT), "pins", "sglang-gfx1201", "sglang-gfx1201-tp2", "--json"]
    )
    assert listed.exit_code == 0, listed.output
    found = json.loads(listed.output)
    assert {pin["file"] for pin in found} == {"images/sglang-gfx1201/recipe.toml"}
    assert {"source.sglang.tag", "source.rdna4.branch", "rocm"} <= {pin["key"] for pin in found}


def test_a_version_that_is_that_of_a_source_or_of_a_base_moves_along() -> None:
    along = {key: pin.source for (key, kind), pin in of("sglang-rocm").items() if kind == "version"}
    assert along == {
        "rocm": "docker.io/rocm/dev-ubuntu-24.04",
        "source.aotriton.archive": "ROCm/aotriton",
        "component.aotriton.version": "ROCm/aotriton",
        "component.triton.version": "https://github.com/ROCm/triton",
        "component.triton.build-env.TRITON_WHEEL_VERSION": "https://github.com/ROCm/triton",
        "component.amd-aiter.version": "https://github.com/ROCm/aiter",
        "component.sglang.version": "https://github.com/sgl-project/sglang",
    }
    assert {key for key, kind in of("vllm-rocm") if kind == "version"} == {
        "component.vllm.version", "component.vllm.build-env.VLLM_VERSION_OVERRIDE"
    }  # fmt: skip


def test_of_requirements_only_exact_ones_are_pins() -> None:
    exact = [pin for (_, kind), pin in of("vllm-rocm").items() if kind == "requirement"]
    assert [(pin.key, pin.source, pin.value) for pin in exact] == [
        ("component.vllm.requires[1]", "openai", "2.6.1")
    ]  # fmt: skip


def test_what_a_recipe_merely_says_is_no_pin() -> None:
    assert [key for key, _ in of("vllm-rocm")] == [
        "source.engine.version", "component.transformers.version", "component.vllm.version",
        "component.vllm.build-env.VLLM_VERSION_OVERRIDE", "component.vllm.requires[1]",
    ]  # fmt: skip
    keys = {key for key, _ in of("sglang-rocm")} | {key for key, _ in of("settled")}
    assert not [key for key in keys if "made-for" in key or "until" in key or "suite" in key or "numpy" in key]


def changed(name: str, old: str, new: str) -> tuple[Pin, ...]:
    text = (MADE_UP / name / "recipe.toml").read_text(encoding="utf-8")
    assert old in text
    return pins(parse_recipe(text.replace(old, new), file=name, name=name))


@pytest.mark.parametrize(
    ("name", "old", "new", "key"),
    [
        ("sglang-rocm", 'rocm = "7.2.4"', 'rocm = "7.2"', "rocm"),
        ("sglang-rocm", 'version = "0.5.16"', 'version = "0.5.16.post1"', "component.sglang.version"),
        ("sglang-rocm", 'version = "0.5.16"', 'version = "16"', "component.sglang.version"),
        ("sglang-rocm", 'tag = "rocm-3.6.0"', 'tag = "rocm6-3.6.0"', "component.triton.version"),
        ("vllm-rocm", '_OVERRIDE = "0.28.0"', '_OVERRIDE = "0.28.1"',
         "component.vllm.build-env.VLLM_VERSION_OVERRIDE"),
    ],
)  # fmt: skip
def test_a_version_of_its_own_stays_where_it_is(name: str, old: str, new: str, key: str) -> None:
    assert key in {pin.key for pin in changed(name, old, old) if pin.kind == "version"}
    assert key not in {pin.key for pin in changed(name, old, new) if pin.kind == "version"}


def test_as_json_a_pin_has_no_empty_values() -> None:
    assert of("settled")[("component.newest.version", "wheel")].as_table() == {
        "key": "component.newest.version", "kind": "wheel", "name": "newest", "origin": "index",
        "source": "newest", "value": "1.5",
    }  # fmt: skip
