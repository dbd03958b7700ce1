"""The commands `pin show` and `pin apply` as they are called: what they write, print and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from builder.cli.app import app
from builder.errors import Failure, LockError, RecipeError, SmokeError
from builder.workspace import rewrite_all

from .conftest import DIGEST, NAME, OLD, PASSED, REFERENCE, TAG, Project, record

BEFORE = f"# first\nimage:   '{NAME}:{OLD}'  \r\n"
AFTER = BEFORE.replace(OLD, f"{TAG}@{DIGEST}")
OTHER = "registry.example.org/llm/vllm"


def call(project: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["--root", str(project), *words])


def refused(project: Path, *words: str) -> Failure:
    result = call(project, *words)
    assert result.stdout == ""
    assert isinstance(result.exception, Failure), result.output
    return result.exception


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    path = tmp_path / "compose.yaml"
    path.write_bytes(BEFORE.encode())
    return path


def other(**changed: Any) -> dict[str, Any]:
    return record(image="vllm", reference=f"{OTHER}:{TAG}@{DIGEST}", **changed)


def test_a_deployment_is_written_and_the_difference_is_all_that_is_on_standard_output(
    project: Project, deployment: Path
) -> None:
    deployment.chmod(0o640)
    root = project()
    done = call(root, "pin", "apply", "sglang-gfx1201", str(deployment))
    assert done.exit_code == 0, done.output
    path = str(deployment).lstrip("/")
    assert done.stdout.replace("\r\n", "\n").splitlines(keepends=True) == [
        f"--- a/{path}\n", f"+++ b/{path}\n", "@@ -1,2 +1,2 @@\n", " # first\n",
        f"-image:   '{NAME}:{OLD}'  \n", f"+image:   '{NAME}:{TAG}@{DIGEST}'  \n",
    ]  # fmt: skip
    assert done.stderr == f"    {deployment}: 1 place changed\n"
    assert deployment.read_bytes() == AFTER.encode()
    assert deployment.stat().st_mode & 0o777 == 0o640
    again = call(root, "pin", "apply", "sglang-gfx1201", str(deployment))
    assert (again.exit_code, again.stdout) == (0, "")
    assert again.stderr == f"    {deployment}: names it already, nothing to change\n"


def test_a_proposal_shows_the_same_and_writes_nothing(project: Project, deployment: Path) -> None:
    root = project()
    proposed = call(root, "pin", "apply", "sglang-gfx1201", str(deployment), "--propose")
    assert proposed.exit_code == 0
    assert deployment.read_bytes() == BEFORE.encode()
    assert proposed.stderr == f"    {deployment}: 1 place to change, nothing was written\n"
    assert call(root, "pin", "apply", "sglang-gfx1201", str(deployment)).stdout == proposed.stdout
    assert not list(deployment.parent.glob(".*"))


def test_json_says_what_was_done_where(project: Project, deployment: Path) -> None:
    root = project()
    words = ("pin", "apply", "sglang-gfx1201", str(deployment), "--json")
    told = json.loads(call(root, *words, "--propose").stdout)
    assert told["written"] is False
    told = json.loads(call(root, *words).stdout)
    assert (told["written"], told["images"]) == (True, [REFERENCE])
    (file,) = told["files"]
    assert (file["file"], file["changes"]) == (str(deployment), True)
    assert file["places"] == [{"line": 2, "key": "image", "was": f"one text, {OLD}", "changes": True}]
    assert file["diff"].startswith("--- a/")
    told = json.loads(call(root, *words).stdout)
    assert (told["written"], told["files"][0]["changes"], told["files"][0]["diff"]) == (False, False, "")


def test_a_link_goes_on_to_lead_where_it_leads_and_a_file_named_twice_is_written_once(
    project: Project, deployment: Path
) -> None:
    link = deployment.with_name("current.yaml")
    link.symlink_to(deployment.name)
    done = call(project(), "pin", "apply", "sglang-gfx1201", str(link), str(deployment))
    assert done.exit_code == 0
    assert done.stdout.count("--- ") == 1
    assert link.readlink() == Path(deployment.name)
    assert deployment.read_bytes() == AFTER.encode()


def test_all_files_are_judged_before_the_first_is_written(project: Project, deployment: Path) -> None:
    root, second = project(), deployment.with_name("values.yaml")
    second.write_text("image: docker.io/library/redis:7\n")
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment), str(second))
    assert failure.message == f"{second}: does not name {NAME}"
    assert failure.details == ("it names docker.io/library/redis:7",)
    missing = deployment.with_name("gone.yaml")
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment), str(second), str(missing))
    assert failure.message == "2 of 3 files cannot be pinned, nothing was written"
    assert failure.details == (
        f"{second}: does not name {NAME}", "  it names docker.io/library/redis:7",
        f"{missing}: no such file or directory",
    )  # fmt: skip
    assert failure.exit_code == 2
    assert deployment.read_bytes() == BEFORE.encode()


def test_when_one_file_cannot_be_written_none_is(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "folder" / "second"
    first.write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        rewrite_all({first: b"new", second: b"new"})
    assert first.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


def test_a_record_whose_tests_did_not_pass_is_refused(project: Project, deployment: Path) -> None:
    broken = {"tiers": {"cpu": "failed"}, "tests": {"imports": "passed", "the hash extension compiles": "failed"}}
    failure = refused(
        project(sglang_gfx1201=record(smoke=broken)), "pin", "apply", "sglang-gfx1201", str(deployment)
    )
    assert isinstance(failure, SmokeError)
    assert failure.message == f"pins/sglang-gfx1201.json: the smoke tests of {DIGEST} did not pass"
    assert failure.details == ("the hash extension compiles: failed",)
    assert failure.hint == "rocm-images test sglang-gfx1201"
    assert deployment.read_bytes() == BEFORE.encode()


@pytest.mark.parametrize("smoke", [{}, None, {"tiers": {}}, {"tiers": {"gpu": "passed"}, "tests": {}}])
def test_a_record_without_a_word_of_tests_is_refused(project: Project, deployment: Path, smoke: object) -> None:
    root = project(sglang_gfx1201=record(smoke=smoke))
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment))
    assert isinstance(failure, SmokeError)
    assert failure.message == f"pins/sglang-gfx1201.json: the cpu tier of the smoke tests: not run, on {DIGEST}"


def test_a_tier_that_is_asked_for_has_to_have_passed(project: Project, deployment: Path) -> None:
    root = project()
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment), "--require", "gpu")
    assert isinstance(failure, SmokeError)
    assert failure.message == f"pins/sglang-gfx1201.json: the gpu tier of the smoke tests: not run, on {DIGEST}"
    assert failure.hint == (
        "rocm-images build sglang-gfx1201 --publish HOST/NAMESPACE --require gpu, on a machine with a card"
    )
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment), "--require", "gpi")
    assert failure.message == "--require: there is no tier 'gpi'; did you mean 'gpu'?"
    passed = root / "pins/sglang-gfx1201.json"
    passed.write_text(json.dumps(record(smoke={**PASSED, "tiers": {"cpu": "passed", "gpu": "passed"}})))
    assert call(root, "pin", "apply", "sglang-gfx1201", str(deployment), "--require", "gpu").exit_code == 0


def test_a_record_that_was_changed_by_hand_is_refused(project: Project, deployment: Path) -> None:
    root = project(sglang_gfx1201=record(digest="sha256:" + "0" * 64))
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment))
    assert isinstance(failure, LockError)
    assert failure.message == (
        "pins/sglang-gfx1201.json: reference: expected the tag and the digest that was tested, "
        f"sha256:{'0' * 64}; got {REFERENCE}"
    )


def test_the_first_word_may_be_a_record_and_needs_no_repository_around(
    project: Project, deployment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = deployment.with_name("pin.json")
    table.write_text(json.dumps(record()))
    monkeypatch.chdir(deployment.parent)
    done = CliRunner().invoke(app, ["pin", "apply", "pin.json", "compose.yaml"])
    assert done.exit_code == 0, done.output
    assert deployment.read_bytes() == AFTER.encode()
    assert CliRunner().invoke(app, ["pin", "pin.json"]).stdout == f"{REFERENCE}\n"


def test_without_an_image_every_image_with_a_record_counts_and_those_alone_that_occur_are_tested(
    project: Project, deployment: Path
) -> None:
    root = project(
        sglang_gfx1201=record(),
        vllm=other(smoke={"tiers": {"cpu": "failed"}, "tests": {}}),
        unpublished=None,
    )
    assert call(root, "pin", "apply", str(deployment)).exit_code == 0
    assert deployment.read_bytes() == AFTER.encode()
    deployment.write_text(f"a: {{image: {NAME}:1}}\nb: {{image: {OTHER}:1}}\n")
    failure = refused(root, "pin", "apply", str(deployment))
    assert failure.message == f"pins/vllm.json: the smoke tests of {DIGEST} did not pass"
    assert failure.details == ("cpu tier: failed",)
    (root / "pins/vllm.json").write_text(json.dumps(other()))
    assert call(root, "pin", "apply", str(deployment)).exit_code == 0
    assert deployment.read_text() == (
        f"a: {{image: {NAME}:{TAG}@{DIGEST}}}\nb: {{image: {OTHER}:{TAG}@{DIGEST}}}\n"
    )


def test_a_mirror_is_named_with_as(project: Project, deployment: Path) -> None:
    root = project()
    deployment.write_text("image: mirror.example.org/cache/llm/sglang-gfx1201:1\n")
    words = ("pin", "apply", "sglang-gfx1201", str(deployment), "--as")
    failure = refused(root, *words[:-1])
    assert failure.details == ("line 1: image: mirror.example.org/cache/llm/sglang-gfx1201:1",)
    assert (
        failure.hint == "registry and path have to be those of the record; --as HOST/PATH names those of a mirror"
    )
    assert refused(root, *words, "sglang").message.startswith("--as: expected a registry host first")
    assert refused(root, "pin", "apply", str(deployment), "--as", "a.example/b").message.startswith("--as: ")
    assert call(root, *words, "mirror.example.org/cache/llm/sglang-gfx1201").exit_code == 0
    assert deployment.read_text() == f"image: mirror.example.org/cache/llm/sglang-gfx1201:{TAG}@{DIGEST}\n"


def test_a_record_of_an_image_layout_is_pinned_where_the_image_was_copied_to(
    project: Project, deployment: Path
) -> None:
    in_layout = record(reference=f"oci:out/sglang-gfx1201:{TAG}@{DIGEST}")
    root = project(sglang_gfx1201=in_layout, vllm_gfx1201=record(image="vllm-gfx1201", reference=REFERENCE))
    shown = call(root, "pin", "show", "sglang-gfx1201", "--format", "github").stdout
    assert f"reference=oci:out/sglang-gfx1201:{TAG}@{DIGEST}\n" in shown
    assert f"repository=oci:out/sglang-gfx1201\ntag={TAG}\n" in shown
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment))
    assert isinstance(failure, LockError)
    assert failure.message == (
        "pins/sglang-gfx1201.json: reference: nothing can pull from an image layout, oci:out/sglang-gfx1201"
    )
    assert "--as HOST/PATH" in str(failure.hint)
    deployment.write_text("image: mirror.example.org/llm/sglang:1\n")
    assert (
        call(
            root, "pin", "apply", "sglang-gfx1201", str(deployment), "--as", "mirror.example.org/llm/sglang"
        ).exit_code
        == 0
    )
    assert deployment.read_text() == f"image: mirror.example.org/llm/sglang:{TAG}@{DIGEST}\n"
    deployment.write_text(f"image: {NAME}:1\n")
    assert call(root, "pin", "apply", str(deployment)).exit_code == 0
    assert deployment.read_text() == f"image: {NAME}:{TAG}@{DIGEST}\n"


def test_words_that_are_neither_image_nor_file_are_told_with_what_comes_near(
    project: Project, deployment: Path
) -> None:
    root = project()
    failure = refused(root, "pin", "apply", "sglang-gfx1200", str(deployment))
    assert failure.message == "sglang-gfx1200: neither an image nor a file; did you mean 'sglang-gfx1201'?"
    failure = refused(root, "pin", "apply", "sglang-gfx1201")
    assert failure.message == "sglang-gfx1201: no deployment was named to put its pin into"
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment.parent / "images.yaml"))
    assert failure.message == f"{deployment.parent}/images.yaml: no such file or directory"
    (deployment.parent / "folder.yaml").mkdir()
    failure = refused(root, "pin", "apply", "sglang-gfx1201", str(deployment.parent / "folder.yaml"))
    assert failure.message == f"{deployment.parent}/folder.yaml: is a directory"


def test_without_any_record_the_remedy_is_a_build(project: Project, deployment: Path) -> None:
    root = project(sglang_gfx1201=None)
    for words in (("sglang-gfx1201", str(deployment)), (str(deployment),)):
        failure = refused(root, "pin", "apply", *words)
        assert isinstance(failure, LockError)
        assert str(failure.hint).endswith("--publish HOST/NAMESPACE")


def test_a_record_of_a_former_version_is_named_with_the_remedy(project: Project) -> None:
    root = project(sglang_gfx1201=None)
    former = root / "dist/sglang-gfx1201/pin.json"
    former.parent.mkdir(parents=True)
    former.write_text(json.dumps(record(schema=1)))
    failure = refused(root, "pin", "sglang-gfx1201")
    assert isinstance(failure, LockError)
    assert failure.message == (
        "pins/sglang-gfx1201.json: sglang-gfx1201 has no published, tested build here; "
        "dist/sglang-gfx1201/pin.json is of a former version, and not read"
    )
    assert failure.hint == "rocm-images build sglang-gfx1201 --publish HOST/NAMESPACE"
    (root / "pins").mkdir()
    former.rename(root / "pins/sglang-gfx1201.json")
    failure = refused(root, "pin", "sglang-gfx1201")
    assert failure.message == "pins/sglang-gfx1201.json: schema: expected 2, the format of this version, got 1"
    assert failure.hint == "rocm-images build sglang-gfx1201 --publish HOST/NAMESPACE"


def test_an_image_is_shown_with_and_without_the_word_show(project: Project) -> None:
    root = project()
    for words in (("pin",), ("pin", "show")):
        assert call(root, *words, "sglang-gfx1201").stdout == f"{REFERENCE}\n"
        assert json.loads(call(root, *words, "sglang-gfx1201", "--json").stdout) == record()
        assert json.loads(call(root, *words, "--json", "sglang-gfx1201").stdout) == record()
    assert isinstance(refused(root, "pin", "sglang"), RecipeError)
    for data in (b"image: x\n", b"\xff", b"[]"):
        (root / "deploy.yaml").write_bytes(data)
        failure = refused(root, "pin", str(root / "deploy.yaml"))
        assert failure.message == f"{root}/deploy.yaml: neither an image nor the record of one"
        assert failure.hint == "records are written to pins/IMAGE.json"


def test_every_format_has_the_same_digest(project: Project) -> None:
    root = project()

    def shown(form: str) -> str:
        return call(root, "pin", "show", "sglang-gfx1201", "--format", form).stdout

    assert shown("reference") == f"{REFERENCE}\n"
    assert shown("digest") == f"{DIGEST}\n"
    assert json.loads(shown("json")) == record()
    assert shown("github") == (
        f"reference={REFERENCE}\nrepository={NAME}\ntag={TAG}\ndigest={DIGEST}\nfingerprint=a1b2c3d4e5f60718\n"
    )
    assert shown("env") == (
        f"IMAGE_REFERENCE={REFERENCE}\nIMAGE_REPOSITORY={NAME}\nIMAGE_TAG={TAG}\nIMAGE_DIGEST={DIGEST}\n"
        "IMAGE_FINGERPRINT=a1b2c3d4e5f60718\n"
    )
    (root / "pins/sglang-gfx1201.json").write_text(json.dumps(record(fingerprint="a\nb=c")))
    failure = refused(root, "pin", "show", "sglang-gfx1201", "--format", "github")
    assert failure.message == ("pins/sglang-gfx1201.json: fingerprint: expected 16 hex digits, got 'a\\nb=c'")
    failure = refused(root, "pin", "show", "sglang-gfx1201", "--format", "jsn")
    assert failure.message == "--format: there is no format 'jsn'; did you mean 'json'?"
    failure = refused(root, "pin", "show", "sglang-gfx1201", "--format", "env", "--json")
    assert failure.message == "--json: the format is to be env"
