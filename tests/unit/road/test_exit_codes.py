"""Every failure ends with the code that docs/exit-codes.md gives for its class."""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import builder
from builder import process
from builder.errors import Failure, RecipeError
from builder.recipe import parse_recipe

from ..recipe import samples

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "exit-codes.md"
COMMAND = Path(sys.executable).with_name("rocm-images")
OF_IMAGES = "builder.inside", "builder.smoke.inside", "builder.smoke.suite", "builder.smoke.plugin"


def rows() -> dict[int, list[str]]:
    """Return the cells of the table by code."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| [0-9]+ \|", line)]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {int(first): rest for first, *rest in cells}


def failures() -> set[type[Failure]]:
    """Return every class of failure there is in the program, wherever it is defined."""
    for module in pkgutil.walk_packages(builder.__path__, "builder."):
        if not module.name.startswith(OF_IMAGES):
            importlib.import_module(module.name)
    found: set[type[Failure]] = set()
    pending = [Failure]
    while pending:
        kind = pending.pop()
        found.add(kind)
        pending += kind.__subclasses__()
    return {kind for kind in found if kind.__module__.startswith("builder.")}


def test_the_code_of_every_failure_is_on_the_page_and_no_other() -> None:
    codes = {kind.exit_code for kind in failures()}
    assert set(rows()) == codes | {0}


def test_a_failure_has_the_code_of_its_class_unless_its_class_is_one_of_the_page() -> None:
    classes = {kind for kind in failures() if kind.__bases__ == (Failure,)}
    assert len({kind.exit_code for kind in classes}) == len(classes)
    for kind in failures() - classes - {Failure}:
        assert kind.exit_code in {base.exit_code for base in kind.__mro__ if base in classes}


def test_every_row_has_a_meaning_and_all_but_success_a_remedy() -> None:
    for code, (meaning, example, then) in rows().items():
        assert meaning
        assert example or code == 130
        assert then or code == 0


def test_the_readme_lists_the_codes_of_the_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.search(r"Exit codes: (.*?)\(\[docs/exit-codes.md\]", text, re.DOTALL)
    assert listed is not None
    assert {int(code) for code in re.findall(r"\b([0-9]+) [a-z]", listed[1])} <= set(rows())


def test_the_example_of_a_recipe_is_what_the_program_says() -> None:
    example = rows()[2][1].strip("`").removeprefix("error: ").removesuffix("…`").rstrip("…")
    text = samples.SMALL.replace("probe", "sglang-debian") + '\n[image]\ncolour = "red"\n'
    with pytest.raises(RecipeError) as failure:
        parse_recipe(text, file="images/sglang-debian/recipe.toml")
    assert failure.value.message.startswith(example)


def project(tmp_path: Path, text: str) -> Path:
    (tmp_path / "images/probe").mkdir(parents=True)
    (tmp_path / "images/probe/recipe.toml").write_text(text)
    return tmp_path


def ended(*words: str | Path) -> process.Completed:
    return process.run([COMMAND, *words])


def test_success_ends_with_0_and_its_result_alone_on_standard_output() -> None:
    done = ended("--version")
    assert (done.status, done.stdout, done.stderr) == (0, f"{builder.__version__}\n", "")


@pytest.mark.parametrize("words", [("--no-such-option",), ("no-such-command",), ("render",), ("lock", "--update")])
def test_wrong_usage_ends_with_2_and_says_it_on_standard_error(words: tuple[str, ...]) -> None:
    done = ended(*words)
    assert done.status == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_folder_without_images_ends_with_2(tmp_path: Path) -> None:
    done = process.run([COMMAND, "list"], cwd=tmp_path)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {tmp_path}: no images/ folder here or above\n"
        "hint: change into a recipe repository, or name it with --root\n"
    )


def test_a_mistake_in_a_recipe_ends_with_2(tmp_path: Path) -> None:
    done = ended("--root", project(tmp_path, samples.SMALL.replace("gfx1100", "gfx")), "check")
    assert done.status == 2
    assert done.stdout.startswith("error: images/probe/recipe.toml: gfx[0]: expected a target")


def test_a_recipe_that_was_never_locked_ends_with_3(tmp_path: Path) -> None:
    done = ended("--root", project(tmp_path, samples.SMALL), "plan")
    assert (done.status, done.stdout) == (3, "")
    assert done.stderr == (
        "error: images/probe/recipe.lock: the recipe was never locked\nhint: rocm-images lock probe\n"
    )


def test_every_failure_of_a_check_is_told_before_it_ends(tmp_path: Path) -> None:
    root = project(tmp_path, samples.SMALL)
    (root / "images/other").mkdir()
    (root / "images/other/recipe.toml").write_text("schema = 2\n")
    done = ended("--root", root, "check")
    assert done.status == 2  # of the worst one
    assert "images/other/recipe.toml: schema: expected 1" in done.stdout
    assert "images/probe/recipe.lock: the recipe was never locked" in done.stdout


def test_a_disk_that_is_full_is_no_bug_and_says_what_gives_room() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([COMMAND, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 8
    assert done.stderr == (
        "error: no space left on device\nhint: df -h shows which disk; rocm-images engine free gives back room\n"
    )


@pytest.mark.parametrize(
    ("number", "ignored", "status"),
    [(signal.SIGHUP, False, 130), (signal.SIGTERM, False, 130), (signal.SIGHUP, True, 0)],
)
def test_a_terminal_that_is_closed_interrupts_a_run_unless_it_was_told_to_go_on(
    number: signal.Signals, ignored: bool, status: int
) -> None:
    code = (
        "import os, signal, sys\nfrom builder.cli import app\n"
        f"signal.signal(signal.SIGHUP, signal.{'SIG_IGN' if ignored else 'SIG_DFL'})\n"
        f"app.app = lambda **_: os.kill(os.getpid(), {int(number)})\n"
        "app.main()\n"
    )
    done = process.run([sys.executable, "-c", code])
    assert done.status == status
    assert ("interrupted; nothing was pinned" in done.stderr) == (status == 130)


def test_a_story_that_nobody_reads_any_more_does_not_stop_a_run() -> None:
    code = (
        "import os\nfrom builder.cli.console import Console\nread, write = os.pipe()\nos.dup2(write, 2)\n"
        "os.close(read)\nconsole = Console()\nwith console.step('a step'):\n    console.note('a fact')\n"
        "console.result('done')\n"
    )
    done = process.run([sys.executable, "-c", code])
    assert (done.status, done.stdout) == (0, "done\n")
