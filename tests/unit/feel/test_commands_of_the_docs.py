"""Every command of the docs: read by the program's own parser, and those that need nothing but files are run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from builder.cli.app import app

from .commands import exists, leaves, parse, words_of
from .pages import PAGES, ROOT, Shown, shown, variants

ALL = [each for page in PAGES for each in shown(page)]
RUN = CliRunner()
WALK = "docs/command-line.md"


@pytest.mark.parametrize("told", ALL, ids=str)
def test_a_command_of_the_docs_is_one_that_the_program_takes(told: Shown) -> None:
    for text in variants(told.text) if told.synopsis else [told.text]:
        calls = words_of(text)
        assert calls, f"{told}: {text}: no command was found in it"
        for words in calls:
            try:
                assert parse(words) or not words
            except BaseException:
                if not told.synopsis:
                    raise
                exists(words)  # a mention, as in "what rocm-images verify looked at"


def test_every_command_of_the_program_is_in_the_docs() -> None:
    named = set()
    for told in ALL:
        for text in variants(told.text) if told.synopsis else [told.text]:
            for words in words_of(text):
                try:
                    named.add(parse(words))
                except BaseException:
                    named.add(exists(words))
    assert {" ".join(path) for path, _ in leaves()} - named == set()


def test_the_reader_of_pages_finds_what_there_is() -> None:
    assert len(ALL) > 100
    assert sum(not told.synopsis for told in ALL) > 15
    assert variants("rocm-images pin [show] IMAGE [--format …]") == [
        "rocm-images pin IMAGE", "rocm-images pin show IMAGE --format WORD",
    ]  # fmt: skip
    assert variants("rocm-images test IMAGE|REFERENCE") == ["rocm-images test IMAGE"]
    with pytest.raises(AssertionError):
        exists(["verify", "--no-such-option"])
    with pytest.raises(AssertionError):
        exists(["no-such-command"])


def walk() -> Iterator[str]:
    """Yield the lines that the page about the command line has to be typed one after the other."""
    block = (ROOT / WALK).read_text(encoding="utf-8").partition("```console\n")[2].partition("```")[0]
    yield from (line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ "))


def test_the_walk_of_the_page_about_the_command_line_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    ran = 0
    for line in walk():
        if line.startswith("cd "):
            monkeypatch.chdir(line.removeprefix("cd "))
            continue
        ((words),) = words_of(line)
        ended = RUN.invoke(app, words, catch_exceptions=False)
        assert ended.exit_code == 0, (line, ended.output)
        ran += 1
    assert ran >= 7
    assert {path.name for path in Path("images").iterdir()} == {"example", "mine"}


PLACEHOLDERS = {"IMAGE": "sglang-debian", "NAME": "sglang-debian", "KIND": "verify"}
OFFLINE = ("list", "check", "plan", "pins", "render", "schema")


def offline() -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of the docs that need recipes and locks alone, for the images that are here."""
    here = {path.name for path in (ROOT / "images").iterdir()}
    seen = set()
    for told in ALL:
        for text in variants(told.text) if told.synopsis else [told.text]:
            for words in words_of(text):
                kept = [PLACEHOLDERS.get(word, word) for word in words if word != "--online"]
                named = [word for word in kept[1:] if not word.startswith("-")]
                if not kept or kept[0] not in OFFLINE or "--publish" in kept or tuple(kept) in seen:
                    continue
                if kept[0] == "schema" or set(named) <= here:
                    seen.add(tuple(kept))
                    yield str(told), kept


@pytest.mark.parametrize(("where", "words"), list(offline()), ids=lambda each: str(each) if each else "")
def test_a_command_of_the_docs_that_needs_files_alone_runs(
    where: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for name in ("images", "patches"):
        shutil.copytree(ROOT / name, tmp_path / name)
    ended = RUN.invoke(app, ["--root", str(tmp_path), *words], catch_exceptions=False)
    assert ended.exit_code == 0, (where, ended.output)
    assert ended.stdout
    if "--json" in words or words[0] == "schema":
        json.loads(ended.stdout)
