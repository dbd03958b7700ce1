"""The parts of a bump report: links, files that differ, and words that stay what they are in Markdown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder.bump.links import compare_link
from builder.bump.markdown import markdown
from builder.bump.report import BumpReport, ImageBump, SourceMove, Verdict
from builder.compare import Moved
from builder.findings import Finding
from builder.sources.treediff import changed_files

OLD, NEW = "a" * 40, "b" * 40
KNOWN = Moved(old="c" * 64, new="c" * 64)


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://github.com/sgl-project/sglang", "https://github.com/sgl-project/sglang/compare/{old}...{new}"),
        (
            "https://github.com/sgl-project/sglang.git",
            "https://github.com/sgl-project/sglang/compare/{old}...{new}",
        ),
        ("ssh://git@github.com/o/r", "https://github.com/o/r/compare/{old}...{new}"),
        ("https://gitlab.com/group/sub/r.git", "https://gitlab.com/group/sub/r/-/compare/{old}...{new}"),
        ("https://gitlab.example.org:8443/g/r", "https://gitlab.example.org:8443/g/r/-/compare/{old}...{new}"),
        ("https://codeberg.org/o/r", "https://codeberg.org/o/r/compare/{old}...{new}"),
        ("http://gitea.example.org:3000/o/r", "http://gitea.example.org:3000/o/r/compare/{old}...{new}"),
        ("ssh://git@gitea.example.org:2222/o/r", "https://gitea.example.org/o/r/compare/{old}...{new}"),
        ("https://user:secret@github.com/o/r", "https://github.com/o/r/compare/{old}...{new}"),
        ("https://git.example.org/o/r", None),
        ("https://notgithub.com/o/r", None),
        ("https://github.com/r", None),
        ("git://github/o/r", None),
        ("https://github.com/o/r)[x](y", "https://github.com/o/r%29%5Bx%5D%28y/compare/{old}...{new}"),
    ],
)
def test_hosts_whose_form_is_known_have_a_page_of_what_lies_between_two_commits(
    url: str, link: str | None
) -> None:
    assert compare_link(url, OLD, NEW) == (link.format(old=OLD, new=NEW) if link is not None else None)


def test_files_differ_by_content_mode_target_and_presence_and_by_nothing_else(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        (folder / "deep/er").mkdir(parents=True)
        for name in ("same", "content", "mode", "deep/er/size", "becomes-a-link"):
            (folder / name).write_text(name)
        (folder / "link").symlink_to("same")
        (folder / "link-to-a-folder").symlink_to("deep")
        (folder / "moved-link").symlink_to("same")
    (old / "gone").write_text("")
    (old / "empty").mkdir()
    (new / "deep/new").write_text("")
    (new / "content").write_text("tnetnoc")
    (new / "mode").chmod(0o755)
    (new / "deep/er/size").write_text("longer than before")
    (new / "becomes-a-link").unlink()
    (new / "becomes-a-link").symlink_to("same")
    (new / "moved-link").unlink()
    (new / "moved-link").symlink_to("deep")
    assert changed_files(old, new) == (
        "becomes-a-link", "content", "deep/er/size", "deep/new", "gone", "mode", "moved-link",
    )  # fmt: skip
    assert changed_files(new, new) == ()


def image(**changed: object) -> ImageBump:
    made = ImageBump(image="probe", verdict=Verdict.NOTHING, reasons=(), content_key=KNOWN, fingerprint=KNOWN)
    return replace(made, **changed)  # type: ignore[arg-type]


def report(*images: ImageBump) -> BumpReport:
    return BumpReport(base=OLD, head=NEW, images=images, untouched=(), gone=())


def test_words_of_others_make_no_link_no_block_and_mention_nobody() -> None:
    hostile = "](https://evil.example) @everyone <img src=x> `code` **bold** #1\n```\n# heading\x1b[31m"
    error = Finding(
        image="probe", severity="error", exit_code=2, check="recipe", file="f", key="k", message=hostile,
        hint=hostile, details=("```", "````text", hostile),
    )  # fmt: skip
    source = SourceMove(name="engine", old=hostile, new=hostile, changed=(hostile,), reaching=(hostile,))
    told = markdown(report(image(findings=(error,), sources=(source,))))
    assert "\x1b" not in told
    outside = "".join(part for number, part in enumerate(told.split("`````")) if number % 2 == 0)
    assert "\n# heading" not in outside
    for line in outside.splitlines():
        words = "".join(part for number, part in enumerate(line.split("`")) if number % 2 == 0)
        if not line.startswith("```"):
            assert "\\](" in words or "](https" not in words, line
            assert not any(f" {char}" in words for char in ("@e", "<i", "#1")), line


def test_a_report_that_is_too_long_for_a_comment_says_so_and_begins_with_all_that_matters() -> None:
    lines = tuple(f"a reason that is rather long, as they are, number {number}" for number in range(7))
    images = [image(image=f"probe-{number}", verdict=Verdict.BUILD, reasons=lines) for number in range(400)]
    told = markdown(report(*images))
    assert len(told) < 65_536
    assert told.startswith("## What this bump does: 400 images to build\n")
    named = told.count("### probe-")
    assert told.endswith(
        f"This does not say all, nor {400 - named} of the images: it would be too long for a comment. "
        "`--json` has everything.\n"
    )
