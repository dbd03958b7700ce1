"""The main road: recipe, lock, plan, Dockerfile, image, smoke tests, registry, pin. Each step lives elsewhere."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from builder import context, oci, plan, record, render
from builder.context import BootstrappedBase
from builder.destinations import Destination, opened
from builder.engine import builders, images
from builder.engine.build import BuiltImage, build_image
from builder.engine.builders import Builder
from builder.engine.client import info, require_usable
from builder.errors import LockError, PatchError, PublishError, SmokeError
from builder.host.disk import require_room
from builder.machine import job_memory
from builder.mirrors import Mirrors
from builder.patchproof import about, ledger_in, tell_redundant
from builder.plan import Action, Plan
from builder.project import LOCAL, Prepared, known, prepare, recorded, went_in
from builder.publish import offer, point_moving, release, tag_is_taken
from builder.reference import Digest, LayoutReference, Place, parse_place
from builder.registries.layouts import Layout
from builder.story import Story
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
) -> Outcome:
    """Bring an image to a tested digest, published at `target`, a repository or a layout, where one is given.

    What is there already, under an equal content key and with equal tests passed, is not made again. `cache`
    False rebuilds every step. Nothing is published, and no pin is written, unless every smoke test passed on the
    given `terms`; with `strict` neither while a patch is redundant that nobody acknowledged. `builder` is one of
    buildx', the engine's own by default.
    """
    terms = terms or Terms()
    terms.card(name)  # what cannot be tested as it has to be is not built at all
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
            if _is_recorded(workspace, prepared, held.digest, terms.tiers, reference=reference):
                if destination is not None:
                    point_moving(Digest(held.digest), destination, moving, story)
                return Outcome(plan=planned, image=held.digest, reference=reference)
        state.unlink(missing_ok=True)
        image = None
        if planned.action is not Action.BUILD and cache:
            image = _fetch(
                prepared, destination, story, containerd_store=engine.containerd_store, move_tag=move_tag
            )
        if image is None:
            require_room(name, prepared.recipe.build.disk, engine, story)
            below = {
                base: _bring(
                    base, each, target, workspace=workspace, mirrors=mirrors, story=story, builder=builder
                )
                for base, each in prepared.below.items()
            }
            image = _build(
                prepared,
                below=below,
                workspace=workspace,
                mirrors=mirrors,
                story=story,
                cache=cache,
                containerd_store=engine.containerd_store,
                making=making,
            )
        write_atomic(state, _state(prepared, digest=image.id, passed=False))
        try:
            report = smoke(prepared, image.id, workspace=workspace, story=story, terms=terms)
        except SmokeError:
            _withdraw(workspace, prepared, story)
            raise
        patches = ledger_in(image.id, prepared.recipe)
        tell_redundant(prepared.recipe, patches, story, strict=strict)
        if destination is None:
            digest, reference = image.id, None
        else:
            offered = offer(image, destination, prepared.tag, move_tag=move_tag, story=story)
            digest = str(offered.image.digest)
            reference = _reference(destination, prepared, offered.image.digest)
            before = recorded(workspace, name)
            moved_from = str(offered.moved_from) if offered.moved_from is not None else None
            if before is not None and moved_from is None and before["reference"] == reference:
                moved_from = before["moved-from"]
            table = record.pin(
                prepared.recipe, prepared.lock, reference=reference or "", digest=digest,
                content_key=prepared.content_key, test_key=prepared.test_key, lock_hash=prepared.lock_hash,
                fingerprint=prepared.fingerprint, inputs=prepared.fingerprint_inputs, below=prepared.named_below,
                smoke=report.summary(), patches=patches, tags=moving, moved_from=moved_from,
                layers=record.owned_layers(offered.image.layers, prepared.rendered().owners),
            )  # fmt: skip
            release(offered, destination, moving=moving, story=story)
        write_atomic(state, _state(prepared, digest=digest, passed=True))
        if reference is not None:
            write_atomic(pin, record.dump(table))  # the last of all: what it says has happened
        return Outcome(plan=planned, image=digest, reference=reference)


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
) -> str:
    """Bring an image that another is built on to a tested digest; return how the engine calls it.

    It is published beside the one above, where that is published.
    """
    target = above.beside(name) if above is not None else None
    outcome = build(name, workspace=workspace, target=target, mirrors=mirrors, story=story, builder=builder)
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


def _build(
    prepared: Prepared,
    *,
    below: Mapping[str, str],
    workspace: Workspace,
    mirrors: Mirrors,
    story: Story,
    cache: bool,
    containerd_store: bool,
    making: Builder,
) -> BuiltImage:
    recipe, lock = prepared.recipe, prepared.lock
    said = render.manifest(recipe, lock, content_key=prepared.content_key, fingerprint=prepared.fingerprint)
    laid = context.lay_out(
        recipe, lock, prepared.rendered(), said, prepared.ledger, workspace=workspace, below=below,
        mirrors=mirrors, story=story,
    )  # fmt: skip
    bundle = mirrors.ca_bundle()
    with (
        tempfile.TemporaryDirectory(prefix="rocm-images-bases.") as folder,
        story.step(f"building {recipe.name} {prepared.tag}"),
        _secret_files(job_memory(recipe), bundle) as secrets,
    ):
        contexts = {
            f"base-{stage}": _named_context(base, Path(folder), containerd_store=containerd_store, making=making)
            for stage, base in laid.bases.items()
        }
        try:
            return build_image(
                laid.folder, dockerfile=laid.dockerfile, contexts=contexts, tag=prepared.local, epoch=lock.epoch,
                containerd_store=containerd_store, cache=cache, story=story,
                log=workspace.dist / recipe.name / "build.log",
                secrets=secrets, builder=making,
            )  # fmt: skip
        except PatchError as error:
            raise about(error, recipe) from error


@contextmanager
def _secret_files(memory: int, bundle: Path | None) -> Iterator[dict[str, Path]]:
    """Give what steps are told beside their inputs, by the id of the secret: no layer and no cache key has it."""
    with tempfile.TemporaryDirectory(prefix="rocm-images-secrets.") as folder:
        said = Path(folder) / render.JOB_MEMORY
        said.write_text(f"{memory}\n")
        yield {render.JOB_MEMORY: said} | ({render.CA_BUNDLE: bundle} if bundle else {})


def _named_context(base: BootstrappedBase | str, folder: Path, *, containerd_store: bool, making: Builder) -> str:
    """Return a base as buildx takes it; what has to be written for that goes below `folder`.

    BuildKit on the older image store reads no layouts, but what is loaded. A builder that is not the engine reads
    layouts alone of what is only on this machine.
    """
    match base:
        case str() if making.in_engine or not base.startswith(f"{LOCAL}/"):
            return f"docker-image://{base}"
        case str():
            layout = Layout(folder / f"base-{len(list(folder.iterdir()))}")
            here = Digest(images.local_id(base) or "")
            with images.saved(base) as pieces:
                document = layout.take(pieces, digest=here if containerd_store else None, config=here)
            layout.point("base", document)
            return f"oci-layout://{layout.folder}@{document.digest}"
        case BootstrappedBase() if containerd_store or not making.in_engine:
            return f"oci-layout://{base.layout}@{base.digest}"
        case BootstrappedBase():
            name = f"{LOCAL}/base:{base.digest.hex[:12]}"
            if images.local_id(name) is None:
                archive = folder / "base.tar"
                oci.write_archive(base.layout, archive, name=name)
                images.load(archive)
            return f"docker-image://{name}"
        case _:
            assert_never(base)


def _is_recorded(
    workspace: Workspace, prepared: Prepared, digest: str, tiers: Collection[str], *, reference: str | None
) -> bool:
    """Tell whether an image need not be tested again: by its record, where it is published or tiers are asked for.

    The record of a published one says from now on where it was asked for, and by which lock.
    """
    if reference is None and not tiers:
        return True
    table = recorded(workspace, prepared.recipe.name)
    if table is None or table["digest"] != digest or table["content-key"] != prepared.content_key:
        return False
    if not record.passed(table, ("cpu", *tiers)):
        return False
    if reference is not None:
        renewed = record.renewed(table, prepared.recipe, went_in(prepared), reference=reference)
        if renewed != table:
            write_atomic(workspace.pin(prepared.recipe.name), record.dump(renewed))
    return True


def _withdraw(workspace: Workspace, prepared: Prepared, story: Story) -> None:
    """Remove the record of an image that does not pass its tests now; one of other content stays."""
    table = recorded(workspace, prepared.recipe.name)
    if table is not None and table["content-key"] == prepared.content_key:
        path = workspace.pin(prepared.recipe.name)
        path.unlink()
        story.warn(f"{workspace.shown(path)}: removed, its image does not pass its smoke tests any more")


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
            raise tag_is_taken(
                place, digest, f"of content {content or 'unknown'}, expected {prepared.content_key}"
            )
        story.warn(f"{place}: the tag names other bytes and is moved")
        return None
    wanted = str(digest if containerd_store else image.config)
    if here != wanted and (got := destination.fetch(image, prepared.local, story)) != wanted:
        raise PublishError(f"{place}: the engine has {got} instead of {wanted}", hint=remedy)
    return BuiltImage(id=wanted, digest=digest if containerd_store else None)
