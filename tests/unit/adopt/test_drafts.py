"""`adopt` on Dockerfiles of several shapes: the draft, the report, and the recipe that the draft becomes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import tomli

from builder.adopt.adoption import adopt
from builder.checks.offline import check_image
from builder.errors import RecipeError
from builder.mirrors import Mirrors
from builder.recipe import parse_recipe
from builder.workspace import Workspace

from .goldens import CASES, NAMES, drafted

POINT = re.compile(r"<adopt ([0-9]+)>")


def text_of(name: str, file: str) -> str:
    return (CASES / name / file).read_text(encoding="utf-8")


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", NAMES)
def test_the_draft_and_the_report_are_the_golden_ones(name: str) -> None:
    done = drafted(name)
    assert done.recipe == text_of(name, "draft.toml")
    assert "\n".join(done.report.lines()) + "\n" == text_of(name, "report.txt")


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_the_input_is_accounted_for(name: str) -> None:
    report = drafted(name).report
    covered = {line for each in report.accounts for line in range(each.first, each.last + 1)}
    lines = text_of(name, "Dockerfile").split("\n")
    missing = {n: line for n, line in enumerate(lines, start=1) if line.strip() and n not in covered}
    assert {n: line for n, line in missing.items() if not re.fullmatch(r"\s*RUN \\", line)} == {}
    assert [each.text for each in report.accounts if not each.outcome] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_point_of_the_report_is_in_the_draft_and_every_point_of_the_draft_in_the_report(name: str) -> None:
    done = drafted(name)
    table = tomli.loads(done.recipe)
    in_draft = {int(number) for text in texts(table) for number in POINT.findall(text)}
    numbers = [point.number for point in done.report.points]
    assert numbers == list(range(1, len(numbers) + 1))
    assert set(numbers) == in_draft
    assert set(numbers) == {number for each in done.report.accounts for number in each.points}


@pytest.mark.parametrize("name", NAMES)
def test_every_key_that_the_report_names_is_in_the_draft(name: str) -> None:
    done = drafted(name)
    table = tomli.loads(done.recipe)
    for account in done.report.accounts:
        for key in account.became:
            assert has(table, key.split(".")), f"line {account.first}: {key}"


def has(value: Any, parts: list[str]) -> bool:
    """Whether a key path leads somewhere, in lists by name; a name may have dots."""
    if not parts:
        return True
    if isinstance(value, list):
        for size in range(1, len(parts) + 1):
            name = ".".join(parts[:size])
            if any(
                isinstance(each, dict) and each.get("name") == name and has(each, parts[size:]) for each in value
            ):
                return True
        return False
    return isinstance(value, dict) and parts[0] in value and has(value[parts[0]], parts[1:])


@pytest.mark.parametrize("name", NAMES)
def test_a_draft_is_refused_with_a_message_for_each_of_its_points(name: str) -> None:
    done = drafted(name)
    with pytest.raises(RecipeError) as caught:
        parse_recipe(done.recipe, file="images/x/recipe.toml")
    said = caught.value.message
    for point in done.report.points:
        assert f"point {point.number} of the draft is not decided" in said
    assert len(said.splitlines()) == said.count("of the draft is not decided"), "nothing else is wrong with it"


@pytest.mark.parametrize("name", NAMES)
def test_the_draft_with_its_points_filled_passes_all_of_check_that_needs_no_lock(
    name: str, tmp_path: Path
) -> None:
    recipe = tmp_path / "images" / name / "recipe.toml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(text_of(name, "filled.toml"), encoding="utf-8")
    beside = CASES / name / "beside"  # what the points say is to be copied there
    if beside.exists():
        shutil.copytree(beside, recipe.parent, dirs_exist_ok=True)
    found = check_image(Workspace(root=tmp_path), name, mirrors=Mirrors())
    errors = [(each.check, each.message) for each in found if each.severity != "note"]
    assert errors == [("lock", "the recipe was never locked")]


@pytest.mark.parametrize("name", NAMES)
def test_the_filled_recipe_differs_from_the_draft_in_its_points_alone(name: str) -> None:
    """Keys may be added, for what the draft lists as undecided; a key with a point may be dropped."""
    assert changed(tomli.loads(text_of(name, "draft.toml")), tomli.loads(text_of(name, "filled.toml"))) == []


def changed(draft: Any, filled: Any, where: str = "") -> list[str]:
    if isinstance(draft, str) and POINT.search(draft):
        return []
    if isinstance(draft, dict):
        open_keys = [key for key, value in draft.items() if key == "adopt" or any(map(POINT.search, texts(value)))]
        return [
            problem
            for key in draft
            for problem in (
                changed(draft[key], filled[key], f"{where}.{key}")
                if key in filled
                else [] if key in open_keys else [f"{where}.{key} is gone"]
            )
        ]  # fmt: skip
    if isinstance(draft, list) and draft and isinstance(draft[0], dict):
        by_name = {each["name"]: each for each in filled}
        return [
            p for each in draft for p in changed(each, by_name.get(each["name"], {}), f"{where}.{each['name']}")
        ]
    if isinstance(draft, list):
        return [f"{where}: {item}" for item in draft if item not in filled and not POINT.search(str(item))]
    return [] if draft == filled else [f"{where}: {draft!r} became {filled!r}"]


def test_no_secret_of_the_input_is_in_the_draft_or_in_the_report() -> None:
    secrets = (
        "hunter22",
        "glpat-abcdefghijklmnop",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "s3cr3t-value",
        "me:secretpw",
    )
    more = (
        "FROM docker.io/a/b:1\nARG GIT_TOKEN=s3cr3t-value\n"
        "RUN git clone https://x:s3cr3t-value@git.example.org/a/b && curl -u me:secretpw https://example.org/f\n"
        "RUN DB_PASSWORD='hunter22' pip install --index-url https://u:hunter22@index.example.org/simple a==1\n"
        'ENV API_KEY hunter22\nCMD ["serve", "--api-key", "s3cr3t-value"]\n'
    )
    inputs = [more, *(text_of(name, "Dockerfile") for name in NAMES)]
    for secret in secrets:
        assert any(secret in text for text in inputs), "each is there to be found"
    for text in inputs:
        done = adopt(text, file="Dockerfile", name="x")
        for secret in secrets:
            assert secret not in done.recipe
            assert secret not in str(done.report.plain())
            assert secret not in "\n".join(done.report.lines())


def test_the_same_input_gives_the_same_draft() -> None:
    for name in NAMES:
        assert drafted(name) == drafted(name)
