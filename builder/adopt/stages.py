"""Which stages of a Dockerfile are the build stage of a recipe and which the one that is served."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from builder.adopt.dockerfile import Comment, Instruction, without_remark
from builder.adopt.state import BOTH, Role, Stage
from builder.adopt.words import fill_text
from builder.errors import RecipeError

_FROM = re.compile(r"(?P<image>\S+)(?:[ \t]+AS[ \t]+(?P<name>\S+))?[ \t]*$", re.IGNORECASE)
_DEFAULT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S*)")
_MOUNT = re.compile(r"^--mount=\S*?\bfrom=([^\s,]+)")


def stages_of(
    parts: Sequence[Instruction | Comment], *, file: str, target: str | None, arguments: Mapping[str, str]
) -> list[Stage]:
    """Return the stages of a Dockerfile.

    `target` names the one that is served, by default the last. `arguments` are values of ARGs that count before
    those of the file. A stage that the served one goes on from is served as well; the other stages that it takes
    files from build. Where there are none, everything is done in one stage, which then counts for both.
    """
    stages, takes = _read(parts, file, arguments)
    served = len(stages) - 1 if target is None else _number(stages, target)
    if served is None:
        known = ", ".join(stage.name for stage in stages if stage.name) or "none has a name"
        raise RecipeError(f"{file}: no stage is called {target!r}; known: {known}", hint="--target STAGE")
    runtime = _line_of(stages, served)
    build: set[int] = set()
    todo = {number for each in runtime for number in takes[each]}
    while todo:
        build |= (below := {each for number in todo for each in _line_of(stages, number)})
        todo = {number for each in below for number in takes[each]} - build
    for stage in stages:
        roles: set[Role] = {"runtime"} if stage.number in runtime else set()
        if stage.number in build:
            roles.add("build")
        stage.roles = BOTH if roles and not build else frozenset(roles)
    return stages


def _read(
    parts: Sequence[Instruction | Comment], file: str, arguments: Mapping[str, str]
) -> tuple[list[Stage], list[set[int]]]:
    """Return the stages, and for each the numbers of those that it takes files from."""
    stages: list[Stage] = []
    takes: list[set[int]] = []
    defaults: dict[str, str] = {}
    for part in parts:
        if isinstance(part, Comment):
            continue
        if part.keyword == "FROM":
            stages.append(_stage(part, stages, file, defaults | dict(arguments)))
            takes.append(set())
        elif part.keyword == "ARG" and not stages:
            defaults |= {pair[1]: pair[2].strip("\"'") for pair in _DEFAULT.finditer(part.text)}
        elif stages:
            mounts = [found[1] for flag in part.flags if (found := _MOUNT.match(flag)) is not None]
            for name in (part.flag("from"), *mounts):
                if name is not None and (number := _number(stages[:-1], name)) is not None:
                    takes[-1].add(number)
    return stages, takes


def _stage(part: Instruction, stages: Sequence[Stage], file: str, scope: Mapping[str, str]) -> Stage:
    found = _FROM.match(without_remark(part.text))
    if found is None:
        raise RecipeError(f"{file}: line {part.first}: FROM names no image")
    return Stage(
        number=len(stages), name=found["name"], image=found["image"], roles=frozenset(), line=part.first,
        parent=_number(stages, fill_text(found["image"], scope, lambda _: None).text),
    )  # fmt: skip


def _number(stages: Sequence[Stage], name: str) -> int | None:
    for stage in reversed(stages):
        if (stage.name or "").lower() == name.lower() or str(stage.number) == name:
            return stage.number
    return None


def _line_of(stages: Sequence[Stage], number: int) -> set[int]:
    """Return a stage and those that it goes on from."""
    found = {number}
    while (parent := stages[number].parent) is not None:
        found.add(parent)
        number = parent
    return found
