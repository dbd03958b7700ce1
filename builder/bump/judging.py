"""Judges what lies between two revisions of a project: every image it touches, to the end, whatever is wrong.

Both revisions are read into folders of their own. What is fetched is kept in the project's state folder; of its
files a lock alone is written, and that only on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from builder import compare, plan
from builder.bump.report import BumpReport, ImageBump, Needs, PatchFact, Relock, SourceMove, Verdict
from builder.bump.sources import moved_sources
from builder.bump.touched import touched_images
from builder.checks.inventory import engine_inventory, lacks, runtime_stage, summary_of, with_inventory
from builder.checks.offline import check_image
from builder.checks.trees import Fetch
from builder.compare import Moved
from builder.errors import Failure, LockError, PatchError, RecipeError
from builder.findings import PATCH, Finding, from_failure, ordered
from builder.inventory import difference
from builder.lockfile import Lock, dump_lock, parse_lock
from builder.mirrors import Mirrors
from builder.openpins import LOCK
from builder.patchfiles import changed_files
from builder.patchjudge import judge_image
from builder.patchset import patched_source
from builder.patchstates import Report
from builder.project import Prepared, load_lock, load_recipe, names, prepare
from builder.recipe import Recipe
from builder.resolve import make_lock
from builder.scope import outdated
from builder.sources.revisions import Repository
from builder.story import Story
from builder.workspace import Workspace, write_atomic


def judge(
    revisions: str,
    *,
    workspace: Workspace,
    mirrors: Mirrors,
    story: Story,
    chosen: Sequence[str] = (),
    write: bool = False,
    strict: bool = False,
) -> BumpReport:
    """Return what changes from one revision to the other, `BASE..HEAD`, for the images it touches.

    `chosen` are the images to look at; all, if none is named. With `write`, a lock that was made anew is written
    into the work tree, which has to have HEAD's recipe. With `strict`, a redundant patch that nobody acknowledged
    is an error. What is wrong with an image is in its report. Raises `RecipeError` for revisions that are none,
    and where a lock would be written beside another recipe.
    """
    repository = Repository(workspace.root)
    commits = repository.revisions(revisions)
    with TemporaryDirectory(prefix="rocm-images-bump.") as place:
        base, head = (Workspace(root=Path(place) / side, kept_in=workspace.state) for side in ("base", "head"))
        repository.export(commits.base, base.root)
        repository.export(commits.head, head.root)
        there, before = names(head), names(base)
        for name in chosen:
            if name not in there and name not in before:
                raise RecipeError(f"there is no image called {name!r} at either revision", hint="rocm-images list")
        wanted = [name for name in there if name in chosen or not chosen]
        touched = [name for name in touched_images(base, head, repository.changed(commits)) if name in wanted]
        if write:
            _require_checked_out(workspace, head, touched)
        images = []
        for name in touched:
            judged = _Judging(name=name, base=base, head=head, mirrors=mirrors, story=story, strict=strict).image()
            if write and judged.relock is not None:
                write_atomic(workspace.lock(name), head.lock(name).read_bytes())
                judged = replace(judged, relock=replace(judged.relock, written=True))
            images.append(judged)
    return BumpReport(
        base=commits.base, head=commits.head, images=tuple(images),
        untouched=tuple(name for name in wanted if name not in touched),
        gone=tuple(name for name in before if name not in there and (name in chosen or not chosen)),
    )  # fmt: skip


def _require_checked_out(workspace: Workspace, head: Workspace, touched: Sequence[str]) -> None:
    """Refuse to write locks beside recipes that are not those of HEAD."""
    for name in touched:
        here = workspace.recipe(name)
        if not here.is_file() or here.read_bytes() != head.recipe(name).read_bytes():
            raise RecipeError(
                f"{workspace.shown(here)}: --write: the work tree has another recipe than HEAD of the range",
                hint="check out what the range ends with, or leave --write out",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Before:
    """An image at BASE; `reason` says in words why there is nothing to compare with, `findings` what is wrong."""

    recipe: Recipe | None = None
    lock: Lock | None = None
    prepared: Prepared | None = None
    reason: str | None = None


class _Judging:
    """The judging of one image. What goes wrong becomes a finding, and the next question is asked all the same."""

    def __init__(
        self, *, name: str, base: Workspace, head: Workspace, mirrors: Mirrors, story: Story, strict: bool
    ) -> None:
        self._name = name
        self._base = base
        self._head = head
        self._mirrors = mirrors
        self._story = story
        self._strict = strict
        self._fetch = Fetch(mirrors=mirrors, story=story)
        self._findings: list[Finding] = []

    def image(self) -> ImageBump:
        with self._story.step(f"judging what changes for {self._name}"):
            return self._image()

    def _image(self) -> ImageBump:
        before = self._before()
        unknown = Moved(old=before.prepared.content_key if before.prepared else None, new=None)
        try:
            recipe = load_recipe(self._head, self._name)
        except Failure as failure:
            self._failed(failure, "recipe")
            return ImageBump(
                image=self._name, verdict=Verdict.UNKNOWN, reasons=(), content_key=unknown,
                fingerprint=replace(unknown, old=before.prepared.fingerprint if before.prepared else None),
                findings=tuple(self._findings), older=self._older(),
            )  # fmt: skip
        lock, relock = self._lock(recipe)
        after = self._prepared(lock)
        patches = self._patches(recipe, lock, before)
        self._check(lock)
        needs = self._needs(recipe, lock, before)
        verdict, reasons = _verdict(before, after)
        if any(finding.severity == "error" for finding in self._findings) and after is None:
            verdict, reasons = Verdict.UNKNOWN, ()
        key = replace(unknown, new=after.content_key if after else None)
        fingerprint = Moved(
            old=before.prepared.fingerprint if before.prepared else None, new=after.fingerprint if after else None
        )
        return ImageBump(
            image=self._name, verdict=verdict, reasons=reasons, content_key=key, fingerprint=fingerprint,
            relock=relock, sources=tuple(self._sources(recipe, before)), patches=patches, needs=needs,
            difference=_difference(before, recipe, lock, key=key, fingerprint=fingerprint),
            findings=ordered(self._findings), older=self._older(),
        )  # fmt: skip

    def _before(self) -> _Before:
        if not self._base.recipe(self._name).is_file():
            return _Before(reason="BASE has no such image")
        recipe: Recipe | None = None
        lock: Lock | None = None
        try:
            recipe = load_recipe(self._base, self._name)
            lock, _ = load_lock(self._base, recipe)
            return _Before(recipe=recipe, lock=lock, prepared=prepare(self._base, self._name))
        except Failure as failure:
            return _Before(recipe=recipe, lock=lock, reason=f"BASE is not in order: {failure.message}")

    def _failed(self, failure: Failure, check: str) -> None:
        place = self._head.recipe if check == "recipe" else self._head.lock
        found = from_failure(failure, image=self._name, file=self._head.shown(place(self._name)), check=check)
        known = {finding.line for finding in self._findings}  # one cause can stop several questions
        self._findings += [finding for finding in found if finding.line not in known]

    # The lock

    def _lock(self, recipe: Recipe) -> tuple[Lock | None, Relock | None]:
        """Return the lock of HEAD if it fits, else one that was made anew, in the copy of HEAD.

        With open pins there is none, which the check of the recipe tells.
        """
        if any(each.pin != LOCK for each in recipe.open):
            return None, None
        try:
            return load_lock(self._head, recipe)[0], None
        except LockError:
            pass
        except Failure as failure:
            self._failed(failure, "lock")
            return None, None
        old = self._old_lock()
        updated = self._outdated(recipe, old) if old is not None else None
        try:
            new = make_lock(
                recipe, workspace=self._head, mirrors=self._mirrors, story=self._story, old=old, update=updated
            )
            new, _ = with_inventory(self._head, recipe, new, old=old, fetch=self._fetch)
            write_atomic(self._head.lock(self._name), dump_lock(new))
            lock = load_lock(self._head, recipe)[0]
        except Failure as failure:
            self._failed(failure, "lock")
            return None, None
        return lock, Relock(names=tuple(sorted(updated)) if updated is not None else None, written=False)

    def _old_lock(self) -> Lock | None:
        path = self._head.lock(self._name)
        try:
            return parse_lock(path.read_text(encoding="utf-8"), file=self._head.shown(path))
        except (OSError, LockError):
            return None

    def _outdated(self, recipe: Recipe, old: Lock) -> frozenset[str] | None:
        """Return what to resolve anew: as little as makes the lock fit, so that nothing else moves with a bump."""
        try:
            changed = changed_files(self._head, recipe, old)
        except Failure:
            return None
        stale = outdated(recipe, old)
        if stale is None:
            return None
        owners = {patch.name: patched_source(recipe, patch) or patch.target for patch in recipe.patch}
        found = stale | {owners[name] for name in changed}
        by_name = {component.name: component for component in recipe.component}
        return frozenset(
            "debian" if name in by_name and by_name[name].apt is not None else name for name in found
        ) or None  # fmt: skip

    def _prepared(self, lock: Lock | None) -> Prepared | None:
        if lock is None:
            return None
        try:
            return prepare(self._head, self._name)
        except Failure as failure:
            self._failed(failure, "recipe")
            return None

    # Findings

    def _check(self, lock: Lock | None) -> None:
        """Add what `check` finds; of a lock that could not be made the reason is there already."""
        found = check_image(
            self._head, self._name, mirrors=self._mirrors, fetch=self._fetch, strict=self._strict
        )  # fmt: skip
        known = {(finding.key, finding.message) for finding in self._findings}
        self._findings += [
            finding
            for finding in found
            if (lock is not None or finding.check != "lock") and (finding.key, finding.message) not in known
        ]

    def _older(self) -> frozenset[Finding]:
        """Return the findings that BASE has as well."""
        if not self._findings or not self._base.recipe(self._name).is_file():
            return frozenset()
        older = check_image(self._base, self._name, mirrors=self._mirrors)
        known = {(finding.check, finding.key, finding.message) for finding in older}
        return frozenset(f for f in self._findings if (f.check, f.key, f.message) in known)

    # Patches

    def _patches(self, recipe: Recipe, lock: Lock | None, before: _Before) -> tuple[PatchFact, ...] | None:
        """Judge the patches where they, or what they are for, changed."""
        if not recipe.patch or (lock is not None and _same_patches(recipe, lock, before)):
            return None
        try:
            judged = judge_image(
                recipe, workspace=self._head, mirrors=self._mirrors, story=self._story, at={}, suggest=False
            )
        except Failure as failure:
            self._failed(failure, "patch")
            return None
        earlier = self._earlier(before) if any(_tells(r) for each in judged for r in each.reports) else {}
        told = any(finding.exit_code == PATCH for finding in self._findings)
        reports = [report for each in judged for report in each.reports]
        if not told:  # else what stopped the lock has said it, with both pins
            self._findings += [finding for report in reports for finding in self._of_patch(report)]
        return tuple(_fact(report, earlier.get(report.patch.name)) for report in reports)

    def _earlier(self, before: _Before) -> dict[str, str]:
        """Return the states of patches at BASE, as far as they can be told."""
        if before.recipe is None:
            return {}
        try:
            judged = judge_image(
                before.recipe, workspace=self._base, mirrors=self._mirrors, story=self._story, at={}, suggest=False
            )
        except Failure as failure:
            self._story.note(f"what the patches were at BASE cannot be told: {failure.message}")
            return {}
        return {r.patch.name: r.state for each in judged for r in each.reports if r.state is not None}

    def _of_patch(self, report: Report) -> Iterator[Finding]:
        """Return what is wrong with a patch; of one that is redundant in its source `check` says it."""
        patch, file = report.patch, self._head.shown(self._head.recipe(self._name))
        if report.fails:
            yield Finding(
                image=self._name, severity="error", exit_code=PatchError.exit_code, check="patch", file=file,
                key=f"patch.{patch.name}", message=f"{report.state} at what the recipe pins",
                details=tuple(report.lines()[1:]), hint=f"rocm-images patches {self._name}",
            )  # fmt: skip
        elif report.redundant and patch.series is None and patch.acknowledge_redundant is None:
            yield Finding(
                image=self._name, severity="error" if self._strict else "warning", exit_code=PATCH, check="patch",
                file=file, key=f"patch.{patch.name}", message="redundant: the tree has its change already",
                hint="drop it, or say with 'acknowledge-redundant' why it stays",
            )  # fmt: skip

    # What is needed at run time

    def _needs(self, recipe: Recipe, lock: Lock | None, before: _Before) -> Needs | None:
        if lock is None or recipe.engine is None or before.lock is None or before.lock.inventory is None:
            return None
        try:
            inventory = engine_inventory(self._head, recipe, lock, fetch=self._fetch)
        except Failure as failure:
            self._failed(failure, "jit-packages")
            return None
        if inventory is None:
            return None
        found = difference(summary_of(before.lock.inventory), inventory)
        missing = [each.package for each in lacks(inventory, runtime_stage(self._head, recipe, lock)).missing]
        return Needs(
            new=found.lines(), missing=tuple(missing),
            there=tuple(package for package in found.packages if package not in missing),
        )  # fmt: skip

    def _sources(self, recipe: Recipe, before: _Before) -> Iterator[SourceMove]:
        if before.recipe is not None:
            cache = self._head.state / "git"
            yield from moved_sources(
                before.recipe, recipe, mirrors=self._mirrors, cache=cache, story=self._story
            )  # fmt: skip


def _fact(report: Report, before: str | None) -> PatchFact:
    _, *lines = report.lines()
    return PatchFact(
        name=report.patch.name, target=report.patch.target, state=report.state, before=before, fails=report.fails,
        redundant=report.redundant, drop_when=report.patch.drop_when,
        lines=tuple(line.removeprefix("  ") for line in lines),
    )  # fmt: skip


def _tells(report: Report) -> bool:
    return report.fails or bool(report.redundant)


def _same_patches(recipe: Recipe, lock: Lock, before: _Before) -> bool:
    """Whether neither the patches changed nor what they are for."""
    old = before.recipe
    if old is None or before.lock is None:
        return False

    def told(of: Recipe, held: Lock) -> list[object]:
        targets = {patch.target for patch in of.patch}
        wheels = [file for file in held.python if file.layer in targets]
        return [of.patch, of.source, held.source, held.patch, wheels,
                [component for component in of.component if component.name in targets]]  # fmt: skip

    return told(recipe, lock) == told(old, before.lock)


def _verdict(before: _Before, after: Prepared | None) -> tuple[Verdict, tuple[str, ...]]:
    if after is None:
        return Verdict.UNKNOWN, ()
    if before.prepared is None:
        return Verdict.BUILD, (before.reason or "nothing is known of BASE",)
    if after.content_key != before.prepared.content_key:
        found = plan.changes(after.inputs, before.prepared.inputs)
        return Verdict.BUILD, found or ("the content key differs",)
    if after.test_key != before.prepared.test_key:
        return Verdict.RETEST, ("its smoke tests changed",)
    return Verdict.NOTHING, ()


def _difference(
    before: _Before, recipe: Recipe, lock: Lock | None, *, key: Moved, fingerprint: Moved
) -> compare.Difference | None:
    if before.recipe is None or before.lock is None or lock is None:
        return None
    found = compare.locks(before.recipe, before.lock, recipe, lock)
    return replace(found, content_key=key, fingerprint=fingerprint)
