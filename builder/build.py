"""The main road: recipe, lock, plan, Dockerfile, image, smoke tests, registry, pin. Each step lives elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from builder import context, plan, record, render
from builder.destinations import Destination, opened
from builder.engine import builders, images
from builder.engine.build import BuiltImage
from builder.engine.client import info, require_usable
from builder.errors import Failure, LockError, PublishError, SmokeError
from builder.host.disk import require_room
from builder.making import Caches, Making, cache_place, laid_out
from builder.mirrors import Mirrors
from builder.patchproof import ledger_in, tell_redundant
from builder.plan import Action, Known, Plan, changes
from builder.project import Prepared, known, prepare, recorded, went_in
from builder.publish import offer, point_moving, release, tag_is_taken
from builder.records import covers, withdraw
from builder.reference import Digest, LayoutReference, Place, parse_place
from builder.reporting import FILE as REPORT
from builder.reporting import Run, Timed, write_report
from builder.story import Story
from builder.supply.accompany import accompany, bills_of, is_accompanied, require_signable
from builder.supply.signing import Signer
from builder.trial import Terms, smoke
from builder.workspace import Workspace, write_atomic


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a run came to. `reference` is what to pin, None for an image that was not published."""

    plan: Plan
    image: str
    reference: str | None


def plan_image(workspace: Workspace, prepared: Prepared, target: Place | None, *, mirrors: Mirrors) -> Plan:
    """Say what has to be done for an image; asks where it is published, the engine where there is no `target`."""
    with _opened(target, mirrors) as destination:
        return _planned(workspace, prepared, destination)


def _planned(workspace: Workspace, prepared: Prepared, destination: Destination | None) -> Plan:
    if destination is None:
        available, holder = images.local_id(prepared.local), "the engine"
    else:
        standing = destination.standing(prepared.tag)
        available = str(standing) if standing is not None else None
        holder = "the layout" if isinstance(destination.place, LayoutReference) else "the registry"
    return plan.decide(
        prepared.recipe.name, inputs=prepared.inputs, fingerprint=prepared.fingerprint, tests=prepared.test_key,
        known=known(workspace, prepared), published=available, holder=holder,
    )  # fmt: skip


def build(
    name: str,
    *,
    workspace: Workspace,
    target: Place | None,
    mirrors: Mirrors,
    story: Story,
    cache: bool = True,
    move_tag: bool = False,
    strict: bool = False,
    terms: Terms | None = None,
    builder: str | None = None,
    signer: Signer | None = None,
    caches: Caches = Caches(),  # noqa: B008 -- a frozen value
    ccache: bool = False,
    announce: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Bring an image to a tested digest, published at `target`, a repository or a layout, where one is given.

    A run that had something to do leaves its report, also where it failed.

    What is there already, under an equal content key and with equal tests passed, is not made again. `cache`
    False rebuilds every step. Nothing is published, and no pin is written, unless every smoke test passed on the
    given `terms`; with `strict` neither while a patch is redundant that nobody acknowledged. `builder` is one of
    buildx', the engine's own by default; `signer` signs what is published. With `ccache`, builds from source find
    what that builder compiled before, and the story has how often they did. The outcome is told to
    `announce` as soon as there is one, and only then is the cache of the steps put where `caches` says.
    """
    told, run = Timed(story), Run()
    failed: Failure | None = None
    try:
        return _build(
            name, run, workspace=workspace, target=target, mirrors=mirrors, story=told, cache=cache,
            move_tag=move_tag, strict=strict, terms=terms or Terms(), builder=builder, signer=signer,
            caches=caches, ccache=ccache, announce=announce,
        )  # fmt: skip
    except Failure as failure:
        failed = failure
        raise
    finally:
        if failed is not None or run.digest is not None:
            write_report(run, told, workspace=workspace, failure=failed)


def _build(
    name: str,
    run: Run,
    *,
    workspace: Workspace,
    target: Place | None,
    mirrors: Mirrors,
    story: Story,
    cache: bool,
    move_tag: bool,
    strict: bool,
    terms: Terms,
    builder: str | None,
    signer: Signer | None,
    caches: Caches,
    ccache: bool,
    announce: Callable[[Outcome], None],
) -> Outcome:
    terms.card(name)  # what cannot be tested as it has to be is not built at all
    require_signable(signer, target)
    with context.sole_run(workspace, name), _opened(target, mirrors) as destination:
        prepared = prepare(workspace, name)
        engine = info()
        require_usable(engine)
        making = builders.builder(builder)
        planned = _planned(workspace, prepared, destination)
        story.note(f"{name}: {planned.action} - {'; '.join(planned.reasons[:5])}")
        pin, state = workspace.pin(name), workspace.dist / name / "state.json"
        moving = prepared.recipe.publish.moving_tags
        held = known(workspace, prepared)
        if planned.action is Action.SKIP and held is not None and cache:
            reference = _reference(destination, prepared, Digest(held.digest))
            if covers(workspace, prepared, held.digest, terms.tiers, published=reference is not None):
                if destination is not None and reference is not None:
                    _keep(
                        prepared, destination, Digest(held.digest), reference=reference, workspace=workspace,
                        signer=signer, mirrors=mirrors, story=story, containerd_store=engine.containerd_store,
                    )  # fmt: skip
                    point_moving(Digest(held.digest), destination, moving, story)
                outcome = Outcome(plan=planned, image=held.digest, reference=reference)
                announce(outcome)
                return outcome
        state.unlink(missing_ok=True)
        (workspace.dist / name / REPORT).unlink(missing_ok=True)
        run.prepared, run.plan, run.before = prepared, planned, recorded(workspace, name)
        image, made_by = None, None
        if planned.action is not Action.BUILD and cache:
            image = _fetch(
                prepared, destination, story, containerd_store=engine.containerd_store, move_tag=move_tag
            )
        if image is None:
            require_room(name, prepared.recipe.build.disk, engine, making, story)
            below = {
                base: _bring(
                    base,
                    each,
                    target,
                    workspace=workspace,
                    mirrors=mirrors,
                    story=story,
                    builder=builder,
                    signer=signer,
                    caches=Caches(source=caches.source),
                    ccache=ccache,
                )
                for base, each in prepared.below.items()
            }
            made_by = Making(
                prepared=prepared, builder=making, containerd_store=engine.containerd_store, workspace=workspace,
                laid=laid_out(prepared, below=below, workspace=workspace, mirrors=mirrors, story=story),
                mirrors=mirrors, story=story, ccache=ccache,
            )  # fmt: skip
            run.built = True
            image = made_by.build(
                cache=cache, cache_from=cache_place(caches.source, name), changed=_changed(held, prepared)
            )
        write_atomic(state, _state(prepared, digest=image.id, passed=False))
        run.tested = True
        try:
            report = smoke(prepared, image.id, workspace=workspace, story=story, terms=terms)
        except SmokeError:
            withdraw(workspace, prepared, story)
            raise
        patches = run.patches = ledger_in(image.id, prepared.recipe)
        tell_redundant(prepared.recipe, patches, story, strict=strict)
        if destination is None:
            digest, reference = image.id, None
        else:
            offered = offer(image, destination, prepared.tag, move_tag=move_tag, story=story)
            digest = str(offered.image.digest)
            reference = _reference(destination, prepared, offered.image.digest)
            before = run.before
            moved_from = str(offered.moved_from) if offered.moved_from is not None else None
            if before is not None and moved_from is None and before["reference"] == reference:
                moved_from = before["moved-from"]
            made = bills_of(prepared, image.id, offered.image.digest, story)
            table = record.pin(
                prepared.recipe, prepared.lock, reference=reference or "", digest=digest,
                content_key=prepared.content_key, test_key=prepared.test_key, lock_hash=prepared.lock_hash,
                fingerprint=prepared.fingerprint, inputs=prepared.fingerprint_inputs, below=prepared.named_below,
                smoke=report.summary(), patches=patches, tags=moving, moved_from=moved_from,
                sbom=made.digests, signed=signer.kind if signer is not None else None,
                layers=record.owned_layers(offered.image.layers, prepared.rendered().owners),
            )  # fmt: skip
            accompany(
                prepared, offered.image, table, made, destination=destination, workspace=workspace, signer=signer,
                mirrors=mirrors, story=story,
            )  # fmt: skip
            release(offered, destination, moving=moving, story=story)
        write_atomic(state, _state(prepared, digest=digest, passed=True))
        if reference is not None:
            write_atomic(pin, record.dump(table))  # the last of all: what it says has happened
            run.table = table
        run.digest, run.reference = digest, reference
        outcome = Outcome(plan=planned, image=digest, reference=reference)
        announce(outcome)
        if made_by is not None:
            made_by.keep_cache(cache_place(caches.target, name))
        return outcome


def _changed(held: Known | None, prepared: Prepared) -> tuple[str, ...] | None:
    """Return the words about what changed since the last build, None where nothing is known of one."""
    if held is None:
        return None
    return held.changed or (changes(prepared.inputs, held.inputs) if held.inputs else ())


def _opened(target: Place | None, mirrors: Mirrors) -> AbstractContextManager[Destination | None]:
    return opened(target, mirrors=mirrors) if target is not None else nullcontext()


def _reference(destination: Destination | None, prepared: Prepared, digest: Digest) -> str | None:
    return str(destination.place.at(tag=prepared.tag, digest=digest)) if destination is not None else None


def _state(prepared: Prepared, *, digest: str, passed: bool) -> str:
    return record.state(
        inputs=prepared.inputs, content_key=prepared.content_key, test_key=prepared.test_key, digest=digest,
        passed=passed,
    )  # fmt: skip


def _bring(
    name: str,
    prepared: Prepared,
    above: Place | None,
    *,
    workspace: Workspace,
    mirrors: Mirrors,
    story: Story,
    builder: str | None,
    signer: Signer | None,
    caches: Caches,
    ccache: bool,
) -> str:
    """Bring an image that another is built on to a tested digest; return how the engine calls it.

    It is published beside the one above, where that is published.
    """
    target = above.beside(name) if above is not None else None
    outcome = build(
        name, workspace=workspace, target=target, mirrors=mirrors, story=story, builder=builder, signer=signer,
        caches=caches, ccache=ccache,
    )  # fmt: skip
    if images.local_id(prepared.local) is not None or outcome.reference is None:
        return prepared.local
    place = parse_place(outcome.reference)
    if isinstance(place, LayoutReference) and place.digest is not None:
        with opened(place, mirrors=mirrors) as destination:
            image = destination.held(place.digest)
            if image is None:
                raise PublishError(f"{place}: the image went away", hint=f"rocm-images build {name}")
            destination.fetch(image, prepared.local, story)
        return prepared.local
    return outcome.reference


def _keep(
    prepared: Prepared,
    destination: Destination,
    digest: Digest,
    *,
    reference: str,
    workspace: Workspace,
    signer: Signer | None,
    mirrors: Mirrors,
    story: Story,
    containerd_store: bool,
) -> None:
    """Let the record of an image that is published already say where it was asked for, and by which lock.

    What is beside the image says the same; nothing is written where all of it does so already.
    """
    name = prepared.recipe.name
    table = recorded(workspace, name) or {}
    renewed = record.renewed(table, prepared.recipe, went_in(prepared), reference=reference)
    if renewed == table and is_accompanied(table, digest, destination=destination, signer=signer, mirrors=mirrors):
        return
    image = _fetch(prepared, destination, story, containerd_store=containerd_store, move_tag=False)
    there = destination.held(digest)
    if image is None or there is None:
        raise PublishError(f"{reference}: the image went away", hint=f"rocm-images build {name}")
    made = bills_of(prepared, image.id, digest, story)
    if table["signed"] is not None and signer is None:
        story.warn(f"{reference}: its record is written anew; --sign KEY signs it again")
    renewed |= {"sbom": made.digests, "signed": signer.kind if signer is not None else None}
    accompany(
        prepared, there, renewed, made, destination=destination, workspace=workspace, signer=signer,
        mirrors=mirrors, story=story,
    )  # fmt: skip
    write_atomic(workspace.pin(name), record.dump(renewed))


def _fetch(
    prepared: Prepared,
    destination: Destination | None,
    story: Story,
    *,
    containerd_store: bool,
    move_tag: bool,
) -> BuiltImage | None:
    """Return the image that is to be tested again: the local one, or what is published.

    None for a tag that names an image of other content and may be moved. Raises `PublishError` when it may not.
    """
    here = images.local_id(prepared.local)
    remedy = f"rocm-images build {prepared.recipe.name}"
    if destination is None:
        if here is None:
            raise LockError(f"{prepared.local}: the image went away", hint=remedy)
        return BuiltImage(id=here, digest=Digest(here) if containerd_store else None)
    place = destination.place.at(tag=prepared.tag)
    digest = destination.standing(prepared.tag)
    if digest is None:
        raise PublishError(f"{place}: the image went away", hint=remedy)
    image = destination.held(digest)
    content = destination.labels(image).get(f"{render.LABEL}.content-key") if image is not None else None
    if image is None or content != prepared.content_key:
        if not move_tag:
            built = f", which is {here} here" if here is not None else ""
            raise tag_is_taken(
                place, digest, f"of content {content or 'unknown'}, expected {prepared.content_key}{built}"
            )
        story.warn(f"{place}: the tag names other bytes and is moved")
        return None
    wanted = str(digest if containerd_store else image.config)
    if here != wanted and (got := destination.fetch(image, prepared.local, story)) != wanted:
        raise PublishError(f"{place}: the engine has {got} instead of {wanted}", hint=remedy)
    return BuiltImage(id=wanted, digest=digest if containerd_store else None)
