"""From what a build step said before it failed to the few lines that matter, and to the inputs of its stage.

Knows how compilers, linkers, pip, apt and Python say that they give up, and which inputs a stage of the rendered
Dockerfile is made of. It looks only at text and at the recipe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from builder.diagnosis import BUILD, RUNTIME, Circumstances, Diagnosis, diagnose_build
from builder.recipe import BUILD_SUFFIX, Component, Recipe
from builder.whatchanged import in_short

MOST = 12  # lines that are shown
_LONGEST = 300
_CONTEXT = 2  # lines after an error: the source line and where in it
_TAIL = 3
_SERIOUS = re.compile(
    r"""
    \b(?:fatal\ )?error:\s                          # gcc, clang, ld, rustc, nvcc and hipcc
    | ^(?:error|ERROR|FAILED|CMake\ Error|E)\b[:\ ]   # cmake, ninja, pip, apt
    | ^[\w.]*(?:Error|Exception|Interrupt|Exit):\s  # the last line of Python's trace
    | ^[\w.]*(?:Error|Exception)$
    | :\ undefined\ (?:reference|symbol)
    | \bld(?:\.\w+)?:\ cannot\ find
    | :\ (?:command\ )?not\ found$
    | \bKilled\b | out\ of\ memory
    | ^make(?:\[\d+\])?:\ \*\*\*
    | ^two\ components\ write | ^component\ \S+\ would\ replace
    """,
    re.VERBOSE,
)
# Says that something failed, not what: shown only where nothing better was said.
_WRAPS = re.compile(
    r"ninja: build stopped|subprocess.CalledProcessError|Error compiling objects|^make(\[\d+\])?: \*\*\*"
    r"|\bcollect2: error: ld returned|exited with|returned non-zero|^FAILED: |\d+ errors? generated"
)
_OF_ALL = ("base.", "deb.", "gfx", "python", "step.", "uv", "format", "base-format", "epoch")


def what_matters(said: Sequence[str]) -> tuple[str, ...]:
    """Return the few lines to show of what a step said: the first errors with what belongs to them, and its end.

    An ellipsis stands where lines were left out. Lines that only wrap an error are shown where there is no other.
    """
    lines = [line.rstrip() for line in said if line.strip()]
    serious = [place for place, line in enumerate(lines) if _SERIOUS.search(line)]
    first = [place for place in serious if not _WRAPS.search(lines[place])] or serious
    if len(lines) <= MOST or not first:
        return tuple(_cut(line) for line in lines[-MOST:])
    chosen = set(range(len(lines) - _TAIL, len(lines)))
    for place in first:
        added = set(range(place, min(place + _CONTEXT + 1, len(lines)))) - chosen
        if len(chosen | added) > MOST - 1:
            break
        chosen |= added
    shown: list[str] = []
    before = -1
    for place in sorted(chosen):
        if place != before + 1:
            shown.append("…")
        shown.append(_cut(lines[place]))
        before = place
    return tuple(shown)


def cause(said: Sequence[str], recipe: Recipe) -> Diagnosis | None:
    """Return what the lines of a build step show, and what to do in the recipe; None for nothing known."""
    stages = {BUILD: tuple(recipe.base.build.apt), RUNTIME: tuple(recipe.base.runtime.apt)}
    evidence = [line for line in said[:-1] if _SERIOUS.search(line)] + list(said[-1:])
    found = diagnose_build("\n".join(evidence), Circumstances(stages=stages, needed_in=BUILD))
    if found is not None and found.package is not None and recipe.base.build.debian is not None:
        return Diagnosis(
            cause=found.cause, hint=f"{found.hint}, then: rocm-images lock {recipe.name}", package=found.package,
            stage=found.stage,
        )  # fmt: skip
    return found


def made_of(stage: str, recipe: Recipe) -> tuple[str, ...]:
    """Return the keys of the recipe that a stage of its Dockerfile is made of, beside its base."""
    component = component_of(stage, recipe)
    if component is None:
        return ()
    source = (f"source.{component.source}",) if component.source is not None else ()
    patches = tuple(f"patch.{patch.name}" for patch in recipe.patch if patch.target == component.name)
    return (f"component.{component.name}", *source, *patches)


def component_of(stage: str, recipe: Recipe) -> Component | None:
    """Return the component that a stage of the Dockerfile makes, None for any other stage."""
    name = stage.partition("-")[2]
    return next((component for component in recipe.component if component.name == name), None)


def changed_for(stage: str, changed: Sequence[str], recipe: Recipe, wheels: Mapping[str, str]) -> tuple[str, ...]:
    """Return, of words about changed inputs (`KEY: old -> new`, `KEY is new`), those that this stage is made of.

    Its own inputs where one of them changed, else those of every stage. `wheels` has the layer of each project.
    """
    own = made_of(stage, recipe)
    layer = stage.partition("-")[2]

    def is_own(words: str) -> bool:
        key = re.split(r": | is (?:new|gone)$", words, maxsplit=1)[0]
        if key.startswith("wheel."):
            project = key.rpartition(".")[2]
            return wheels.get(project, "").removesuffix(BUILD_SUFFIX) == layer or key == f"wheel.{layer}.{project}"
        return key in own

    mine = [words for words in changed if is_own(words)]
    return in_short(mine or [words for words in changed if words.startswith(_OF_ALL)])


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
