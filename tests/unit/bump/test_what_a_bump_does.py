"""What a report says of bumps as a robot makes them, whole: one golden report for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builder.bump.report import Verdict

from .conftest import FIX, KERNEL, Project, masked

GOLDENS = Path(__file__).resolve().parents[2] / "data" / "bumps"
HASH = """\
from torch.utils.cpp_extension import load

native = load(name="hash", sources=["hash.cpp"], extra_ldflags=["-lcrypto"])
"""
Change = Callable[[Project], None]


def a_commit_of_documents_that_are_ignored(project: Project) -> None:
    commit = project.engine.commit({"docs/use.md": "Otherwise.\n", "docs/new/`a|b`@c.md": "New.\n"})
    project.bump(engine=commit, made_for=commit)


def a_commit_of_documents_that_the_build_gets(project: Project) -> None:
    commit = project.engine.commit({"README.md": "Another engine.\n"})
    project.bump(engine=commit, made_for=commit)


def a_commit_of_code(project: Project) -> None:
    commit = project.engine.commit({"python/engine/__init__.py": "VERSION = 2\n", "docs/use.md": "Otherwise.\n"})
    project.bump(engine=commit, made_for=commit)


def a_commit_of_the_fork_beside_its_patches(project: Project) -> None:
    project.bump(fork=project.fork.commit({"README.md": "Another fork.\n", "patches/notes.txt": "Later.\n"}))


def a_patch_more_in_the_fork(project: Project) -> None:
    more = "--- /dev/null\n+++ b/python/engine/more.py\n@@ -0,0 +1 @@\n+MORE = 1\n"
    project.bump(fork=project.fork.commit({"patches/0002-more.patch": more}))


def a_fork_that_went_on_to_another_engine(project: Project) -> None:
    project.bump(fork=project.fork.commit({"patches/0001-limit.patch": FIX.replace("LIMIT = 1", "LIMIT = 16")}))


def an_engine_without_its_series(project: Project) -> None:
    project.bump(engine=project.engine.commit({"python/engine/__init__.py": "VERSION = 2\n"}))


def an_engine_that_has_the_patch(project: Project) -> None:
    commit = project.engine.commit({"python/engine/kernels.py": KERNEL.replace("LIMIT = 1", "LIMIT = 2")})
    project.bump(engine=commit, made_for=commit)


def an_engine_that_compiles_more(project: Project) -> None:
    commit = project.engine.commit(
        {"python/engine/hashing.py": HASH, "python/engine/hash.cpp": "#include <openssl/sha.h>\n"}
    )
    project.bump(engine=commit, made_for=commit)


def a_commit_that_is_not_there(project: Project) -> None:
    project.bump(fork="0123456789" * 4)


def a_recipe_that_cannot_be_read(project: Project) -> None:
    project.write(text=project.recipe() + "colour = 1\n")
    project.git.commit({})


def a_test_of_the_image(project: Project) -> None:
    project.git.commit({"images/probe/tests/test_more.py": "def test_more():\n    pass\n"})


def a_document_of_the_project(project: Project) -> None:
    project.git.commit({"README.md": "Images.\n"})


@pytest.mark.parametrize(
    ("change", "verdict", "code"),
    [
        (a_commit_of_documents_that_are_ignored, Verdict.NOTHING, 0),
        (a_commit_of_documents_that_the_build_gets, Verdict.BUILD, 0),
        (a_commit_of_code, Verdict.BUILD, 0),
        (a_commit_of_the_fork_beside_its_patches, Verdict.NOTHING, 0),
        (a_patch_more_in_the_fork, Verdict.BUILD, 0),
        (a_fork_that_went_on_to_another_engine, Verdict.UNKNOWN, 4),
        (an_engine_without_its_series, Verdict.UNKNOWN, 4),
        (an_engine_that_has_the_patch, Verdict.BUILD, 0),
        (an_engine_that_compiles_more, Verdict.BUILD, 2),
        (a_commit_that_is_not_there, Verdict.UNKNOWN, 3),
        (a_recipe_that_cannot_be_read, Verdict.UNKNOWN, 2),
        (a_test_of_the_image, Verdict.RETEST, 0),
        (a_document_of_the_project, None, 0),
    ],
)
def test_a_bump_is_told_in_full(project: Project, change: Change, verdict: Verdict | None, code: int) -> None:
    change(project)
    seen = project.git.run("status", "--porcelain", "--ignored")
    report = project.judge()
    expected = (GOLDENS / f"{change.__name__.replace('_', '-')}.md").read_text(encoding="utf-8")
    assert masked(report) == expected
    assert [image.verdict for image in report.images] == ([verdict] if verdict is not None else [])
    assert report.exit_code == code
    assert project.git.run("status", "--porcelain", "--ignored") == seen
