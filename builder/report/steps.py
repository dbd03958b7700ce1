"""Reads the steps of a build out of BuildKit's plain progress, and the stages out of a rendered Dockerfile."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from builder.report.facts import Step

FINAL = "image"  # the last stage, which has no name of its own
_NAMED = re.compile(r"#(\d+) \[((?!internal\b|context )[^\]\n]+?)(?: +\d+/\d+)?\] (.*)")
_EXPORTED = re.compile(r"#(\d+) (exporting to .*)")
_ENDED = re.compile(r"#(\d+) (?:DONE ([0-9]+(?:\.[0-9]+)?)s|(CACHED)|(ERROR)\b.*|(CANCELED))")
_FINAL_STAGE = re.compile(r"stage-\d+")
_FROM = re.compile(r"FROM (?:--\S+ )?(\S+)(?: AS (\S+))?")
_TAKEN = re.compile(r"(?:COPY (?:--\S+ )*?--from=|\s+--mount=(?:[^,\s]+,)*from=)([^,\s]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A stage, and the names of those it starts from and copies from; a name that no stage has is a context."""

    name: str
    needs: tuple[str, ...]


def steps(log: Iterable[str]) -> tuple[Step, ...]:
    """Return the steps that ran, in the order they were begun.

    One that did not end was stopped where another failed. Where none did, BuildKit took two equal steps
    together and tells the end of one.
    """
    found: dict[str, Step] = {}
    for line in log:
        text = line.rstrip("\n")
        if (named := _NAMED.fullmatch(text)) or (named := _EXPORTED.fullmatch(text)):
            number, *words = named.groups()
            stage = _FINAL_STAGE.sub(FINAL, words[0]) if len(words) > 1 else "export"
            found.setdefault(number, Step(stage=stage, text=words[-1], seconds=0.0, state="stopped"))
        elif (ended := _ENDED.fullmatch(text)) is not None and ended[1] in found:
            state = "done" if ended[2] else "cached" if ended[3] else "failed" if ended[4] else "stopped"
            before = found[ended[1]]
            found[ended[1]] = replace(before, seconds=before.seconds + float(ended[2] or 0), state=state)
    failed = any(step.state == "failed" for step in found.values())
    return tuple(
        replace(step, state="untold") if step.state == "stopped" and not failed else step
        for step in found.values()
    )


def stages(dockerfile: str) -> tuple[Stage, ...]:
    """Return the stages of a rendered Dockerfile, in its order."""
    found: list[Stage] = []
    for line in dockerfile.splitlines():
        if (start := _FROM.fullmatch(line)) is not None:
            found.append(Stage(name=start[2] or FINAL, needs=(start[1],)))
        elif found and (taken := _TAKEN.match(line)) is not None and taken[1] not in found[-1].needs:
            found[-1] = replace(found[-1], needs=(*found[-1].needs, taken[1]))
    return tuple(found)
