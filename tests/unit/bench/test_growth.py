"""The work of commands that read everything grows with the number of images, not faster: calls are counted."""

from __future__ import annotations

import cProfile
import json
import pstats
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.generated import base_of, image_name, make_repository
from builder.cli.app import app

COMMANDS = (("plan", "--json"), ("check", "--json"), ("lock", "--check"))


def calls(root: Path, *words: str) -> int:
    """Return how many functions a command calls, after once for nothing so that all of it is imported."""
    profile = cProfile.Profile()
    for each in (None, profile):
        runner = CliRunner()
        if each is None:
            outcome = runner.invoke(app, ["--root", str(root), *words])
        else:
            outcome = each.runcall(runner.invoke, app, ["--root", str(root), *words])
        assert outcome.exit_code == 0, outcome.output
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    places = {count: tmp_path_factory.mktemp("images") for count in (25, 50, 100)}
    for count, root in places.items():
        make_repository(root, count)
    return places


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_one_more_image_costs_the_same_however_many_there_are(
    repositories: dict[int, Path], words: tuple[str, ...]
) -> None:
    few, more, most = (calls(root, *words) for root in repositories.values())
    assert (most - more) / 50 <= 1.1 * (more - few) / 25


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_chain_of_images_is_not_walked_once_for_every_path_through_it(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    found = []
    for length in (6, 12):
        root = tmp_path / str(length)
        make_repository(root, length, stands_on=lambda number, _: image_name(number - 1) if number else None)
        found.append(calls(root, *words))
    assert found[1] / found[0] < 5  # squared at most: a path is checked from each image; all paths would give 64


def test_of_25_images_one_is_shared_ten_stand_alone_and_a_chain_is_four_high() -> None:
    bases = [base_of(number, 500) for number in range(500)]
    assert bases.count(None) == 20 * 11
    assert {bases[number] for number in range(20, 260)} == {image_name(number) for number in range(20)}
    chain, number = [], 499
    while (base := bases[number]) is not None:
        chain.append(base)
        number = int(base.rpartition("-")[2])
    assert chain == ["engine-479", "engine-259", "engine-019"]


def test_the_same_number_of_images_is_the_same_repository(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        make_repository(tmp_path / name, 26)
        texts.append(json.dumps([file.read_text() for file in sorted((tmp_path / name).rglob("recipe.*"))]))
    assert texts[0] == texts[1]
    assert len(json.loads(texts[0])) == 52
