"""The main road: recipe, lock, plan, Dockerfile, image, smoke tests, registry, pin. Each step lives elsewhere."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from builder import context, oci, plan, record, render
from builder.context import BootstrappedBase
from builder.engine import images
from builder.engine.build import BuiltImage, build_image
from builder.engine.client import info, require_usable
from builder.errors import LockError, PatchError, PublishError
from builder.host.disk import require_room
from builder.machine import job_memory
from builder.mirrors import Mirrors
from builder.patchproof import about, ledger_in, tell_redundant
from builder.plan import Action, Plan
from builder.project import LOCAL, Prepared, known, prepare
from builder.publish import publish, tag_is_taken
from builder.reference import Digest, ImageReference
from builder.story import Story
from builder.trial import Terms, smoke
from builder.workspace import Workspace, write_atomic


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a run came to. `reference` is what to pin, None for an image that was not published."""

    plan: Plan
    image: str
    reference: str | None


def plan_image(
    workspace: Workspace,
    prepared: Prepared,
    target: ImageReference | None,
    *,
    held: Mapping[str, str] | None = None,
) -> Plan:
    """Say what has to be done for an image; asks the registry where there is a `target`, else the engine.

    `held` are the engine's own images by name, from whoever asked for all of them at once.
    """
    if target is not None:
        at = images.published_digest(target.at(tag=prepared.tag))
        available = str(at) if at is not None else None
    elif held is not None:
        available = held.get(prepared.local)
    else:
        available = images.local_id(prepared.local)
    return plan.decide(
        prepared.recipe, prepared.lock, inputs=prepared.inputs, tests=prepared.test_key,
        known=known(workspace, prepared.recipe.name), published=available,
        holder="the registry" if target is not None else "the engine",
    )  # fmt: skip


def build(
    name: str,
    *,
    workspace: Workspace,
    target: ImageReference | None,
    mirrors: Mirrors,
    story: Story,
    cache: bool = True,
    move_tag: bool = False,
    strict: bool = False,
    terms: Terms | None = None,
) -> Outcome:
    """Bring an image to a tested digest, published below `target` (host and path) where one is given.

    What is there already, under an equal content key and with equal tests passed, is not made again. `cache`
    False rebuilds every step. Nothing is published, and no pin is written, unless every smoke test passed on the
    given `terms`; with `strict` neither while a patch is redundant that nobody acknowledged.
    """
    terms = terms or Terms()
    terms.card(name)  # what cannot be tested as it has to be is not built at all
    with context.sole_run(workspace, name):
        prepared = prepare(workspace, name)
        engine = info()
        require_usable(engine)
        place = target and target.at(tag=prepared.tag)
        planned = plan_image(workspace, prepared, target)
        story.note(f"{name}: {planned.action} - {'; '.join(planned.reasons[:5])}")
        results = workspace.dist / name
        pin = results / "pin.json"
        done = planned.action is Action.SKIP and (place is None or pin.exists())
        if done and cache and _ran(pin, terms.tiers):
            held = known(workspace, name)
            digest = held.digest if held else ""
            reference = str(place.at(tag=place.tag, digest=Digest(digest))) if place else None
            if reference is not None:
                _renew(pin, workspace.shown(pin), reference=reference, lock_hash=prepared.lock_hash)
            return Outcome(plan=planned, image=digest, reference=reference)
        for stale in (pin, results / "state.json"):
            stale.unlink(missing_ok=True)
        image = None
        if planned.action is not Action.BUILD and cache:
            image = _fetch(prepared, place, story, containerd_store=engine.containerd_store, move_tag=move_tag)
        if image is None:
            require_room(name, prepared.recipe.build.disk, engine, story)
            below = {
                base: _bring(base, each, target, workspace=workspace, mirrors=mirrors, story=story)
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
            )
        report = smoke(prepared, image.id, workspace=workspace, story=story, terms=terms)
        patches = ledger_in(image.id, prepared.recipe)
        tell_redundant(prepared.recipe, patches, story, strict=strict)
        if place is None:
            served, reference = None, None
        else:
            served, manifest = publish(image, place, move_tag=move_tag, story=story)
            reference = str(place.at(tag=place.tag, digest=served))
            blobs = [(layer.digest, layer.size) for layer in manifest.layers]
            table = record.pin(
                prepared.recipe, prepared.lock, reference=reference, digest=str(served),
                content_key=prepared.content_key, test_key=prepared.test_key, lock_hash=prepared.lock_hash,
                fingerprint=prepared.fingerprint, smoke=report.summary(),
                patches=patches,
                layers=record.owned_layers(blobs, prepared.rendered().owners),
            )  # fmt: skip
            write_atomic(pin, record.dump(table))
        digest = str(served or image.id)
        write_atomic(
            results / "state.json",
            record.state(
                inputs=prepared.inputs, content_key=prepared.content_key, test_key=prepared.test_key,
                digest=digest, passed=True,
            ),
        )  # fmt: skip
        return Outcome(plan=planned, image=digest, reference=reference)


def _bring(
    name: str,
    prepared: Prepared,
    above: ImageReference | None,
    *,
    workspace: Workspace,
    mirrors: Mirrors,
    story: Story,
) -> str:
    """Bring an image that another is built on to a tested digest; return how the engine calls it.

    It is published beside the one above, where that is published.
    """
    target = replace(above, path=f"{above.path.rpartition('/')[0]}/{name}".lstrip("/")) if above else None
    outcome = build(name, workspace=workspace, target=target, mirrors=mirrors, story=story)
    if images.local_id(prepared.local) is not None or outcome.reference is None:
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
) -> BuiltImage:
    recipe, lock = prepared.recipe, prepared.lock
    said = render.manifest(recipe, lock, content_key=prepared.content_key, fingerprint=prepared.fingerprint)
    laid = context.lay_out(
        recipe, lock, prepared.rendered(), said, prepared.ledger, workspace=workspace, below=below,
        mirrors=mirrors, story=story,
    )  # fmt: skip
    contexts = {
        f"base-{stage}": _named_context(base, containerd_store=containerd_store)
        for stage, base in laid.bases.items()
    }
    bundle = mirrors.ca_bundle()
    with (
        story.step(f"building {recipe.name} {prepared.tag}"),
        _secret_files(job_memory(recipe), bundle) as secrets,
    ):
        try:
            return build_image(
                laid.folder, dockerfile=laid.dockerfile, contexts=contexts, tag=prepared.local, epoch=lock.epoch,
                containerd_store=containerd_store, cache=cache, story=story,
                log=workspace.dist / recipe.name / "build.log",
                secrets=secrets,
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


def _named_context(base: BootstrappedBase | str, *, containerd_store: bool) -> str:
    """Return a base as buildx takes it. BuildKit on the older image store reads no layouts, but what is loaded."""
    match base:
        case str():
            return f"docker-image://{base}"
        case BootstrappedBase() if containerd_store:
            return f"oci-layout://{base.layout}@{base.digest}"
        case BootstrappedBase():
            name = f"{LOCAL}/base:{base.digest.hex[:12]}"
            if images.local_id(name) is None:
                with tempfile.TemporaryDirectory(prefix="rocm-images-base.") as folder:
                    archive = Path(folder) / "base.tar"
                    oci.write_archive(base.layout, archive, name=name)
                    images.load(archive)
            return f"docker-image://{name}"
        case _:
            assert_never(base)


def _ran(pin: Path, tiers: Collection[str]) -> bool:
    """Tell whether the image that a pin is of passed its tests in these tiers."""
    if not tiers:
        return True
    smoke_tests = json.loads(pin.read_text(encoding="utf-8"))["smoke"] if pin.exists() else {"tiers": {}}
    return all(smoke_tests["tiers"].get(tier) == "passed" for tier in tiers)


def _renew(pin: Path, shown: str, *, reference: str, lock_hash: str) -> None:
    """Let the pin of an image that is there already say where it was asked for now."""
    text = pin.read_text()
    renewed = record.dump(
        record.renewed(record.parse_pin(text, file=shown), reference=reference, lock_hash=lock_hash)
    )
    if renewed != text:
        write_atomic(pin, renewed)


def _fetch(
    prepared: Prepared,
    place: ImageReference | None,
    story: Story,
    *,
    containerd_store: bool,
    move_tag: bool,
) -> BuiltImage | None:
    """Return the image that is to be tested again: the local one, or the registry's.

    None for a registry whose tag names an image of other content and may be moved. Raises `PublishError` when it
    may not.
    """
    here = images.local_id(prepared.local)
    if place is None:
        if here is None:
            raise LockError(
                f"{prepared.local}: the image went away", hint=f"rocm-images build {prepared.recipe.name}"
            )
        return BuiltImage(id=here, digest=Digest(here) if containerd_store else None)
    digest = images.published_digest(place)
    if digest is not None and here == str(digest):
        return BuiltImage(id=here, digest=digest)
    if digest is None:
        raise PublishError(f"{place}: the image went away", hint=f"rocm-images build {prepared.recipe.name}")
    image = images.pull(place.at(digest=digest), story)
    content = images.labels(image).get(f"{render.LABEL}.content-key")
    if content == prepared.content_key:
        return BuiltImage(id=image, digest=digest if containerd_store else None)
    images.remove(str(place.at(digest=digest)))
    if not move_tag:
        raise tag_is_taken(place, digest, f"of content {content or 'unknown'}, expected {prepared.content_key}")
    story.warn(f"{place}: the tag names other bytes and is moved")
    return None
