"""Every mistake in tests/data/mistakes is answered with exactly the text beside it, as a user sees it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli

from builder.cli.console import Console
from builder.errors import RecipeError
from builder.recipe import parse_recipe

MISTAKES = sorted(
    path.parent for path in (Path(__file__).resolve().parents[2] / "data" / "mistakes").glob("*/recipe.toml")
)

# Words that only someone who knows the implementation understands.
FOREIGN = re.compile(
    r"Input should|String should|Value error|Extra inputs|Field required|pydantic|valid (?:string|tuple|integer)"
    r"|_type\b|\b(?:str|int|dict|tuple|bool|None|True|False)\b|<class|Traceback"
)


def test_there_are_at_least_forty_mistakes() -> None:
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("folder", MISTAKES, ids=lambda folder: folder.name)
def test_a_mistake_is_answered_with_its_whole_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RecipeError) as failure:
        parse_recipe(
            (folder / "recipe.toml").read_text(encoding="utf-8"), file="images/probe/recipe.toml", name="probe"
        )
    Console().failure(failure.value)
    assert capsys.readouterr().err == (folder / "expected.txt").read_text(encoding="utf-8")
    assert failure.value.exit_code == 2


@pytest.mark.parametrize("folder", MISTAKES, ids=lambda folder: folder.name)
def test_a_message_names_the_file_speaks_of_toml_and_is_sorted(folder: Path) -> None:
    lines = (folder / "expected.txt").read_text(encoding="utf-8").splitlines()
    told = [line.removeprefix("error: ") for line in lines if not line.startswith(("hint: ", "  | "))]
    assert told == sorted(set(told))
    for line in told:
        file, _, rest = line.partition(": ")
        assert file == "images/probe/recipe.toml"
        assert rest
        assert not FOREIGN.search(rest), line
    assert lines[-1].startswith("hint: ")


@pytest.mark.parametrize("folder", MISTAKES, ids=lambda folder: folder.name)
def test_a_message_shows_no_character_that_is_not_seen(folder: Path) -> None:
    text = (folder / "expected.txt").read_text(encoding="utf-8")
    assert all(char.isprintable() or char == "\n" for char in text)


def test_all_problems_of_a_file_are_told_at_once_also_those_between_keys() -> None:
    folder = next(folder for folder in MISTAKES if folder.name == "many-at-once")
    told = (folder / "expected.txt").read_text(encoding="utf-8").count("images/probe/recipe.toml: ")
    assert told == 12
    table = tomli.loads((folder / "recipe.toml").read_text(encoding="utf-8"))
    assert table["python"] == 3.13  # of a wrong type, and still everything else is looked at
