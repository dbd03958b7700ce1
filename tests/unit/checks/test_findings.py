from __future__ import annotations

from builder.errors import EngineError, LockError, RecipeError
from builder.findings import exit_code, from_failure


def test_each_line_of_a_failure_is_a_finding_with_file_and_key() -> None:
    text = (
        "images/a/recipe.toml: component.x.version: expected a version\nimages/a/recipe.toml: not a TOML file: x"
    )
    first, second = from_failure(RecipeError(text, hint="do"), image="a", file="images/a/recipe.toml", check="r")
    assert (first.file, first.key, first.message) == (
        "images/a/recipe.toml", "component.x.version", "expected a version",
    )  # fmt: skip
    assert (second.key, second.message, second.hint) == ("", "not a TOML file: x", "do")
    assert second.line == "images/a/recipe.toml: not a TOML file: x"


def test_a_failure_that_names_no_file_is_about_the_pin_it_was_asked_for() -> None:
    said = "https://example.org/x: tag 'v1' has moved: pinned is a, it is now at b"
    failure = LockError(said)
    (only,) = from_failure(failure, image="a", file="images/a/recipe.toml", check="online", key="source.x.tag")
    assert only.line == f"images/a/recipe.toml: source.x.tag: {said}"


def test_what_the_user_wrote_outranks_the_lock_and_that_a_network_that_is_down() -> None:
    findings = [
        from_failure(failure, image="a", file="f", check="c")[0]
        for failure in (EngineError("down"), LockError("gone"), RecipeError("wrong"))
    ]
    assert [exit_code(findings[:number]) for number in range(4)] == [0, 8, 3, 2]
