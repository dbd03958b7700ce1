"""The JSON Schemas are the models', are checked in, and say to an editor what the program would say."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from builder import process
from builder.cli.app import app
from builder.errors import RecipeError
from builder.schema import SCHEMAS, dump

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
PLACES = ("images", "tests/data/images", "tests/data/goldens")
RECIPES = sorted(path for place in PLACES for path in (ROOT / place).glob("*/recipe.toml"))
# What editors see; what needs a look at more than one key is the program's alone.
SEEN_BY_EDITORS = (
    "apt-as-text", "apt-that-removes", "apt-twice", "apt-with-a-number", "base-as-text",
    "base-image-short-digest", "base-image-that-floats", "base-missing-stage", "base-of-both-kinds",
    "base-of-no-kind", "base-suite-that-moves", "build-beside-a-wheel", "build-disk-without-a-unit",
    "build-key-misspelt", "build-memory-as-a-number", "component-in-single-brackets",
    "component-of-two-kinds", "component-without-version", "description-that-turns-direction",
    "devices-elsewhere", "empty-file", "env-as-a-number", "env-name-with-a-dash", "env-over-two-lines",
    "expose-out-of-range", "forbid-in-another-spelling", "gfx-empty", "gfx-unknown-spelling",
    "index-with-a-password", "index-without-wheel", "kv-cache-as-text", "kv-cache-setting-as-a-list",
    "kv-cache-setting-with-dashes", "key-after-a-table", "name-with-a-slash",
    "protected-as-text", "python-as-a-number", "python-with-a-patch-level", "requires-without-reason",
    "schema-of-the-future", "smoke-jit-unknown",
    "smoke-loader-without-expression", "smoke-size-without-a-unit", "smoke-ships-without-a-reason",
    "source-is-the-folder-itself", "source-outside-the-folder", "source-ignores-what-is-outside",
    "git-commit-too-short", "git-from-a-folder", "open-pin-without-reason",
    "source-of-two-kinds", "submodules-of-a-folder", "sdist-without-version", "archive-without-sha256",
    "archive-over-plain-http", "index-of-an-unknown-kind", "override-without-reason",
    "underscore-for-a-dash", "unknown-key-near-miss", "user-root",
    "patch-of-no-kind", "patch-of-two-kinds", "patch-without-reason-and-end", "patch-upstream-that-is-no-address",
    "series-without-made-for", "series-from-nowhere", "series-pattern-with-a-folder",
    "series-in-an-unknown-order", "edit-of-nothing", "edit-count-zero", "edit-with-a-hidden-character",
    "overlay-from-outside", "overlay-of-a-short-hash", "hook-without-an-old-value", "hook-of-value-and-call",
    "hook-expect-beside-a-call", "hook-module-as-a-file", "hook-call-without-a-function", "probe-without-values",
    "version-that-is-a-range", "workdir-relative", "workdir-with-a-dollar", "writable-twice",
)  # fmt: skip


def schema_file(kind: str) -> Path:
    return ROOT / "docs" / f"{kind}.schema.json"


def keys(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every property of a schema by its place."""
    if isinstance(node, dict):
        for name, inner in node.get("properties", {}).items():
            yield f"{path}.{name}", inner
        for name, inner in node.items():
            yield from keys(inner, f"{path}/{name}")


def tables(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every object of a schema by its place."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield path, node
        for name, inner in node.items():
            yield from tables(inner, f"{path}/{name}")


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_schema_that_is_checked_in_is_the_models(kind: str) -> None:
    assert schema_file(kind).read_text(encoding="utf-8") == dump(SCHEMAS[kind]()), (
        f"write it anew: rocm-images schema {kind} > docs/{kind}.schema.json"
    )


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_command_writes_the_schema_and_nothing_else(kind: str) -> None:
    outcome = CliRunner().invoke(app, ["schema", kind])
    assert outcome.exit_code == 0
    assert outcome.output == dump(SCHEMAS[kind]())


def test_a_schema_that_does_not_exist_is_refused_with_the_near_miss() -> None:
    outcome = CliRunner().invoke(app, ["schema", "recipes"])
    assert isinstance(outcome.exception, RecipeError)
    assert outcome.exception.message == "there is no schema of 'recipes'; did you mean 'recipe'?"


@pytest.mark.parametrize("kind", ["recipe", "lock"])
def test_every_key_has_a_description_and_is_in_kebab_case(kind: str) -> None:
    found = dict(keys(SCHEMAS[kind]()))
    assert len(found) > 15
    for place, schema in found.items():
        assert schema.get("description"), place
        assert re.fullmatch(r"[a-z0-9-]+", place.rpartition(".")[2]), place


@pytest.mark.parametrize("kind", ["recipe", "lock"])
def test_no_table_takes_a_key_that_nobody_described(kind: str) -> None:
    for place, schema in tables(SCHEMAS[kind]()):
        closed = schema.get("additionalProperties")
        assert closed is False or isinstance(closed, dict), place
        assert "null" not in json.dumps(schema), place  # TOML has none


def test_the_schemas_are_schemas() -> None:
    done = process.run([BIN / "check-jsonschema", "--check-metaschema", *(schema_file(kind) for kind in SCHEMAS)])
    assert done.status == 0, done.stdout


def test_check_jsonschema_accepts_every_recipe_and_lock_of_this_repository() -> None:
    done = process.run([BIN / "check-jsonschema", "--schemafile", schema_file("recipe"), *RECIPES])
    assert done.status == 0, done.stdout
    locks = sorted(ROOT.glob("images/*/recipe.lock"))
    assert locks
    command = [BIN / "check-jsonschema", "--default-filetype", "toml", "--schemafile", schema_file("lock"), *locks]
    done = process.run(command)
    assert done.status == 0, done.stdout


def test_taplo_accepts_every_recipe_and_lock_of_this_repository(tmp_path: Path) -> None:
    schema = f"file://{schema_file('recipe')}"
    done = process.run([BIN / "taplo", "lint", "--no-auto-config", "--schema", schema, *RECIPES])
    assert done.status == 0, done.stderr[:2000]
    schema = f"file://{schema_file('lock')}"
    for lock in sorted(ROOT.glob("images/*/recipe.lock")):
        named = tmp_path / f"{lock.parent.name}.toml"  # taplo passes over files of another ending
        named.write_bytes(lock.read_bytes())
        done = process.run([BIN / "taplo", "lint", "--no-auto-config", "--schema", schema, named])
        assert done.status == 0, done.stderr[:2000]
        named.write_text(lock.read_text().replace("\nepoch = ", "\nepoch = -"))
        assert process.run([BIN / "taplo", "lint", "--no-auto-config", "--schema", schema, named]).status != 0


def test_every_recipe_names_its_schema_for_editors_and_taplo_follows_the_line(tmp_path: Path) -> None:
    for recipe in RECIPES:
        first = recipe.read_text(encoding="utf-8").partition("\n")[0]
        assert (recipe.parent / first.removeprefix("#:schema ")).resolve() == schema_file("recipe"), recipe
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/recipe.schema.json").write_bytes(schema_file("recipe").read_bytes())
    image = tmp_path / "images/x/recipe.toml"
    image.parent.mkdir(parents=True)
    text = (ROOT / "images/sglang-debian/recipe.toml").read_text(encoding="utf-8")
    image.write_text(text)
    assert process.run([BIN / "taplo", "lint", "--no-auto-config", image]).status == 0
    image.write_text(text.replace("\nengine = ", "\nengin = "))
    done = process.run([BIN / "taplo", "lint", "--no-auto-config", image])
    assert done.status != 0
    assert "'engin' was unexpected" in done.stderr


def test_check_jsonschema_refuses_the_mistakes_that_are_in_one_place() -> None:
    files = {name: ROOT / "tests/data/mistakes" / name / "recipe.toml" for name in SEEN_BY_EDITORS}
    command = [BIN / "check-jsonschema", "--output-format", "json", "--schemafile", schema_file("recipe")]
    done = process.run([*command, *files.values()])
    assert done.status != 0
    refused = {error["filename"] for error in json.loads(done.stdout)["errors"]}
    assert refused == {str(path) for path in files.values()}


@pytest.mark.parametrize("name", SEEN_BY_EDITORS[::4])
def test_taplo_refuses_the_mistakes_that_are_in_one_place(name: str) -> None:
    recipe = ROOT / "tests/data/mistakes" / name / "recipe.toml"
    command = [BIN / "taplo", "lint", "--no-auto-config", "--schema", f"file://{schema_file('recipe')}"]
    done = process.run([*command, recipe])
    assert done.status == 1
    assert "error: " in done.stderr  # its first words; the last ones it sometimes loses when it ends
