"""Drafts a recipe from a Dockerfile, and accounts for every line of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.adopt.commands import read_run
from builder.adopt.dockerfile import Comment, Instruction, read_dockerfile
from builder.adopt.draft import Draft
from builder.adopt.finish import finish
from builder.adopt.instructions import read_instruction
from builder.adopt.report import Report, report_of
from builder.adopt.stages import stages_of
from builder.adopt.state import State
from builder.adopt.words import without_values
from builder.adopt.writing import write_draft

_RENOVATE = re.compile(r"#\s*renovate:.*?\b(?:branch|currentValue)=(?P<branch>\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Adoption:
    """A draft, as the text of a recipe, and the report on the Dockerfile it comes from."""

    recipe: str
    report: Report


def adopt(
    text: str,
    *,
    file: str,
    name: str,
    target: str | None = None,
    arguments: Mapping[str, str] | None = None,
) -> Adoption:
    """Return the draft of the recipe `name` from the Dockerfile `text`, called `file`.

    `target` is the stage that is served, by default the last. `arguments` are values of ARGs that count before
    those of the file. Raises `RecipeError` where it is no Dockerfile.
    """
    given = dict(arguments or {})
    parts = read_dockerfile(text, file=file)
    stages = stages_of(parts, file=file, target=target, arguments=given)
    state = State(file=file, draft=Draft(name=name), stages=stages, given=given)
    state.last_run = _last_run(parts, state)
    branch: str | None = None
    for part in parts:
        if isinstance(part, Comment):
            branch = _comment(state, part) or branch
            continue
        if part.keyword == "ARG" and branch is not None:
            state.renovate[part.text.partition("=")[0].strip()] = branch
        branch = None
        _instruction(state, part)
    finish(state, text)
    for entry in state.entries:
        entry.text = state.shown(entry.text)
        entry.left = None if entry.left is None else state.shown(entry.left)
        for mark in entry.marks:
            mark.text = state.shown(mark.text)
    recipe = without_values(write_draft(state.draft, file=file), frozenset(state.secrets))
    return Adoption(recipe=recipe, report=report_of(state.entries))


def _last_run(parts: Sequence[Instruction | Comment], state: State) -> int:
    """Return the line of the last RUN of the stages that build."""
    builds, last = False, 0
    for part in parts:
        if isinstance(part, Instruction) and part.keyword == "FROM":
            builds = "build" in next(stage for stage in state.stages if stage.line == part.first).roles
        elif isinstance(part, Instruction) and part.keyword == "RUN" and builds:
            last = part.first
    return last


def _comment(state: State, comment: Comment) -> str | None:
    entry = state.begin(comment.text, comment.line, comment.line, comment=True)
    entry.left = "a comment"
    if re.match(r"#\s*renovate:", comment.text):
        entry.left = "Renovate reads the keys of a recipe by themselves"
    found = _RENOVATE.match(comment.text)
    return found["branch"] if found is not None else None


def _instruction(state: State, part: Instruction) -> None:
    if part.keyword == "RUN":
        read_run(state, part)
        return
    flags = "".join(f" {flag}" for flag in part.flags)
    state.begin(f"{part.keyword}{flags} {part.text}", part.first, part.last)
    if part.keyword not in ("ARG", "FROM"):
        state.expand_text(part.text)  # notes which variables are read
    if state.stage is not None and not state.roles and part.keyword != "FROM":
        if part.keyword in ("ARG", "ENV"):
            read_instruction(state, part)
        state.account.left = state.account.left or "nothing of this stage reaches the image"
        return
    read_instruction(state, part)
