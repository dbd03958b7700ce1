"""No value of a recipe can say more in a Dockerfile than what it is: it is refused, or stands there as written."""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import Any

import pytest
import tomli
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

from builder.errors import RecipeError
from builder.lockfile import Lock
from builder.plan import layers
from builder.recipe import Recipe, parse_recipe
from builder.render import LAYER_TIME, render, served_environment

from . import samples
from .dockerfile import Instruction, parse
from .kinds import ON_IMAGES

KEY, FINGERPRINT = "c0" * 32, "f1" * 8
HOSTILE = (
    "", " ", "a\nRUN true", "a\r\nRUN true", "a\\\nRUN true", "a\x00b", "\x1b[31m", "\x7f", "\x85RUN true",
    "\u2028RUN true", "\u202eeurt NUR", "\u2066a", "\u200b", "\ufeff", '"', "'", '" RUN="true', "' '", "$(id)",
    "${HOME}", "$HOME", "`id`", "\\", "a\\", "\\\\", '\\"', "\\'", "..", ".", "../../etc", "/etc/passwd", "a/b",
    "a/../../b", "//a", "a//b", "a b", "-x", "--privileged", "--mount=type=secret", "# comment", "#", "a,b", "a;b",
    "a&&b", "a|b", "a>b", "*", "?", "~", "!", "%s", "{x}", "{gfx}", "{fingerprint}", "é", "世界", "🚀", "<<EOF",
    "a=b", "a:b", "a@b", "a" * 5000, "syntax=docker/dockerfile:1", "escape=`",
)  # fmt: skip
# Where a recipe has text: the way there. A list is entered at its first item; "" as a key replaces the key itself.
Place = tuple[str | int, ...]
IN_FULL = """
name description engine gfx/0 python forbid/0 base/build/apt/0 base/runtime/apt/0 base/build/env/CC base/build/env/
source/kernels/path source/ component/0/name component/0/apt component/0/version component/1/name component/1/wheel
component/1/version component/1/index component/2/name component/2/source component/2/version component/2/build/0
component/3/requires/0 component/3/reason image/user image/workdir image/env/KV image/env/HOME image/env/PATH
image/env/ image/entrypoint/0 image/cmd/0 image/writable/0 image/devices/0 image/groups/0 image/shm smoke/imports/0
smoke/absent/0 smoke/jit/0
"""
PLACES: list[tuple[str, Place]] = [
    (samples.FULL, tuple(int(key) if key.isdecimal() else key for key in path.split("/")))
    for path in IN_FULL.split()
]
PLACES += [
    (samples.SMALL, ("base", "build", "debian", "suite")),
    (ON_IMAGES, ("base", "runtime", "image")),
    (ON_IMAGES, ("base", "runtime", "apt", 0)),
]


def with_value(text: str, place: Place, value: str) -> dict[str, Any]:
    """Return a recipe's table with one value, or one key, replaced."""
    table = tomli.loads(text)
    table.setdefault("image", {}).setdefault("entrypoint", ["/usr/bin/env"])
    table["image"].setdefault("env", {}).setdefault("PATH", "/usr/bin:/bin")
    here: Any = table
    for part in place[:-1]:
        here = here[part]
    if place[-1] == "":
        here[value] = here.pop(next(iter(here)))
    else:
        here[place[-1]] = value
    return table


def of_stage(instructions: list[Instruction], name: str) -> list[Instruction]:
    """Return the instructions of the stage whose FROM ends so."""
    starts = [place for place, one in enumerate(instructions) if one.keyword == "FROM"]
    for start, end in pairwise([*starts, len(instructions)]):
        if instructions[start].rest == name:
            return instructions[start + 1 : end]
    raise AssertionError(f"no stage 'FROM {name}'")


def check_that_it_says_what_the_recipe_says(recipe: Recipe, lock: Lock) -> None:
    """Read the rendered Dockerfile and compare every instruction with the recipe."""
    made = parse(render(recipe, lock, content_key=KEY, fingerprint=FINGERPRINT).dockerfile)
    image, stacked = recipe.image, layers(recipe, lock)
    stages = [one.rest for one in made if one.keyword == "FROM"]
    assert stages == [
        "base-runtime AS runtime-packages", "base-build AS build",
        *(f"build AS component-{name}" for name in stacked), "build AS layout", "runtime-packages",
    ]  # fmt: skip
    for stage, base in (("runtime-packages", recipe.base.runtime), ("build", recipe.base.build)):
        steps = of_stage(made, f"base-{stage.removesuffix('-packages')} AS {stage}")
        if stage == "build" and base.env:
            env = next(one for one in steps if one.keyword == "ENV")
            assert env.pairs == base.env
            steps.remove(env)
        if base.image is not None:
            assert steps.pop(0) == Instruction("USER", "0:0")
            words = shlex.split(steps.pop().rest) if base.apt else ["--no-install-recommends", "&&"]
            start = words.index("--no-install-recommends") + 1
            assert words[start : words.index("&&", start)] == sorted(base.apt)
        assert all(one.words[:2] == ["sh", "/media/install-debs.sh"] for one in steps)
        assert len(steps) == bool(base.debian and base.apt)
    for component in recipe.component:
        if component.source is not None:
            (step,) = of_stage(made, f"build AS component-{component.name}")
            flags = " ".join(f"--offload-arch={target}" for target in recipe.gfx)
            expected = [
                command.replace("{destdir}", "/out").replace("{offload-arch}", flags)
                for command in component.build
            ]
            assert step.words == ["sh", "/media/build-source.sh", LAYER_TIME, *expected]
    last = of_stage(made, "runtime-packages")
    env = served_environment(recipe, fingerprint=FINGERPRINT)
    expected_keywords = ["RUN", "WORKDIR", *["COPY"] * (len(stacked) + 1), "ENV", "LABEL"]
    expected_keywords += ["EXPOSE"] * len(image.expose) + ["VOLUME"] * bool(image.writable) + ["USER"]
    expected_keywords += ["ENTRYPOINT"] * bool(image.entrypoint or recipe.base.runtime.image) + ["CMD"]
    assert [one.keyword for one in last] == expected_keywords
    by_keyword = {one.keyword: one for one in last}
    assert by_keyword["RUN"].words == [
        "sh", "/media/make-user.sh", str(lock.epoch), image.user, str(image.uid), env["HOME"], image.workdir,
        *image.writable,
    ]  # fmt: skip
    assert by_keyword["WORKDIR"].rest == image.workdir
    assert by_keyword["ENV"].pairs == env
    labels = by_keyword["LABEL"].pairs
    assert labels["org.opencontainers.image.title"] == recipe.name
    assert labels["org.opencontainers.image.version"] == recipe.version
    assert labels["rocm-images.gfx"].split(",") == list(recipe.gfx)
    assert labels.get("rocm-images.writable", "").split(",") == list(image.writable or [""])
    assert labels.get("rocm-images.devices", "").split(",") == list(image.devices or [""])
    assert labels.get("rocm-images.groups", "").split(",") == list(image.groups or [""])
    assert labels.get("rocm-images.shm") == image.shm
    assert by_keyword["USER"].rest == f"{image.uid}:{image.uid}"
    assert by_keyword["CMD"].words == list(image.cmd or ["/bin/sh"])
    if image.entrypoint:
        assert by_keyword["ENTRYPOINT"].words == list(image.entrypoint)


def refused_or_as_written(table: dict[str, Any]) -> bool:
    """Return whether a recipe was refused; where it was not, what is rendered must be what it says."""
    try:
        recipe = parse_recipe(tomli_w.dumps(table), file="images/probe/recipe.toml")
    except RecipeError as error:
        shown = "\n".join([error.message, *error.details, error.hint or ""])
        assert all(char.isprintable() or char == "\n" for char in shown)
        for line in error.message.split("\n"):
            assert line.startswith("images/probe/recipe.toml: ")
            assert len(line) < 700
        return True
    check_that_it_says_what_the_recipe_says(recipe, samples.lock(recipe))
    return False


@pytest.mark.parametrize(("text", "place"), PLACES, ids=["/".join(map(str, place)) for _, place in PLACES])
def test_a_hostile_value_is_refused_or_stands_as_it_is(text: str, place: Place) -> None:
    outcomes = {refused_or_as_written(with_value(text, place, value)) for value in HOSTILE}
    assert True in outcomes  # a line break, for one, is refused everywhere


@pytest.mark.parametrize("text", [samples.FULL, samples.SMALL, ON_IMAGES])
def test_a_harmless_recipe_says_what_it_says(text: str) -> None:
    assert not refused_or_as_written(tomli.loads(text))


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(
    alphabet="\\\"'$`{}# =a\n", max_size=12
)


@given(TEXT, TEXT)
@example("\\", '"')
@example('a\\"b', "\\\\$x")
@example("a\\", "\\ ")
def test_any_text_in_the_environment_is_refused_or_served_as_it_is(first: str, second: str) -> None:
    table = tomli.loads(samples.SMALL) | {"image": {"env": {"A": first, "B": second}}}
    table["base"]["build"]["env"] = {"C": first}
    refused_or_as_written(table)


@given(TEXT, TEXT)
def test_any_words_start_the_image_as_they_are_or_are_refused(first: str, second: str) -> None:
    table = tomli.loads(samples.SMALL) | {"image": {"entrypoint": [first], "cmd": [second, first]}}
    refused_or_as_written(table)


@given(TEXT)
def test_any_build_command_reaches_the_shell_as_it_is_or_is_refused(command: str) -> None:
    table = tomli.loads(samples.FULL)
    table["component"][2]["build"] = [command, "make"]
    refused_or_as_written(table)


@given(TEXT)
def test_any_path_is_refused_or_is_where_it_says(path: str) -> None:
    table = tomli.loads(samples.SMALL)
    table["image"] = {"workdir": path, "writable": [path], "env": {"HOME": path}}
    refused_or_as_written(table)
