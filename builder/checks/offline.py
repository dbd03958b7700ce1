"""Everything that can be found out about an image from its recipe, its lock and what is on this machine.

No engine, no network. All findings of an image are returned, not the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from builder import compat, imagefacts
from builder.callsites import CallSite
from builder.checks.contracts import contract
from builder.checks.inventory import engine_inventory, kept_inventory, lacks, runtime_stage, summary_of
from builder.checks.metadata import asks
from builder.checks.trees import Fetch
from builder.errors import Failure
from builder.findings import LOCK, PATCH, RECIPE, Finding, Severity, from_failure, ordered
from builder.includes import HeaderNeed
from builder.inventory import Inventory, LibraryNeed, distribution_for
from builder.lockfile import Lock, LockedInventory
from builder.mirrors import Mirrors
from builder.openpins import LOCK as LOCK_PIN
from builder.project import is_open, load_lock, load_recipe, require_no_circle, tree_hash
from builder.recipe import Recipe
from builder.rules import AskedFor, shipped_rules
from builder.workspace import Workspace

PACKAGES = "jit-packages"
HEADERS = "jit-headers"
CONTRACT = "contract"
OPEN, CLOSED = "open", "closed"
_SHOWN = 8
_SOURCE = "the locked files"


def check_images(
    workspace: Workspace,
    chosen: Sequence[str],
    *,
    mirrors: Mirrors,
    fetch: Fetch | None = None,
    strict: bool = False,
) -> tuple[Finding, ...]:
    """Return all findings of some images. With leave to `fetch`, locked files that are not here are brought.

    With `strict`, redundant patches are errors unless they are acknowledged.
    """
    found: list[Finding] = []
    for name in chosen:
        found.extend(check_image(workspace, name, mirrors=mirrors, fetch=fetch, strict=strict))
    return ordered(found)


def check_image(
    workspace: Workspace, name: str, *, mirrors: Mirrors, fetch: Fetch | None = None, strict: bool = False
) -> tuple[Finding, ...]:
    """Return the findings of one image, see `check_images`."""
    file, lock_file = workspace.shown(workspace.recipe(name)), workspace.shown(workspace.lock(name))
    try:
        recipe = load_recipe(workspace, name)
    except Failure as failure:
        return from_failure(failure, image=name, file=file, check="recipe")
    found: list[Finding] = []
    lock: Lock | None = None
    found.extend(_open(workspace, recipe, file))
    try:
        require_no_circle(workspace, recipe)
    except Failure as failure:
        return from_failure(failure, image=name, file=file, check="recipe")
    try:
        if not is_open(workspace, recipe):
            lock, _ = load_lock(workspace, recipe)
    except Failure as failure:
        found.extend(from_failure(failure, image=name, file=lock_file, check="lock"))
    if lock is not None:
        found.extend(_sources(workspace, recipe, lock))
        found.extend(_redundant(recipe, lock, file, strict=strict))
    measured: dict[str, list[compat.Finding]] = {PACKAGES: [], HEADERS: [], CONTRACT: []}
    if lock is not None:
        for check, part in ((PACKAGES, _engine), (CONTRACT, _contracts)):
            try:
                for each in part(workspace, recipe, lock, file=file, fetch=fetch):
                    measured[each.rule].append(each)
            except Failure as failure:
                found.extend(from_failure(failure, image=name, file=lock_file, check=check))
    found.extend(_judged(workspace, recipe, lock, measured, file=file, mirrors=mirrors))
    found.extend(_floating(recipe, file))
    return ordered(found)


def _open(workspace: Workspace, recipe: Recipe, file: str) -> Iterator[Finding]:
    """Name the pins that the recipe says are open, and one that is so no longer."""
    for place, each in enumerate(recipe.open):
        closed = each.pin == LOCK_PIN and workspace.lock(recipe.name).is_file()
        yield Finding(
            image=recipe.name, severity="warning", exit_code=LOCK, file=file,
            check=CLOSED if closed else OPEN,
            key=f"open[{place}]" if closed else each.pin,
            message="the lock is there, and no longer open" if closed else f"open: {each.reason}",
            hint="drop this entry" if closed else each.close or f"rocm-images lock {recipe.name}",
        )  # fmt: skip


def _sources(workspace: Workspace, recipe: Recipe, lock: Lock) -> Iterator[Finding]:
    """Compare the sources beside the recipe with the lock."""
    for name, source in recipe.source.items():
        if source.path is None or name not in lock.source:
            continue
        where = workspace.shown(workspace.lock(recipe.name))
        try:
            now = tree_hash(workspace.images / recipe.folder / source.path)
        except Failure as failure:
            file = workspace.shown(workspace.recipe(recipe.name))
            yield from from_failure(
                failure, image=recipe.name, file=file, check="source", key=f"source.{name}.path"
            )
            continue
        if now != lock.source[name].tree:
            yield Finding(
                image=recipe.name, severity="error", exit_code=LOCK, check="source", file=where,
                key=f"source.{name}.tree",
                message=f"the files of images/{recipe.folder}/{source.path} changed since the lock was made",
                details=(f"locked {lock.source[name].tree}", f"found  {now}"),
                hint=f"rocm-images lock {recipe.name}",
            )  # fmt: skip


def _redundant(recipe: Recipe, lock: Lock, file: str, *, strict: bool) -> Iterator[Finding]:
    """Name the patches that the locked trees have already."""
    accepted = {patch.name for patch in recipe.patch if patch.acknowledge_redundant is not None}
    for patch in lock.patch:
        files = [each.file for each in patch.file if each.state == "redundant"]
        if patch.name in accepted or not (files or patch.state == "redundant"):
            continue
        yield Finding(
            image=recipe.name, severity="error" if strict else "warning", exit_code=PATCH, check="patch",
            file=file, key=f"patch.{patch.name}",
            message=f"redundant: the tree has {_some(files) if files else 'its change'} already",
            hint="drop it, or say with 'acknowledge-redundant' why it stays",
        )  # fmt: skip


def _judged(
    workspace: Workspace,
    recipe: Recipe,
    lock: Lock | None,
    measured: Mapping[str, Sequence[compat.Finding]],
    *,
    file: str,
    mirrors: Mirrors,
) -> Iterator[Finding]:
    """Apply the rules, and the static checks that an override can silence like a rule."""
    kept = frozenset(
        component.name
        for component in recipe.component
        if component.index is not None and mirrors.index(component.index.url) != component.index.url
    )
    askers = tuple(rule.by for rule in shipped_rules() if isinstance(rule, AskedFor))
    wanted = asks(workspace, recipe, lock, askers) if lock is not None else {}
    facts = imagefacts.facts_of(recipe, lock, file=file, asks=wanted, mirrored=kept)
    for verdict in compat.check(facts, imagefacts.overrides_of(recipe), measured=measured):
        key, message = verdict.key, verdict.message.removeprefix(f"{file}: ")
        if verdict.rule == compat.OVERRIDE:
            key, _, message = message.partition(": ")
        by_rule = verdict.rule not in (compat.OVERRIDE, *measured)
        yield Finding(
            image=recipe.name, severity=verdict.severity, exit_code=RECIPE, check=verdict.rule, file=file,
            key=key, message=message, hint=verdict.hint,
            details=(f"rule {verdict.rule}; {verdict.source}",) if by_rule else verdict.details,
        )  # fmt: skip


def _engine(
    workspace: Workspace, recipe: Recipe, lock: Lock, *, file: str, fetch: Fetch | None
) -> Iterator[compat.Finding]:
    """Compare what the engine compiles while it serves with the packages of the runtime stage."""
    engine = recipe.engine or ""
    inventory = kept_inventory(workspace, recipe, lock)
    if inventory is None and lock.inventory is not None:
        inventory = _in_short(lock.inventory, engine)
    if inventory is None:
        inventory = engine_inventory(workspace, recipe, lock, fetch=fetch)
    if inventory is None:
        return
    stage = runtime_stage(workspace, recipe, lock)
    check = lacks(inventory, stage)
    for missing in check.missing:
        beside = missing.package in recipe.base.build.apt
        more = "; base.build.apt has it, and that stage is not served" if beside else ""
        more += "" if stage.certain else "; what the base carries is not known here"
        yield compat.Finding(
            rule=PACKAGES, severity="error" if stage.certain else "warning", source=_SOURCE,
            key="base.runtime.apt", message=f"{file}: {missing}{more}",
            hint=f"add {missing.package!r} to base.runtime.apt, then: rocm-images lock {recipe.name}",
            details=missing.needs,
        )  # fmt: skip
    if check.unknown:
        named = [need.partition(" ")[0] for need in check.unknown]
        bringers = sorted({name for need in named if (name := distribution_for(need)) is not None})
        yield compat.Finding(
            rule=HEADERS, severity="note", source=_SOURCE, key="engine",
            message=f"{file}: nothing here is known to bring {_some(named)}, which {engine} compiles with",
            hint=f"{' and '.join(bringers)} would; add it to 'requires'" if bringers else None,
            details=check.unknown,
        )  # fmt: skip


def _contracts(
    workspace: Workspace, recipe: Recipe, lock: Lock, *, file: str, fetch: Fetch | None
) -> Iterator[compat.Finding]:
    """Check what components import from one another, where the files of both can be had."""
    for importer, provider in recipe.contracts:
        outcome = contract(workspace, recipe, lock, (importer, provider), fetch=fetch)
        if outcome is None:
            yield compat.Finding(
                rule=CONTRACT, severity="note", source=_SOURCE, key="smoke.contracts",
                message=f"{file}: {importer} -> {provider} was not checked: the files of both have to be read",
                hint=f"rocm-images check --fetch {recipe.name}",
            )  # fmt: skip
            continue
        versions = {component.name: component.version for component in recipe.component}
        title = f"{importer} {versions[importer]} -> {provider} {versions[provider]}"
        kinds: tuple[tuple[Severity, tuple[str, ...], str], ...] = (
            ("error", outcome.missing, "are not there"),
            ("warning", outcome.optional, f"are not there, and {importer} silently does without"),
            ("note", outcome.unknown, "cannot be decided without running them"),
        )
        for severity, breaches, what in kinds:
            if breaches:
                yield compat.Finding(
                    rule=CONTRACT, severity=severity, source=_SOURCE, key="smoke.contracts", details=breaches,
                    message=f"{file}: {title}: of {outcome.checked} imports, {len(breaches)} names {what}",
                    hint=f"pin the {provider} that {importer} {versions[importer]} was made with",
                )  # fmt: skip


def _floating(recipe: Recipe, file: str) -> Iterator[Finding]:
    """Name what no pin holds."""
    for stage, base in (("build", recipe.base.build), ("runtime", recipe.base.runtime)):
        if base.image is not None and base.apt:
            yield Finding(
                image=recipe.name, severity="note", exit_code=RECIPE, check="floating", file=file,
                key=f"base.{stage}.apt",
                message=f"{_some(base.apt)} float: the archive of the base image decides their versions",
                hint="a base of kind 'debian' has them in the lock",
            )  # fmt: skip


def _in_short(table: LockedInventory, engine: str) -> Inventory:
    """Return an inventory as a lock tells it: what is needed, without the places that need it."""
    summary, where = summary_of(table), (engine,)
    kinds = tuple(
        CallSite(file=engine, line=0, kind=kind, name="", via="") for kind in summary.sites if kind != "program"
    )
    short = Inventory(
        sites=kinds,
        loaders=(),
        headers=tuple(HeaderNeed(header=name, files=where, cuda_only=False) for name in summary.headers),
        libraries=tuple(LibraryNeed(library=name, files=where, cuda_only=False) for name in summary.libraries),
        unparsed=dict.fromkeys(summary.unparsed, ""),
    )
    own = tuple(
        CallSite(file=engine, line=0, kind="program", name=name, via="")
        for name in summary.programs
        if name not in short.programs
    )
    return replace(short, sites=(*kinds, *own))


def _some(named: Sequence[str]) -> str:
    more = len(named) - _SHOWN
    return ", ".join(named[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
