"""What a newcomer meets: the program without words, help, examples that work, no colour where none belongs."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from builder import process
from builder.cli.app import app
from builder.cli.console import Console
from builder.cli.helping import GROUPS

from .commands import leaves, parse, words_of

LEAVES = list(leaves())
RUN = CliRunner()
PROGRAM = [sys.executable, "-c", "from builder.cli.app import main; main()"]


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_a_command_has_examples_that_its_own_parser_takes(path: tuple[str, ...], command: object) -> None:
    help_text = RUN.invoke(app, [*path, "--help"], terminal_width=80).output
    _, title, examples = help_text.partition("\n  Example")
    assert title, f"{' '.join(path)} has no examples"
    lines = [line.strip() for line in examples.partition("\n\n")[0].splitlines()[1:]]
    calls = [words for line in lines for words in words_of(line)]
    assert len(calls) == len(lines) >= 1
    for words in calls:
        assert parse(words) == " ".join(path)


def test_every_command_stands_in_a_group_and_is_told_in_a_whole_sentence() -> None:
    grouped = [name for _, names in GROUPS for name in names]
    assert sorted(grouped) == sorted(get_command(app).commands)  # type: ignore[attr-defined]
    told = RUN.invoke(app, ["--help"]).output
    assert "..." not in told.partition("[ARGS]...")[2]
    for title, _ in GROUPS:
        assert f"\n{title}:\n" in told


def test_a_command_that_does_not_exist_is_none_for_the_reader_of_these_tests_either() -> None:
    for words in (["biuld", "x"], ["build"], ["build", "x", "--no-such"], ["plan", "--publish"], ["engine"]):
        with pytest.raises(Exception) as failure:  # noqa: PT011 -- typer's own, which moves between versions
            parse(words)
        assert getattr(failure.value, "exit_code", None) == 2, failure.value


def test_without_words_the_program_tells_what_is_here_and_what_comes_next(tmp_path: Path) -> None:
    for name in ("a-locked", "b-published", "c-open"):
        folder = tmp_path / "images" / name
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text("not even read")
        if name != "c-open":
            (folder / "recipe.lock").write_text("")
    (tmp_path / "pins").mkdir()
    (tmp_path / "pins/b-published.json").write_text(json.dumps({"reference": "host/b:1@sha256:\x1b[31mabc"}))
    told = RUN.invoke(app, ["--root", str(tmp_path)])
    assert told.exit_code == 0
    lines = told.output.splitlines()
    assert f"3 images in {tmp_path}:" in lines
    assert "  a-locked     is locked, and not published from here yet" in lines
    assert "  b-published  host/b:1@sha256:?[31mabc" in lines
    assert "  c-open       has no lock" in lines
    assert "Next: rocm-images build a-locked" in lines


def test_every_command_that_the_orientation_names_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nowhere = RUN.invoke(app, [])
    assert nowhere.exit_code == 0
    assert "There is no images/ folder here or above." in nowhere.output
    (tmp_path / "images").mkdir()
    empty = RUN.invoke(app, [])
    assert "has no image yet" in empty.output
    folder = tmp_path / "images/x"
    folder.mkdir()
    (folder / "recipe.toml").touch()
    here = RUN.invoke(app, [])
    named = [
        line.removeprefix("Next: ").strip().partition("   ")[0]
        for line in (nowhere.output + here.output).splitlines()
        if line.startswith(("  rocm-images ", "Next: "))
    ]
    assert len(named) == 9
    assert all(parse(words) for line in named for words in words_of(line))


def test_help_loads_nothing_that_commands_alone_need() -> None:
    code = "import sys; from builder.cli.app import app; print(*sys.modules)"
    loaded = set(process.run([sys.executable, "-c", code]).stdout.split())
    assert not loaded & {"pydantic", "docker", "requests", "python_on_whales", "yaml", "rich", "pytest", "tomli"}


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, True),  # as no-color.org has it: present and not empty
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colours_are_on_a_terminal_alone_that_shows_them_and_where_nobody_minds(
    environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        Console().warn("words")
    said = os.read(ours, 1000)
    os.close(ours)
    assert (b"\x1b[" in said) is coloured
    assert b"warning:" in said


def test_nothing_is_coloured_that_goes_into_a_file(tmp_path: Path) -> None:
    done = process.run([*PROGRAM, "--root", tmp_path, "build", "x"], env={"TERM": "xterm-256color"})
    assert done.status == 2
    assert "error: " in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
