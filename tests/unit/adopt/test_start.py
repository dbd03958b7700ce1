"""The commands `adopt`, `init` and `new` as they are called: what they write, print and refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from builder.checks.offline import check_image
from builder.cli.app import app
from builder.errors import Failure, RecipeError
from builder.mirrors import Mirrors, load_mirrors
from builder.newrepository import files_of, renamed
from builder.project import load_recipe
from builder.workspace import Workspace

from .goldens import CASES

ROOT = Path(__file__).resolve().parents[3]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROGRAM = ("--program", "them/rocm-images", "--program-ref", COMMIT)


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(*words: object) -> Failure:
    result = call(*words)
    assert result.stdout == ""
    assert isinstance(result.exception, Failure), result.output
    assert result.exception.exit_code == 2
    return result.exception


def every_file(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_adopt_prints_the_draft_and_accounts_for_the_input_on_standard_error() -> None:
    done = call("adopt", CASES / "conditionals" / "Dockerfile")
    assert done.stdout == (CASES / "conditionals" / "draft.toml").read_text()
    for line in (CASES / "conditionals" / "report.txt").read_text().splitlines():
        assert line.strip() in done.stderr
    assert "8 points are open" in done.stderr


def test_adopt_writes_the_draft_into_a_folder_and_overwrites_nothing(tmp_path: Path) -> None:
    into, dockerfile = tmp_path / "images" / "heredocs", CASES / "heredocs" / "Dockerfile"
    done = call("adopt", dockerfile, "--into", into)
    assert done.stdout == f"{into / 'recipe.toml'}\n"
    assert (into / "recipe.toml").read_text() == (CASES / "heredocs" / "draft.toml").read_text()
    (into / "recipe.toml").write_text("mine")
    failure = refused("adopt", dockerfile, "--into", into)
    assert failure.message == f"{into / 'recipe.toml'}: is there already; nothing is overwritten"
    assert (into / "recipe.toml").read_text() == "mine"


def test_adopt_has_the_draft_and_the_report_as_json() -> None:
    found = json.loads(call("adopt", CASES / "vllm-nightly" / "Dockerfile", "--json").stdout)
    assert found["file"] is None
    assert found["recipe"] == (CASES / "vllm-nightly" / "draft.toml").read_text()
    assert found["accounts"][0]["became"] == ["base.build.image", "base.runtime.image"]
    assert [point["number"] for point in found["points"]] == list(range(1, len(found["points"]) + 1))


def test_adopt_names_the_image_by_its_folder_or_by_the_ending_of_the_file(tmp_path: Path) -> None:
    for file, name in (("Engine/Dockerfile", "engine"), ("Engine/Dockerfile.vllm", "vllm")):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("FROM a\n")
        assert f'\nname = "{name}"\n' in call("adopt", tmp_path / file).stdout


def test_adopt_refuses_what_it_cannot_read_or_name(tmp_path: Path) -> None:
    binary, dockerfile = tmp_path / "binary", tmp_path / "Dockerfile"
    binary.write_bytes(b"FROM \xff")
    dockerfile.write_text("FROM a\n")
    assert refused("adopt", tmp_path / "none", "--name", "x").message.endswith("none: no such file or directory")
    assert refused("adopt", binary, "--name", "x").message.endswith("binary: is no text in UTF-8")
    assert "lower-case" in refused("adopt", dockerfile, "--name", "No").message
    assert "expected a" in refused("adopt", dockerfile, "--name", "b", "--into", tmp_path / "a").message
    assert "expected NAME=VALUE" in refused("adopt", dockerfile, "--name", "x", "--build-arg", "A").message
    assert "no stage is called 'z'" in refused("adopt", dockerfile, "--name", "x", "--target", "z").message


def test_adopt_takes_the_values_of_arguments() -> None:
    done = call("adopt", CASES / "conditionals" / "Dockerfile", "--build-arg", "GPU_ARCH=gfx1201")
    assert "dev-ubuntu-24.04:7.2.4 floats" in done.stdout.replace("\n# ", " ")


def test_init_makes_a_repository_whose_example_lacks_nothing_but_a_lock(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    done = call("init", folder, *PROGRAM, "--publish", "ghcr.io/me/llm")
    assert done.stdout == f"{folder}\n"
    assert "OWNER/REPO" not in "".join(every_file(folder).values())
    found = check_image(Workspace(root=folder), "example", mirrors=Mirrors())
    assert [(each.check, each.severity) for each in found if each.severity != "note"] == [("lock", "error")]


def test_init_says_what_the_workflows_still_lack(tmp_path: Path) -> None:
    done = call("init", tmp_path / "mine")
    assert "the workflows have OWNER/REPO and COMMIT" in done.stderr
    assert "OWNER/REPO and COMMIT" in (tmp_path / "mine" / "README.md").read_text()


def test_init_without_the_example_has_the_folder_all_the_same(tmp_path: Path) -> None:
    call("init", tmp_path, "--no-example")
    assert [path.name for path in (tmp_path / "images").iterdir()] == [".gitkeep"]


def test_init_writes_nothing_where_one_of_its_files_is_there(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "other").write_text("mine too")
    failure = refused("init", tmp_path)
    assert failure.message == f"{tmp_path}: nothing was written, 1 of its files are there already"
    assert failure.details == ("README.md",)
    assert every_file(tmp_path) == {"README.md": "mine", "other": "mine too"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--program", "x"),
        ("--program-ref", "main"),
        ("--publish", "https://ghcr.io/me"),
        ("--publish", "GHCR.io/Me"),
    ],
)
def test_init_refuses_values_that_would_make_broken_files(option: str, value: str, tmp_path: Path) -> None:
    assert f"{option} {value!r}: expected" in refused("init", tmp_path / "x", option, value).message
    assert not (tmp_path / "x").exists()


def test_the_workflows_are_those_that_the_page_on_ci_shows() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    shown = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", page, re.DOTALL))
    made = files_of(example=False, publish="ghcr.io/ME/llm".lower())
    for name, text in shown.items():
        if name in made:
            written = re.sub(r"# v[0-9.]+", "# v1.0.0", made[name]).replace("ghcr.io/me/llm", "ghcr.io/ME/llm")
            assert written == text, name
    assert len(set(shown) & set(made)) == 3
    for name in made:
        if name.endswith(".yml"):
            assert set(yaml.safe_load(made[name])["jobs"]) <= {"images", "pins", "bump", "fetchable"}


def test_the_example_of_mirrors_is_one_when_its_signs_are_gone(tmp_path: Path) -> None:
    lines = files_of(example=False)["mirrors.example.toml"].splitlines()
    (tmp_path / "mirrors.toml").write_text("\n".join(line.removeprefix("#").strip() for line in lines[3:]))
    (tmp_path / "wheels").mkdir()
    table = load_mirrors(tmp_path, None)
    assert table.registry("docker.io/rocm/x") == "registry.corp.example:5000/hub/rocm/x"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    call("init", tmp_path)
    image = tmp_path / "images" / "example"
    (image / "recipe.lock").write_text("locked")
    (image / "hooks" / "__pycache__").mkdir(parents=True)
    (image / "hooks" / "a.py").write_text("A = 1\n")
    (image / "hooks" / "__pycache__" / "a.pyc").write_text("")
    return tmp_path


def test_new_copies_an_image_under_another_name_without_its_lock(repository: Path) -> None:
    done = call("--root", repository, "new", "two-cards", "--from", "example")
    assert done.stdout == "images/two-cards/recipe.toml\n"
    before, after = (every_file(repository / "images" / name) for name in ("example", "two-cards"))
    assert set(after) == {"recipe.toml", "hooks/a.py"}
    assert after["recipe.toml"] == before["recipe.toml"].replace('name = "example"', 'name = "two-cards"')
    assert load_recipe(Workspace(root=repository), "two-cards").name == "two-cards"
    assert sorted(path.name for path in (repository / "images").iterdir()) == ["example", "two-cards"]


def test_init_and_new_have_what_they_made_as_json(tmp_path: Path) -> None:
    made = json.loads(call("init", tmp_path / "mine", "--json").stdout)
    assert made["files"] == list(files_of(example=True))
    again = json.loads(call("--root", tmp_path / "mine", "new", "other", "--from", "example", "--json").stdout)
    assert again == {"image": "other", "recipe": "images/other/recipe.toml"}


def test_new_overwrites_nothing_and_names_the_images_there_are(repository: Path) -> None:
    (repository / "images" / "taken").mkdir()
    told = refused("--root", repository, "new", "taken", "--from", "example").message
    assert told == "images/taken: is there already; nothing is overwritten"
    told = refused("--root", repository, "new", "other", "--from", "exampel").message
    assert told == "images/exampel: no image is called so; known: example"
    assert "lower-case" in refused("--root", repository, "new", "../x", "--from", "example").message
    assert sorted(path.name for path in (repository / "images").iterdir()) == ["example", "taken"]


def test_a_name_in_a_table_is_not_the_name_of_the_recipe() -> None:
    text = "schema = 1\nname = 'old'  # said\n\n[[component]]\nname = \"old\"\n"
    assert renamed(text, "new", file="f") == text.replace("'old'", '"new"')
    with pytest.raises(RecipeError, match="f: name: expected it once"):
        renamed('[x]\nname = "a"\n', "new", file="f")


def test_init_says_what_comes_next_where_something_does(tmp_path: Path) -> None:
    assert (
        f"next: cd '{tmp_path}/my images' && rocm-images lock example"
        in call("init", tmp_path / "my images").stderr
    )
    assert "next:" not in call("init", tmp_path / "bare", "--no-example").stderr
