"""Writes the report of a build, `dist/NAME/report.html`, from what the run left; no run ever fails by it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder import __version__, compare
from builder.errors import Failure
from builder.plan import Plan
from builder.project import Prepared
from builder.recipe import Recipe
from builder.report import BuildReport, Ended, Layer, Patch, Test, Took, page
from builder.report.steps import steps
from builder.story import Reached, Story
from builder.workspace import Workspace, write_atomic

FILE = "report.html"


class Timed:
    """A story that is handed on, and keeps how long each of its steps took."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._open = 0
        self._took: list[Took | None] = []

    @property
    def took(self) -> tuple[Took, ...]:
        """The steps that ended, in the order they were begun."""
        return tuple(each for each in self._took if each is not None)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """See `Story.step`."""
        place, depth, begun = len(self._took), self._open, time.monotonic()
        self._took.append(None)
        self._open += 1
        try:
            with self._story.step(text):
                yield
        finally:
            self._open -= 1
            self._took[place] = Took(text=text, seconds=time.monotonic() - begun, depth=depth)

    def follow(self, how_far: Callable[[], Reached]) -> None:
        """See `Story.follow`."""
        self._story.follow(how_far)

    def note(self, text: str) -> None:
        """See `Story.note`."""
        self._story.note(text)

    def warn(self, text: str) -> None:
        """See `Story.warn`."""
        self._story.warn(text)


@dataclass(kw_only=True, slots=True)
class Run:
    """What a run has come to so far. A run that had nothing to do has no plan here, and no report is written."""

    prepared: Prepared | None = None
    plan: Plan | None = None
    before: Mapping[str, Any] | None = None
    built: bool = False
    tested: bool = False
    digest: str | None = None
    reference: str | None = None
    table: Mapping[str, Any] | None = None
    patches: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def write_report(run: Run, told: Timed, *, workspace: Workspace, failure: Failure | None) -> None:
    """Write the report of a run that had something to do. What prevents it is a warning."""
    if run.prepared is None or run.plan is None:
        return
    folder = workspace.dist / run.prepared.recipe.name
    try:
        write_atomic(folder / FILE, page(_report(run, run.prepared, run.plan, told.took, folder, failure)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        told.warn(f"{workspace.shown(folder / FILE)}: the report was not written: {error}")
    else:
        told.note(f"report: {workspace.shown(folder / FILE)}")


def _report(
    run: Run, prepared: Prepared, plan: Plan, took: tuple[Took, ...], folder: Path, failure: Failure | None
) -> BuildReport:
    recipe, before, table = prepared.recipe, run.before, run.table
    log = folder / "build.log"
    difference = None
    if before is not None:
        old = compare.of_record(before, label=f"{recipe.name} before")
        new = (
            compare.of_record(table, label=recipe.name) if table is not None
            else compare.of_lock(recipe, prepared.lock, label=recipe.name)
        )  # fmt: skip
        difference = compare.compare(old, new)
    done = "built, tested and published" if run.reference is not None else "built and tested"
    return BuildReport(
        image=recipe.name, version=recipe.version, description=recipe.description, gfx=tuple(recipe.gfx),
        content_key=prepared.content_key, fingerprint=prepared.fingerprint, action=str(plan.action),
        reasons=plan.reasons, program=__version__, reference=run.reference, digest=run.digest,
        outcome=done if failure is None else _stopped(failure),
        ended=Ended(message=failure.message, details=failure.details, hint=failure.hint) if failure else None,
        dockerfile=prepared.rendered().dockerfile,
        steps=steps(log.read_text(encoding="utf-8", errors="replace").splitlines())
        if run.built and log.exists() else (),
        took=took,
        layers=[Layer(**layer) for layer in table["layers"]] if table is not None else None,
        tests=_tests(folder / "smoke.json") if run.tested else None,
        patches=_patches(recipe, table["patches"] if table is not None else run.patches),
        difference=difference,
    )  # fmt: skip


def _stopped(failure: Failure) -> str:
    words = {3: "stopped by the lock", 4: "a patch failed", 5: "the build failed", 6: "smoke tests failed"}
    return words.get(failure.exit_code, "published nothing" if failure.exit_code == 7 else "stopped")


def _tests(path: Path) -> tuple[Test, ...] | None:
    if not path.exists():
        return None
    return tuple(
        Test(
            title=each["title"], tier=each["tier"], outcome=each["outcome"], seconds=each["seconds"],
            production=each["production"], cause=(each["finding"] or {}).get("cause"),
            details=tuple((each["finding"] or {}).get("details", ())),
        )
        for each in json.loads(path.read_text(encoding="utf-8"))["tests"]
    )  # fmt: skip


def _patches(recipe: Recipe, entries: Sequence[Mapping[str, Any]]) -> tuple[Patch, ...]:
    """Return the ledger with why each patch is there; of a run that came to none, what the recipe says."""
    known = {str(entry["name"]): entry for entry in entries}
    found = []
    for patch in recipe.patch:
        entry = known.get(patch.name, {})
        probe = entry.get("probe") or {}
        values = {key: json.dumps(probe[key], ensure_ascii=False) for key in ("before", "after") if key in probe}
        found.append(
            Patch(
                name=patch.name, target=patch.target, kind=patch.kind, state=str(entry.get("state", "not judged")),
                reason=patch.reason, upstream=patch.upstream, drop_when=patch.drop_when, **values,
            )
        )  # fmt: skip
    return tuple(found)
