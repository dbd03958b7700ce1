"""What each patch of a recipe comes to on a tree: by content, by its probe, by the attribute that it overrides.

Pure: the tree and what the patches consist of come in, reports go out. Where they come from is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from builder.patchagreement import same
from builder.patches.apply import Conflict
from builder.patches.diff import PatchFile
from builder.patches.judge import FAILING, PatchState, Verdict, judge, plain, told, told_of
from builder.patches.judge import Patch as Change
from builder.patches.tree import Layer, Tree
from builder.patches.values import Known, Missing, Unknown, evaluate, source_hash
from builder.patchtables import Hook, Patch, Probe


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The state of one patch of a recipe; None where there is no tree to judge it on.

    `verdicts` are those of its files. `conflicts` and `notes` are what probe and hook add.
    """

    patch: Patch
    state: PatchState | None
    verdicts: tuple[Verdict, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether it cannot stay as it is."""
        optional = self.patch.hook is not None and self.patch.hook.optional
        return self.state in FAILING and not (optional and self.state == "target-missing")

    @property
    def redundant(self) -> tuple[str, ...]:
        """What of it is redundant and not acknowledged: its own name, or those of some of its files."""
        if self.patch.acknowledge_redundant is not None or self.state is None:
            return ()
        if self.state == "redundant":
            return (self.patch.name,)
        return tuple(verdict.name for verdict in self.verdicts if verdict.state == "redundant")

    def lines(self) -> list[str]:
        """Return it in lines for people."""
        patch = self.patch
        lines = [f"{patch.name}: {self.state or 'not judged'} ({patch.kind} for {patch.target}{self._counted()})"]
        lines += [f"  {note}" for note in self.notes]
        for conflict in self.conflicts:
            lines += [f"  {line}" for line in told_of(conflict)]
        for verdict in self.verdicts:
            first, *more = told(verdict)
            if self.state == "redundant" != verdict.state:
                continue  # the probe has proven it; what the file comes to is no matter any more
            if patch.series is None:
                lines += more
            elif more or verdict.state != "applies":
                lines += [f"  {first}", *(f"  {line}" for line in more)]
        if self.state == "redundant":
            kept = patch.acknowledge_redundant
            lines.append(f"  it stays: {kept}" if kept else f"  it goes when: {patch.drop_when}")
        return lines

    def plain(self) -> dict[str, JsonValue]:
        """Return it as JSON values."""
        patch = self.patch
        return {
            "name": patch.name, "kind": patch.kind, "target": patch.target, "state": self.state,
            "fails": self.fails, "acknowledged": patch.acknowledge_redundant, "reason": patch.reason,
            "upstream": patch.upstream, "drop-when": patch.drop_when, "notes": list(self.notes),
            "conflicts": [plain(conflict) for conflict in self.conflicts],
            "files": [verdict.plain() for verdict in self.verdicts],
        }  # fmt: skip

    def noted(self, note: str) -> Report:
        """Return it with a note more."""
        return replace(self, notes=(*self.notes, note))

    def _counted(self) -> str:
        if self.patch.series is None or not self.verdicts:
            return ""
        counts = {
            state: sum(v.state == state for v in self.verdicts) for state in ("applies", "redundant", *FAILING)
        }
        shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        return f": {len(self.verdicts)} file{'s' if len(self.verdicts) > 1 else ''}, {shown}"


def judge_patches(
    patches: Sequence[Patch],
    parts: Mapping[str, Sequence[PatchFile | Change]],
    tree: Tree,
    *,
    roots: Sequence[str],
) -> tuple[Report, ...]:
    """Judge the patches of one tree, in order. `parts` are what each consists of, by name; hooks have none.

    `roots` are the folders of the tree that imports start from. A hook is judged on the patched tree.
    """
    owners = [patch.name for patch in patches for _ in parts.get(patch.name, ())]
    judged = judge([part for patch in patches for part in parts.get(patch.name, ())], tree)
    after = Layer(tree, judged.changes)
    reports = []
    for patch in patches:
        if patch.hook is not None:
            reports.append(_hook(patch, patch.hook, after, roots))
            continue
        own = tuple(v for owner, v in zip(owners, judged.verdicts, strict=True) if owner == patch.name)
        report = Report(patch=patch, state=_whole(own), verdicts=own)
        reports.append(_probed(report, patch.probe, tree, after, roots) if patch.probe is not None else report)
    return tuple(reports)


def _whole(verdicts: Sequence[Verdict]) -> PatchState:
    """Return the state of a patch that consists of several files."""
    states = [verdict.state for verdict in verdicts]
    if states and set(states) == {"redundant"}:
        return "redundant"
    order: tuple[PatchState, ...] = ("conflicts", "target-missing")
    return next((state for state in order if state in states), "applies")


def _probed(report: Report, probe: Probe, tree: Tree, after: Tree, roots: Sequence[str]) -> Report:
    """Return a report with what its probe adds: a wanted value without the patch, or no effect with it."""
    found = evaluate(tree, probe.module, probe.expression, roots=roots)
    what = f"probe {probe.module}: {probe.expression}"
    if not isinstance(found, Known):
        return report.noted(f"{what} cannot be told without the patch: {found.reason}")
    if _equal(found.value, probe.after):
        note = f"{what} gives {_shown(found.value)} without the patch, in {found.where}"
        return replace(report.noted(note), state="redundant", conflicts=())
    if not _equal(found.value, probe.before):
        reason = f"{what} gives {_shown(found.value)} without the patch, expected {_shown(probe.before)}"
        return _refused(report, found.where, reason)
    if report.state != "applies":
        return report.noted(f"{what} gives {_shown(found.value)}: the patch is still needed, in {found.where}")
    changed = evaluate(after, probe.module, probe.expression, roots=roots)
    values = f"{_shown(found.value)} before, {_shown(probe.after)} after"
    match changed:
        case Known(value=value, where=where) if not _equal(value, probe.after):
            reason = f"it applies without effect: {what} gives {_shown(value)}, expected {_shown(probe.after)}"
            return _refused(report, where, reason)
        case Known(where=where):
            return report.noted(f"{what} gives {values}, in {where}")
        case Missing(reason=reason):
            return _refused(report, probe.module, f"{what} cannot be evaluated with the patch: {reason}")
        case Unknown(reason=reason):
            return report.noted(f"{what} gives {_shown(found.value)} before; after cannot be told: {reason}")


def _hook(patch: Patch, hook: Hook, tree: Tree, roots: Sequence[str]) -> Report:
    """Return the state of a hook: what it overrides is as declared, is wanted already, or is something else."""
    name = f"{hook.module}.{hook.attribute}"
    if hook.expect_source is None:
        found = evaluate(tree, hook.module, hook.attribute, roots=roots)
        expected = hook.expect
        report = _overridden(patch, found, name, wanted=hook.value, expected=expected)
    else:
        found = source_hash(tree, hook.module, hook.attribute, roots=roots)
        report = _replaced(patch, found, name, hook.expect_source)
    return _hook_probed(report, patch.probe, tree, roots) if patch.probe is not None else report


def _overridden(
    patch: Patch, found: Known | Unknown | Missing, name: str, *, wanted: object, expected: object
) -> Report:
    match found:
        case Missing(reason=reason):
            return _missing(patch, name, reason)
        case Unknown(reason=reason):
            return Report(
                patch=patch, state="applies", notes=(f"{name} cannot be told from the source: {reason}",)
            )
        case Known(value=value, where=where) if _equal(value, wanted):
            return Report(
                patch=patch, state="redundant", notes=(f"{name} is {_shown(value)} already, in {where}",)
            )
        case Known(value=value, where=where) if _equal(value, expected):
            note = f"{name} is {_shown(value)} as expected, in {where}"
            return Report(patch=patch, state="applies", notes=(note,))
        case Known(value=value, where=where):
            reason = f"{name} is {_shown(value)}, expected {_shown(expected)}"
            return _refused(Report(patch=patch, state="applies"), where, reason)


def _replaced(patch: Patch, found: Known | Unknown | Missing, name: str, expected: str) -> Report:
    match found:
        case Missing(reason=reason):
            return _missing(patch, name, reason)
        case Unknown(reason=reason):
            return Report(
                patch=patch, state="applies", notes=(f"{name} cannot be told from the source: {reason}",)
            )
        case Known(value=value, where=where) if value == expected:
            note = f"the source of {name} is the expected one, in {where}"
            return Report(patch=patch, state="applies", notes=(note,))
        case Known(value=value, where=where):
            reason = f"the source of {name} has sha256 {value}, expected {expected}"
            return _refused(Report(patch=patch, state="applies"), where, reason)


def _hook_probed(report: Report, probe: Probe, tree: Tree, roots: Sequence[str]) -> Report:
    found = evaluate(tree, probe.module, probe.expression, roots=roots)
    what = f"probe {probe.module}: {probe.expression}"
    if not isinstance(found, Known):
        return report.noted(f"{what} cannot be told without the patch: {found.reason}")
    if _equal(found.value, probe.after):
        note = f"{what} gives {_shown(found.value)} without the patch, in {found.where}"
        return replace(report, state="redundant", conflicts=(), notes=(note,))
    if not _equal(found.value, probe.before):
        reason = f"{what} gives {_shown(found.value)} without the patch, expected {_shown(probe.before)}"
        return _refused(report, found.where, reason)
    return report.noted(f"{what} gives {_shown(found.value)} without the patch, in {found.where}")


def _missing(patch: Patch, name: str, reason: str) -> Report:
    conflict = Conflict(problem="missing", file=name, reason=reason)
    return Report(patch=patch, state="target-missing", conflicts=(conflict,))


def _refused(report: Report, where: str, reason: str) -> Report:
    conflict = Conflict(problem="value", file=where, reason=reason)
    return replace(report, state="conflicts", conflicts=(*report.conflicts, conflict))


def _equal(found: object, wanted: object) -> bool:
    return same(_listed(found), _listed(wanted))


def _listed(value: object) -> object:
    """Return a value with lists for tuples, which TOML does not have."""
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return {key: _listed(item) for key, item in value.items()} if isinstance(value, dict) else value


def _shown(value: object) -> str:
    return json.dumps(value, default=repr, ensure_ascii=False)
