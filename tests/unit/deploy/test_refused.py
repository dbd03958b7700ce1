"""Deployments that are refused: each of tests/data/deployments-refused with exactly the text that a user sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.cli.console import Console
from builder.deploy.pinning import decoded, pinned, pinned_all
from builder.errors import RecipeError

from .conftest import DIGEST, NAME, TAG, target

REFUSED = sorted((Path(__file__).resolve().parents[2] / "data/deployments-refused").iterdir())
CANARY = f"stable:\n  image: {NAME}:0.5.15\ncanary:\n  image: {NAME}:0.5.16\n"


@pytest.mark.parametrize("folder", REFUSED, ids=lambda folder: folder.name)
def test_a_deployment_is_refused_with_its_whole_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = (path for path in folder.iterdir() if path.name != "expected.txt")
    with pytest.raises(RecipeError) as refused:
        pinned(file.read_bytes().decode(), file=file.name, target=target())
    Console().failure(refused.value)
    assert capsys.readouterr().err == (folder / "expected.txt").read_text(encoding="utf-8")
    assert refused.value.exit_code == 2


def test_all_is_an_answer_to_different_versions_but_not_to_one_text_that_would_become_two() -> None:
    done = pinned(CANARY, file="rollout.yaml", target=target(), every=True)
    assert done.after == f"stable:\n  image: {NAME}:{TAG}@{DIGEST}\ncanary:\n  image: {NAME}:{TAG}@{DIGEST}\n"
    shared = f"a: &a\n  repository: {NAME}\n  tag: '1'\nb:\n  <<: *a\n  digest: ''\n"
    with pytest.raises(RecipeError) as refused:
        pinned(shared, file="values.yaml", target=target(), every=True)
    assert refused.value.message == (
        f"values.yaml: {NAME} stands there in different ways, and they share a text that would have to become two"
    )
    assert refused.value.details == (
        "line 2: a.repository: in parts, tag 1",
        "line 2: b.repository: in parts, tag 1, digest empty",
    )


def test_a_key_or_a_pattern_of_keys_says_which_place_is_meant() -> None:
    for at in ("canary.image", "canary.*", "can*"):
        done = pinned(CANARY, file="rollout.yaml", target=target(), at=[at])
        assert done.after == CANARY.replace(":0.5.16", f":{TAG}@{DIGEST}")
        assert pinned(done.after, file="rollout.yaml", target=target(), at=[at]).diff == ""
    listed = f"containers:\n- image: {NAME}:1\n- image: {NAME}:2\n"
    done = pinned(listed, file="pod.yaml", target=target(), at=["containers[1].image"])
    assert done.after == listed.replace(":2", f":{TAG}@{DIGEST}")


def test_a_key_that_no_place_has_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(RecipeError) as refused:
        pinned(CANARY, file="rollout.yaml", target=target(), at=["canari.image"])
    assert refused.value.message == f"rollout.yaml: no place that names {NAME} fits --at canari.image"
    assert refused.value.details == (
        "line 2: stable.image: one text, 0.5.15",
        "line 4: canary.image: one text, 0.5.16",
    )


def test_a_place_that_cannot_be_changed_may_be_left_out() -> None:
    text = f"services:\n  a:\n    image: {NAME}:1\n  b:\n    image: {NAME}:${{TAG}}\n"
    done = pinned(text, file="compose.yaml", target=target(), at=["services.a.image"])
    assert done.after == text.replace(":1\n", f":{TAG}@{DIGEST}\n")


def test_a_file_of_two_images_takes_both_and_one_that_names_neither_says_what_was_looked_for() -> None:
    other = "registry.example.org/llm/vllm"
    text = f"a: {{image: '{NAME}:1'}}\nb: {{image: '{other}:1'}}\n"
    done = pinned_all(text, file="compose.yaml", targets=[target(), target(other)])
    assert done.after == text.replace(":1'", f":{TAG}@{DIGEST}'")
    assert [place.image for place in done.places] == [NAME, other]
    with pytest.raises(RecipeError) as refused:
        pinned_all("a: 1\n", file="x.yaml", targets=[target(), target(other)])
    assert refused.value.message == "x.yaml: names no image that has a record here"
    assert refused.value.details == (f"looked for {NAME}", f"looked for {other}")


def test_bytes_that_are_no_text_are_refused_and_not_replaced() -> None:
    with pytest.raises(RecipeError, match=r"x\.yaml: this is no UTF-8: invalid start byte at byte 1"):
        decoded(b"a\xff", file="x.yaml")


def test_what_is_made_to_exhaust_a_reader_does_not() -> None:
    laughs = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    done = pinned(f"{laughs}image: {NAME}:1\n", file="x.yaml", target=target())
    assert done.after == f"{laughs}image: {NAME}:{TAG}@{DIGEST}\n"
    itself = f"a: &a\n  b: *a\n  c: [*a]\n  image: {NAME}:1\n"
    assert len(pinned(itself, file="x.yaml", target=target()).places) == 1
    for file, text in (("x.yaml", "[" * 5000), ("x.hcl", "a = " + "[" * 5000), ("x.toml", "a = " + "[" * 5000)):
        with pytest.raises(RecipeError):
            pinned(text, file=file, target=target())
