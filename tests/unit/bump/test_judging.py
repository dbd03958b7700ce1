"""What is judged and what is left alone: which images, whose locks, at which revisions, and how a run ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from builder.bump.markdown import markdown
from builder.bump.report import Verdict
from builder.errors import PatchError, RecipeError
from builder.lockfile import parse_lock
from builder.project import prepare
from builder.schema import SCHEMAS

from .conftest import BASE, FIX, Project

COMMAND = Path(sys.executable).with_name("rocm-images")
ABOVE = f"""\
schema = 1
name = "above"
description = "On another image"
gfx = ["gfx1201"]
python = "3.12"

[base.build]
{BASE}

[base.runtime]
recipe = "probe"
"""


def command(project: Project, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), "--root", str(project.git.folder), *words],
        env={**{name: value for name, value in os.environ.items() if name != "CI"}, "NO_COLOR": "1", **env},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def documents(project: Project) -> str:
    commit = project.engine.commit({"docs/use.md": "Otherwise.\n"})
    return project.bump(engine=commit, made_for=commit)


def code(project: Project) -> str:
    commit = project.engine.commit({"python/engine/__init__.py": "VERSION = 2\n"})
    return project.bump(engine=commit, made_for=commit)


def test_the_written_lock_is_the_one_that_was_judged_and_the_next_run_has_nothing_to_lock(
    project: Project,
) -> None:
    documents(project)
    before = project.workspace.lock("probe").read_text()
    judged = project.judge().images[0]
    assert judged.relock is not None
    assert (judged.relock.names, judged.relock.written) == (("engine",), False)
    assert project.workspace.lock("probe").read_text() == before
    written = project.judge(write=True).images[0]
    assert written.relock is not None
    assert written.relock.written
    prepared = prepare(project.workspace, "probe")
    assert prepared.content_key == judged.content_key.new == judged.content_key.old
    assert prepared.lock.source["engine"].commit == project.pins["engine"]
    project.git.commit({})
    again = project.judge().images[0]
    assert again.relock is None
    assert (again.verdict, again.content_key) == (Verdict.NOTHING, judged.content_key)
    assert [source.left_out for source in again.sources] == [("docs/use.md",)]


def test_nothing_is_written_beside_another_recipe_than_the_judged_one(project: Project) -> None:
    documents(project)
    project.git.run("checkout", "--quiet", "main")
    before = project.workspace.lock("probe").read_text()
    with pytest.raises(RecipeError, match=r"images/probe/recipe\.toml: --write: the work tree has another recipe"):
        project.judge(write=True)
    assert project.workspace.lock("probe").read_text() == before
    assert project.judge().images[0].verdict is Verdict.NOTHING


def test_a_lock_that_cannot_be_made_is_not_written_and_those_of_other_images_are(project: Project) -> None:
    project.git.run("checkout", "--quiet", "main")
    project.write("other")
    project.lock("other")
    project.git.commit({})
    project.git.run("checkout", "--quiet", "-B", "bump")
    fine = project.engine.commit({"docs/use.md": "Otherwise.\n"})
    before = project.workspace.lock("probe").read_text()
    project.write("probe", fork="ab" * 20)
    project.write("other", engine=fine, made_for=fine)
    project.git.commit({})
    report = project.judge(write=True)
    assert {image.image: image.verdict for image in report.images} == {
        "other": Verdict.NOTHING,
        "probe": Verdict.UNKNOWN,
    }
    assert report.exit_code == 3
    assert project.workspace.lock("probe").read_text() == before
    assert prepare(project.workspace, "other").lock.source["engine"].commit == fine


def test_only_what_moved_is_resolved_anew_so_that_nothing_else_moves_with_it(project: Project) -> None:
    old = parse_lock(project.workspace.lock("probe").read_text(), file="recipe.lock")
    project.bump(fork=project.fork.commit({"README.md": "Another.\n"}))
    project.engine.commit({"python/engine/__init__.py": "VERSION = 2\n"})
    project.judge(write=True)
    new = parse_lock(project.workspace.lock("probe").read_text(), file="recipe.lock")
    assert new.source["engine"] == old.source["engine"]
    assert new.source["fork"].commit == project.pins["fork"]
    assert new.epoch == old.epoch


def test_what_is_built_on_a_touched_image_is_touched_and_comes_after_it(project: Project) -> None:
    project.git.run("checkout", "--quiet", "main")
    project.write("above", text=ABOVE)
    project.write("alone", text=ABOVE.replace('"above"', '"alone"').replace('recipe = "probe"', BASE))
    project.lock("above", "alone")
    project.git.commit({})
    project.git.run("checkout", "--quiet", "-B", "bump")
    code(project)
    report = project.judge()
    assert [(image.image, image.verdict) for image in report.images] == [
        ("probe", Verdict.BUILD),
        ("above", Verdict.BUILD),
    ]
    assert report.untouched == ("alone",)
    assert [image.image for image in project.judge("above").images] == ["above"]
    with pytest.raises(RecipeError, match="there is no image called 'abvoe' at either revision"):
        project.judge("abvoe")


def test_patches_of_the_project_touch_the_images_that_take_them(project: Project) -> None:
    project.git.run("checkout", "--quiet", "main")
    own = project.recipe().replace('source = "fork", directory = "patches"', 'directory = "patches/engine"')
    project.git.commit({"patches/engine/0001-limit.patch": FIX})
    project.write(text=own)
    project.lock()
    project.git.commit({})
    project.git.run("checkout", "--quiet", "-B", "bump")
    project.git.commit({"patches/README.md": "About patches.\n"})
    assert project.judge().images == ()
    project.git.commit({"patches/engine/0001-limit.patch": FIX.replace("+LIMIT = 2", "+LIMIT = 4")})
    image = project.judge().images[0]
    assert (image.verdict, image.relock and image.relock.names) == (Verdict.BUILD, ("engine",))


def test_an_image_that_is_new_is_built_and_one_that_is_gone_is_named(project: Project) -> None:
    project.write("other")
    project.git.run("rm", "--quiet", "-r", "images/probe")
    project.git.commit({})
    report = project.judge()
    assert [(image.image, image.verdict, image.reasons) for image in report.images] == [
        ("other", Verdict.BUILD, ("BASE has no such image",))
    ]
    assert report.gone == ("probe",)
    assert "No longer there: `probe`." in markdown(report)
    assert image_lines(markdown(report), "lock was made anew") == [
        "- The lock was made anew as a whole, to judge this; it still has to be written."
    ]


def image_lines(text: str, words: str) -> list[str]:
    return [line for line in text.splitlines() if words in line]


def test_a_base_that_was_not_in_order_says_so_and_the_image_is_built(project: Project) -> None:
    project.git.run("checkout", "--quiet", "main")
    project.workspace.lock("probe").unlink()
    project.git.commit({})
    project.git.run("checkout", "--quiet", "-B", "bump")
    code(project)
    report = project.judge()
    assert report.images[0].verdict is Verdict.BUILD
    assert report.images[0].reasons == (
        "BASE is not in order: images/probe/recipe.lock: the recipe was never locked",
    )


def test_a_redundant_patch_fails_where_a_ci_runs(project: Project) -> None:
    text = (project.engine.folder / "python/engine/kernels.py").read_text()
    commit = project.engine.commit({"python/engine/kernels.py": text.replace("LIMIT = 1", "LIMIT = 2")})
    project.bump(engine=commit, made_for=commit)
    assert project.judge().exit_code == 0
    strict = project.judge(strict=True)
    assert strict.exit_code == PatchError.exit_code
    assert [finding.key for finding in strict.images[0].errors] == ["patch.series"]


def test_three_dots_compare_with_where_the_branch_began(project: Project) -> None:
    documents(project)
    project.git.run("checkout", "--quiet", "main")
    project.write("other")
    project.git.commit({})
    project.git.run("checkout", "--quiet", "bump")
    assert project.judge(revisions="main...bump").gone == ()
    assert project.judge(revisions="main..bump").gone == ("other",)
    assert [image.image for image in project.judge(revisions="main...").images] == ["probe"]


def test_a_fork_that_moved_on_ends_with_4_and_names_both_pins_and_the_report_is_whole(project: Project) -> None:
    project.bump(fork=project.fork.commit({"patches/0001-limit.patch": FIX.replace("LIMIT = 1", "LIMIT = 16")}))
    for words in (("bump-check", "main..bump"), ("lock", "probe")):
        done = command(project, *words)
        assert done.returncode == 4, done.stderr
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert f"engine is at {project.pins['engine']}, the series of fork {project.pins['fork']}" in errors[0]
    report = command(project, "bump-check", "main..bump").stdout
    assert report.startswith("## What this bump does: 1 image cannot be built; 1 with errors\n")
    assert "`series` **conflicts**, was applies" in report


def test_an_engine_bumped_without_its_series_ends_with_4_and_names_both_pins_everywhere(project: Project) -> None:
    made_for = project.pins["engine"]
    project.bump(engine=project.engine.commit({"python/engine/__init__.py": "VERSION = 2\n"}))
    said = f"patch.series.series.made-for: made for engine {made_for}, the recipe pins {project.pins['engine']}"
    for words in (("bump-check", "main..bump"), ("plan",), ("build", "probe"), ("lock",), ("check",)):
        done = command(project, *words, DOCKER_HOST="unix:///nonexistent")
        assert done.returncode == 4, (words, done.stderr)
        assert said in (done.stdout if words == ("check",) else done.stderr), words


def test_the_report_is_markdown_or_json_on_standard_output_and_errors_go_to_the_other(project: Project) -> None:
    code(project)
    done = command(project, "bump-check", "main..bump")
    assert done.returncode == 0, done.stderr
    assert done.stdout == markdown(project.judge())
    assert "error: " not in done.stderr
    table = json.loads(command(project, "bump-check", "main..bump", "--json").stdout)
    Draft7Validator(SCHEMAS["bump-check"]()).validate(table)
    assert table == json.loads(json.dumps(project.judge().plain()))
    assert [(image["image"], image["verdict"]) for image in table["images"]] == [("probe", "build")]
    assert table["head"] == project.git.run("rev-parse", "bump")


@pytest.mark.parametrize(
    ("revisions", "said"),
    [
        ("main", "expected two revisions as BASE..HEAD, got 'main'"),
        ("..", "expected two revisions as BASE..HEAD, got '..'"),
        ("--all..bump", "expected two revisions as BASE..HEAD, got '--all..bump'"),
        ("main..--all", "expected two revisions as BASE..HEAD, got 'main..--all'"),
        ("main..nowhere", "there is no commit 'nowhere' in this repository"),
        ("nowhere..bump", "there is no commit 'nowhere' in this repository"),
    ],
)
def test_revisions_that_are_none_are_refused(project: Project, revisions: str, said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        project.judge(revisions=revisions)
    assert caught.value.message == said


def test_a_folder_without_a_repository_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere/images").mkdir(parents=True)
    done = subprocess.run(
        [str(COMMAND), "--root", str(tmp_path / "elsewhere"), "bump-check", "main..HEAD"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "git cannot read this repository" in done.stderr
    assert done.stdout == ""


def test_a_project_below_the_root_of_its_repository_is_judged_alike(project: Project) -> None:
    documents(project)
    alone = project.judge().images[0]
    for branch in ("main", "bump"):
        project.git.run("checkout", "--quiet", branch)
        (project.git.folder / "deep/project").mkdir(parents=True)
        project.git.run("mv", "images", "deep/project/")
        project.git.commit({"images/other/recipe.toml": "no recipe of this project"})
    (project.git.folder / "mirrors.toml").rename(project.git.folder / "deep/project/mirrors.toml")
    project.git.folder = project.git.folder / "deep/project"
    below = project.judge().images
    assert [(image.image, image.verdict, image.content_key) for image in below] == [
        ("probe", alone.verdict, alone.content_key)
    ]


def test_keys_and_hashes_of_a_report_can_be_read_by_programs(project: Project) -> None:
    documents(project)
    plain = project.judge().plain()
    Draft7Validator(SCHEMAS["bump-check"]()).validate(json.loads(json.dumps(plain)))
    assert re.fullmatch("[0-9a-f]{64}", plain["images"][0]["content-key"]["new"])
    assert plain["images"][0]["fingerprint"]["moved"] is False
    assert plain["images"][0]["lock"] == {"updated": ["engine"], "written": False}
